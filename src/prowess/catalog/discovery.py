"""Find the skill folders that agents already use, in a workspace and in a home directory.

This runs at every start and every listing, so it works on plain strings and looks at each folder once.
"""

# ruff: noqa: PTH110, PTH112, PTH116, PTH117, PTH118, PTH120
from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from prowess.paths import expand_user
from prowess.storage.files.skill_paths import IGNORED_FOLDERS, TEMP_PREFIX, find_skills

_GLANCED_AT = 16


class AgentFolders(NamedTuple):
    """The skill folders of one agent: below a project, and below a home directory or a variable, first match wins."""

    agent: str
    project: str
    user: tuple[str, ...]
    also: tuple[str, ...] = ()
    """Further folders that the agent reads, its own and those of others: below a project, or below a home directory (`~/`)."""

    def reads(self, project: str) -> bool:
        """Return True if the agent reads a skill folder of projects."""
        return project in (self.project, *self.also)

    def user_groups(self) -> list[tuple[str, ...]]:
        """Return the folders below a home directory, of each group the first match."""
        return [self.user, *((place,) for place in self.also if place.startswith("~/"))]


AGENTS: tuple[AgentFolders, ...] = (
    AgentFolders("aider-desk", ".aider-desk/skills", ("~/.aider-desk/skills",)),
    AgentFolders("amp", ".agents/skills", ("$XDG_CONFIG_HOME/agents/skills", "~/.config/agents/skills")),
    AgentFolders(
        "antigravity", ".agents/skills", ("~/.gemini/antigravity/skills",), (".agent/skills", "~/.gemini/config/skills")
    ),
    AgentFolders("antigravity-cli", ".agents/skills", ("~/.gemini/antigravity-cli/skills",)),
    AgentFolders("astrbot", "data/skills", ("~/.astrbot/data/skills",)),
    AgentFolders("autohand-code", ".autohand/skills", ("$AUTOHAND_HOME/skills", "~/.autohand/skills")),
    AgentFolders("augment", ".augment/skills", ("~/.augment/skills",)),
    AgentFolders("bob", ".bob/skills", ("~/.bob/skills",)),
    AgentFolders("claude-code", ".claude/skills", ("$CLAUDE_CONFIG_DIR/skills", "~/.claude/skills")),
    AgentFolders("openclaw", "skills", ("~/.openclaw/skills", "~/.clawdbot/skills", "~/.moltbot/skills")),
    AgentFolders(
        "cline",
        ".agents/skills",
        ("~/.agents/skills",),
        (".cline/skills", ".clinerules/skills", ".claude/skills", "~/.cline/skills"),
    ),
    AgentFolders("codearts-agent", ".codeartsdoer/skills", ("~/.codeartsdoer/skills",)),
    AgentFolders("codebuddy", ".codebuddy/skills", ("~/.codebuddy/skills",)),
    AgentFolders("codemaker", ".codemaker/skills", ("~/.codemaker/skills",)),
    AgentFolders("codestudio", ".codestudio/skills", ("~/.codestudio/skills",)),
    AgentFolders("codex", ".agents/skills", ("$CODEX_HOME/skills", "~/.codex/skills"), (".codex/skills",)),
    AgentFolders("command-code", ".commandcode/skills", ("~/.commandcode/skills",)),
    AgentFolders("continue", ".continue/skills", ("~/.continue/skills",)),
    AgentFolders("cortex", ".cortex/skills", ("~/.snowflake/cortex/skills",)),
    AgentFolders(
        "crush",
        ".crush/skills",
        ("~/.config/crush/skills",),
        (".agents/skills", ".claude/skills", ".cursor/skills"),
    ),
    AgentFolders(
        "cursor", ".agents/skills", ("~/.cursor/skills",), (".cursor/skills", ".claude/skills", ".codex/skills")
    ),
    AgentFolders("deepagents", ".agents/skills", ("~/.deepagents/agent/skills",)),
    AgentFolders("devin", ".devin/skills", ("$XDG_CONFIG_HOME/devin/skills", "~/.config/devin/skills")),
    AgentFolders("dexto", ".agents/skills", ("~/.agents/skills",)),
    AgentFolders("droid", ".factory/skills", ("~/.factory/skills",), (".agent/skills",)),
    AgentFolders("eve", "agent/skills", ()),
    AgentFolders("firebender", ".agents/skills", ("~/.firebender/skills",)),
    AgentFolders("forgecode", ".forge/skills", ("~/.forge/skills",)),
    AgentFolders("gemini-cli", ".agents/skills", ("~/.gemini/skills",), (".gemini/skills",)),
    AgentFolders("github-copilot", ".agents/skills", ("~/.copilot/skills",), (".github/skills", ".claude/skills")),
    AgentFolders(
        "goose",
        ".goose/skills",
        ("$XDG_CONFIG_HOME/goose/skills", "~/.config/goose/skills"),
        (".agents/skills", ".claude/skills"),
    ),
    AgentFolders("hermes-agent", ".hermes/skills", ("$HERMES_HOME/skills", "~/.hermes/skills")),
    AgentFolders("inference-sh", ".inferencesh/skills", ("~/.inferencesh/skills",)),
    AgentFolders("jazz", ".jazz/skills", ("~/.jazz/skills",)),
    AgentFolders("junie", ".junie/skills", ("~/.junie/skills",)),
    AgentFolders("iflow-cli", ".iflow/skills", ("~/.iflow/skills",)),
    AgentFolders(
        "kilo",
        ".kilocode/skills",
        ("~/.kilocode/skills",),
        (".kilo/skills", ".agents/skills", "~/.kilo/skills"),
    ),
    AgentFolders("kimi-code-cli", ".agents/skills", ("~/.agents/skills",)),
    AgentFolders("kiro-cli", ".kiro/skills", ("~/.kiro/skills",)),
    AgentFolders("kode", ".kode/skills", ("~/.kode/skills",)),
    AgentFolders("lingma", ".lingma/skills", ("~/.lingma/skills",)),
    AgentFolders("loaf", ".agents/skills", ("~/.agents/skills",)),
    AgentFolders("mcpjam", ".mcpjam/skills", ("~/.mcpjam/skills",)),
    AgentFolders("mistral-vibe", ".vibe/skills", ("$VIBE_HOME/skills", "~/.vibe/skills")),
    AgentFolders("moxby", ".moxby/skills", ("~/.moxby/skills",)),
    AgentFolders("mux", ".mux/skills", ("~/.mux/skills",)),
    AgentFolders(
        "opencode",
        ".agents/skills",
        ("$XDG_CONFIG_HOME/opencode/skills", "~/.config/opencode/skills"),
        (".opencode/skills", ".claude/skills"),
    ),
    AgentFolders("openhands", ".openhands/skills", ("~/.openhands/skills",)),
    AgentFolders("ona", ".ona/skills", ("~/.ona/skills",)),
    AgentFolders("pi", ".pi/skills", ("~/.pi/agent/skills",)),
    AgentFolders("qoder", ".qoder/skills", ("~/.qoder/skills",)),
    AgentFolders("qoder-cn", ".qoder/skills", ("~/.qoder-cn/skills",)),
    AgentFolders("qwen-code", ".qwen/skills", ("~/.qwen/skills",)),
    AgentFolders("replit", ".agents/skills", ("$XDG_CONFIG_HOME/agents/skills", "~/.config/agents/skills")),
    AgentFolders("reasonix", ".reasonix/skills", ("~/.reasonix/skills",)),
    AgentFolders("rovodev", ".rovodev/skills", ("~/.rovodev/skills",)),
    AgentFolders("roo", ".roo/skills", ("~/.roo/skills",)),
    AgentFolders("tabnine-cli", ".tabnine/agent/skills", ("~/.tabnine/agent/skills",)),
    AgentFolders("terramind", ".terramind/skills", ("~/.terramind/skills",)),
    AgentFolders("tinycloud", ".tinycloud/skills", ("~/.tinycloud/skills",)),
    AgentFolders("trae", ".trae/skills", ("~/.trae/skills",)),
    AgentFolders("trae-cn", ".trae/skills", ("~/.trae-cn/skills",)),
    AgentFolders("warp", ".agents/skills", ("~/.agents/skills",)),
    AgentFolders("windsurf", ".windsurf/skills", ("~/.codeium/windsurf/skills",)),
    AgentFolders("zed", ".agents/skills", ("~/.agents/skills",)),
    AgentFolders("zcode", ".zcode/skills", ("~/.zcode/skills",)),
    AgentFolders("zencoder", ".zencoder/skills", ("~/.zencoder/skills",)),
    AgentFolders("zenflow", ".zencoder/skills", ("~/.zencoder/skills",)),
    AgentFolders("neovate", ".neovate/skills", ("~/.neovate/skills",)),
    AgentFolders("pochi", ".pochi/skills", ("~/.pochi/skills",)),
    AgentFolders("promptscript", ".agents/skills", ()),
    AgentFolders("adal", ".adal/skills", ("~/.adal/skills",)),
    AgentFolders("universal", ".agents/skills", ("$XDG_CONFIG_HOME/agents/skills", "~/.config/agents/skills")),
)


