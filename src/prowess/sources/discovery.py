"""Find the skills in a listing of files, by the rules of the skills CLI, or of a github source of Agentcy.

A listing has the paths of all files, relative to its root, so that git trees and folders on disk are searched alike.

The rules of the CLI: a SKILL.md at the root is the only skill. Otherwise skills are the folders directly below the root and
below the known containers (`skills/`, the folders of agents, those that a plugin manifest names); in a container also one level
deeper, as in `skills/category/name`. Only if there are none there, folders up to five levels deep are searched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from prowess.skill.filenames import is_marker, outermost_folders
from prowess.skill.json_values import json_list, json_object, json_value
from prowess.skill.text.reader import read_document

ReadText = Callable[[str], bytes | None]
"""Returns the content of a file of the listing, or None if it cannot be read."""

MAX_DEPTH = 5
SKIPPED_FOLDERS = frozenset({"node_modules", ".git", "dist", "build", "__pycache__"})

_AGENTS = (
    "agents", "claude", "cline", "codebuddy", "codex", "commandcode", "continue", "cursor", "gemini", "github",
    "goose", "iflow", "junie", "kilocode", "kiro", "mux", "neovate", "opencode", "openhands", "pi", "qoder", "roo", "trae",
    "windsurf", "zcode", "zencoder",
)  # fmt: skip
AGENT_FOLDERS = tuple(f".{agent}/skills" for agent in _AGENTS)
"""Where agents keep the skills of a project: the list of the skills CLI, and the folders of Cursor and Gemini."""
_CONTAINERS = ("skills", "skills/.curated", "skills/.experimental", "skills/.system", *AGENT_FOLDERS)

_PROJECT_DOCUMENTS = frozenset([
    "agents", "changelog", "claude", "code_of_conduct", "codeowners", "contributing", "gemini", "governance",
    "history", "license", "notice", "pull_request_template", "readme", "security", "support", "third-party-notices",
])  # fmt: skip
"""Markdown files that describe a repository rather than a skill, in lower case and without the suffix."""

_MARKETPLACE, _PLUGIN, _LOCK = ".claude-plugin/marketplace.json", ".claude-plugin/plugin.json", "skills-lock.json"

_FRONTMATTER = re.compile(rb"(?:\xef\xbb\xbf)?---[ \t]*\r?\n(.{0,16384}?)^---[ \t]*\r?$", re.DOTALL | re.MULTILINE)
_NAME = re.compile(rb"^name[ \t]*:[ \t]*(.{1,200}?)[ \t]*\r?$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """The skills of a listing: folders, and single Markdown files; in the order in which the first of a name wins."""

    folders: tuple[str, ...] = ()
    files: tuple[str, ...] = ()


def discover(paths: Iterable[str], read: ReadText) -> Discovery:
    """Return the skills of a listing by the rules of the skills CLI."""
    listing = list(paths)
    marked = {folder for folder, _, name in (path.rpartition("/") for path in listing) if is_marker(name)}
    if "" in marked:
        return Discovery(folders=("",))
    # A dictionary as an ordered set: the same folder may be found in several ways.
    found: dict[str, None] = {}
    installed = frozenset(map(normalize_name, json_object(_read_object(read, _LOCK).get("skills"))))
    by_parent = _group_by_parent(marked)
    for container in ("", *_CONTAINERS):
        found.update(dict.fromkeys(_skills_in(container, marked, by_parent, deep=container != "")))
    for container in _plugin_containers(read):
        found.update(dict.fromkeys(_skills_in(container, marked, by_parent, deep=False)))
    if not found:
        found.update(dict.fromkeys(sorted(folder for folder in marked if _is_searched(folder))))
    return Discovery(folders=tuple(folder for folder in found if not _is_installed(folder, installed)))


def discover_markdown(paths: Iterable[str]) -> Discovery:
    """Return every skill folder at any depth, and every Markdown file outside of them.

    Documents of the repository itself, such as README.md, are left out.
    """
    listing = [path for path in paths if not any(part in SKIPPED_FOLDERS for part in path.split("/")[:-1])]
    folders = outermost_folders(path.rpartition("/")[0] for path in listing if is_marker(path.rpartition("/")[2]))
    if "" in folders:
        return Discovery(folders=("",))
    owned = set(folders)
    files = [path for path in listing if _is_skill_document(path) and owned.isdisjoint(_parents(path))]
    return Discovery(folders=tuple(folders), files=tuple(sorted(files)))


def declared_name(document: bytes) -> str:
    """Return the name in the frontmatter of a document, without reading it as YAML; '' if there is none."""
    head = _FRONTMATTER.match(document)
    name = _NAME.search(head[1]) if head else None
    return name[1].decode(errors="replace").strip("'\" ") if name else ""


def is_internal(document: bytes) -> bool:
    """Return True if the frontmatter says `metadata: internal: true`: then only a request for this skill by name gets it."""
    head = _FRONTMATTER.match(document)
    if head is None or b"internal" not in head[1]:
        return False  # most skills, which need no reading as YAML
    return json_object(read_document(head[0]).fields.get("metadata")).get("internal") == "true"


def normalize_name(name: str) -> str:
    """Return a name in lower case with hyphens, as the skills CLI compares names."""
    return re.sub(r"[\s_]+", "-", name.lower())


def _group_by_parent(folders: Iterable[str]) -> dict[str, list[str]]:
    """Return the folders by the folder that they are in, sorted."""
    groups: dict[str, list[str]] = {}
    for folder in sorted(folders):
        if folder:
            groups.setdefault(folder.rpartition("/")[0], []).append(folder)
    return groups


def _skills_in(container: str, marked: set[str], by_parent: dict[str, list[str]], *, deep: bool) -> list[str]:
    """Return the skills directly in a container, and with `deep` those one level below."""
    found = list(by_parent.get(container, ()))
    if not deep:
        return found
    for parent, folders in by_parent.items():
        above, _, name = parent.rpartition("/")
        # A skill owns everything below it, so only other folders are categories.
        if parent and above == container and parent not in marked and name not in SKIPPED_FOLDERS:
            found += [folder for folder in folders if folder.rpartition("/")[2] not in SKIPPED_FOLDERS]
    return sorted(found)


def _is_searched(folder: str) -> bool:
    parts = folder.split("/") if folder else []
    return len(parts) <= MAX_DEPTH and SKIPPED_FOLDERS.isdisjoint(parts)


def _parents(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]


def _is_skill_document(path: str) -> bool:
    name = path.rpartition("/")[2].lower()
    return name.endswith(".md") and name.removesuffix(".md") not in _PROJECT_DOCUMENTS


def _is_installed(folder: str, installed: frozenset[str]) -> bool:
    """Return True for a copy of a foreign skill that the repository uses itself, as its lock file says."""
    if not installed or normalize_name(folder.rpartition("/")[2]) not in installed:
        return False
    return any(folder.startswith(f"{place}/") for place in AGENT_FOLDERS)


def _plugin_containers(read: ReadText) -> list[str]:
    """Return the folders that the plugin manifests say have skills in them."""
    containers: list[str] = []
    marketplace = _read_object(read, _MARKETPLACE)
    root = json_object(marketplace.get("metadata")).get("pluginRoot")
    for entry in json_list(marketplace.get("plugins")):
        plugin = json_object(entry)
        base = _join_relative(root, plugin.get("source"))
        if base is not None and isinstance(entry, dict):
            containers += _skill_containers(base, plugin.get("skills"))
    # Only if there is a manifest: otherwise this would be the container `skills` once more.
    if plugin := _read_object(read, _PLUGIN):
        containers += _skill_containers("", plugin.get("skills"))
    return containers


def _skill_containers(base: str, skills: object) -> list[str]:
    named = [_join_relative(path, base=base) for path in json_list(skills) if isinstance(path, str)]
    above = [path.rpartition("/")[0] for path in named if path]
    return [*above, f"{base}/skills" if base else "skills"]


def _join_relative(*paths: object, base: str = "") -> str | None:
    """Return paths that start with `./`, joined below a base; None if one is malformed or leads outside."""
    parts = [base] if base else []
    for path in paths:
        if path is None:
            continue
        if not isinstance(path, str) or not path.startswith("./"):
            return None
        parts += [part for part in path.split("/") if part not in ("", ".")]
    return None if ".." in "/".join(parts).split("/") else "/".join(parts)


def _read_object(read: ReadText, path: str) -> dict[str, Any]:
    return json_object(json_value(read(path) or b"{}"))