PLAIN_NAMES = frozenset({"skills", "data/skills", "agent/skills"})
"""Project folders with names that are also used for other things. They count only if they contain skills."""

# Limits for the search at every start, however large the workspace is.
NESTED_DEPTH = 3
NESTED_FOLDERS = 2000

_FIRST = (".agents/skills", ".claude/skills")


@cache
def project_folders() -> tuple[str, ...]:
    """Return the skill folders of projects, each once, starting with those that most agents read."""
    names = {name for agent in AGENTS for name in (agent.project, *agent.also) if not name.startswith("~/")}
    return tuple(dict.fromkeys([*_FIRST, *sorted(names)]))


def workspace_roots(workspace: Path) -> list[Path]:
    """Return the skill folders that exist in a workspace, nearest first, each once.

    Searches the workspace, every folder above it up to the root of its repository, and folders below it (three levels deep,
    the first 2,000 folders, hidden ones excluded). A skill folder that is a link out of the repository is excluded, since
    the author of the repository chose where it leads.
    """
    start = str(workspace.absolute())
    bases = _up_to_repository(start)
    top = os.path.realpath(bases[-1])
    found = [root for base in bases for root in _roots_in(base)]
    found += _nested_roots(start, passed=frozenset(found))
    inside = top.rstrip("/") + "/"
    return [Path(root) for real, root in _unique(found).items() if real == top or real.startswith(inside)]


def emptied_roots(workspace: Path) -> list[Path]:
    """Return the folders with a plain name in which `workspace_roots` would find skills, but which hold none now."""
    bases = _up_to_repository(str(workspace.absolute()))
    top = os.path.realpath(bases[-1])
    found = (root for base in bases for name, root in _project_paths(base) if name in PLAIN_NAMES)
    empty = _unique(root for root in found if _is_folder(root) and not _holds_skills(root))
    return [Path(root) for real, root in empty.items() if real.startswith(top.rstrip("/") + "/")]


def _up_to_repository(workspace: str) -> list[str]:
    """Return the workspace and the folders above it up to the one with `.git`; outside a repository, only the workspace."""
    line = [workspace]
    # `exists`, because `.git` is a file in a work tree.
    while not os.path.exists(os.path.join(line[-1], ".git")):
        above = os.path.dirname(line[-1])
        if above == line[-1]:
            return [workspace]
        line.append(above)
    return line


def _roots_in(base: str) -> Iterator[str]:
    for name, root in _project_paths(base):
        if _is_folder(root) and (name not in PLAIN_NAMES or _holds_skills(root)):
            yield root


@lru_cache(maxsize=64)
def _project_paths(base: str) -> tuple[tuple[str, str], ...]:
    return tuple((name, os.path.join(base, name)) for name in project_folders())


def _is_folder(path: str) -> bool:
    # Most of the folders that agents could have do not exist, which `access` says in half the time of `isdir`.
    return os.access(path, os.F_OK) and os.path.isdir(path)


def _holds_skills(folder: str) -> bool:
    # Most folders show it by their first entries, in any order; `find_skills` sorts them all.
    try:
        with os.scandir(folder) as listing:
            for entry in islice(listing, _GLANCED_AT):
                inner = not entry.is_symlink() and entry.name not in IGNORED_FOLDERS
                if inner and not entry.name.startswith(TEMP_PREFIX) and os.path.exists(f"{entry.path}/SKILL.md"):
                    return True
    except OSError:
        pass
    return next(find_skills(Path(folder)), None) is not None


def _nested_roots(workspace: str, *, passed: frozenset[str]) -> Iterator[str]:
    """Yield skill folders below the workspace, level by level. Those that are known already are not searched."""
    level = _folders_in(workspace)[0]
    looked_at = 0
    for _ in range(NESTED_DEPTH):
        below: list[str] = []
        for folder in level:
            if folder in passed:
                continue
            looked_at += 1
            if looked_at > NESTED_FOLDERS:
                return
            visible, hidden = _folders_in(folder)
            below += visible
            if hidden:
                yield from (root for root in _hidden_roots(folder, hidden) if os.path.isdir(root))
        level = below


def _hidden_roots(folder: str, hidden: set[str]) -> Iterator[str]:
    for name in project_folders():
        if name.partition("/")[0] in hidden:
            yield os.path.join(folder, name)


def _folders_in(parent: str) -> tuple[list[str], set[str]]:
    """Return the paths of the folders worth searching, sorted, and the names of the hidden ones."""
    try:
        with os.scandir(parent) as listing:
            names = [entry.name for entry in listing if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return [], set()
    visible = [name for name in names if not name.startswith(".") and name not in IGNORED_FOLDERS]
    return [os.path.join(parent, name) for name in sorted(visible)], {name for name in names if name.startswith(".")}


def user_roots(home: Path, environment: Mapping[str, str]) -> list[Path]:
    """Return the skill folders that exist in a home directory, or where the agents' own variables point, each once."""
    groups = _user_paths(str(home), tuple(environment.get(name) or "" for name in _variables()))
    found = (next(filter(_is_folder, paths), "") for paths in groups)
    return [Path(root) for root in _unique(root for root in found if root).values()]


@cache
def _variables() -> tuple[str, ...]:
    """Return the environment variables that can say where skills of users are."""
    heads = (path.partition("/")[0] for agent in AGENTS for path in agent.user)
    return tuple(dict.fromkeys(head[1:] for head in heads if head.startswith("$")))


@lru_cache(maxsize=16)
def _user_paths(home: str, values: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Return where the agents keep skills of a user, given the values of `_variables`: of each group, the first that exists."""
    environment = dict(zip(_variables(), values, strict=True))
    groups = [_agent_paths(group, home, environment) for agent in AGENTS for group in agent.user_groups()]
    return tuple(dict.fromkeys([(os.path.join(home, _FIRST[0]),), *groups]))


def _agent_paths(places: tuple[str, ...], home: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return where an agent looks for skills of a user: where its variable points, or the first of its folders that exists."""
    paths: list[str] = []
    for place in places:
        head, _, rest = place.partition("/")
        if head == "~":
            paths.append(os.path.join(home, rest))
        # A relative path would mean another folder in every working directory.
        elif os.path.isabs(environment.get(head[1:]) or ""):
            return (*paths, os.path.join(environment[head[1:]], rest))
    return tuple(paths)


def find_agents(root: Path, home: Path, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the agents that read a skill folder."""
    text, base = str(root), str(home)
    users = {
        agent.agent
        for agent in AGENTS
        for group in agent.user_groups()
        if text == next(filter(_is_folder, _agent_paths(group, base, environment)), "")
    }
    # The longest name counts: `.claude/skills` ends like the folder `skills` of another agent, as folders in a home do.
    names = (name for name in project_folders() if text.endswith("/" + name) and not (users and name in PLAIN_NAMES))
    project = max(names, key=len, default="")
    return tuple(agent.agent for agent in AGENTS if agent.reads(project) or agent.agent in users)


def _unique(roots: Iterable[str]) -> dict[str, str]:
    """Return each folder once, by its real path, under the first name that leads to it."""
    unique: dict[str, str] = {}
    for root in roots:
        # One folder may be linked under the names of several agents; its skills must not be listed twice.
        unique.setdefault(os.path.realpath(root), root)
    return unique


def sibling_roots(root: Path) -> list[Path]:
    """Return the other well-known skill folders of the same project or home directory."""
    places = (path for agent in AGENTS for group in agent.user_groups() for path in group)
    known = {*project_folders(), *(path[2:] for path in places if path.startswith("~/"))}
    text = str(root)
    names = [name for name in known if text.endswith("/" + name)]
    if not names:
        return []
    base = Path(text.removesuffix("/" + max(names, key=len)))
    return [base / name for name in sorted(known) if (base / name).is_dir()]


class FolderOwners:
    """Decides whose folders are read: those of this user and of root, as git does since CVE-2022-24765.

    Under `sudo` the folders of the user who called it are read too. Folders in `safe`, and everything below them, are read
    no matter who owns them; `*` means all folders.
    """

    def __init__(self, safe: Iterable[str], environment: Mapping[str, str]) -> None:
        user = os.geteuid()
        called_by = environment.get("SUDO_UID", "")
        sudo = {int(called_by)} if not user and called_by.isascii() and called_by.isdigit() else set[int]()
        self._users = frozenset({user, 0} | sudo)
        self._safe = [folder if folder == "*" else os.path.realpath(expand_user(folder)) for folder in safe]

    def foreign_owner(self, root: Path, start: Path) -> int | None:
        """Return the id of another user to whom a skill folder belongs, or a folder on the way to it; None if it may be read.

        `start` is the workspace or home folder for which it was found.
        """
        for folder in _folders_on_the_way(os.path.realpath(root), os.path.realpath(start)):
            try:
                owner = os.stat(folder).st_uid
            except OSError:
                continue  # it has gone; reading it fails, too
            if owner not in self._users and not self._is_safe(folder):
                return owner
        return None

    def _is_safe(self, folder: str) -> bool:
        return any(safe in ("*", folder) or folder.startswith(safe.rstrip("/") + "/") for safe in self._safe)


def _folders_on_the_way(root: str, start: str) -> list[str]:
    """Return a skill folder and the folders above it, up to `start`, or up to the first one that contains `start`."""
    way = [root]
    while (above := os.path.dirname(way[-1])) not in (way[-1], start):
        way.append(above)
        if start.startswith(above.rstrip("/") + "/"):
            break
    return way
