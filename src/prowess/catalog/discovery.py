"""Finding the skill folders that agents already use, in a workspace and in a person's home."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from prowess.catalog.agents import AGENTS
from prowess.storage.folders import PASSED_BY, find_skills

PLAIN_NAMES = frozenset({"skills", "data/skills", "agent/skills"})
"""Project folders that other things are called as well: they count only where they hold skills."""

NESTED_DEPTH = 3
NESTED_FOLDERS = 2000

_FIRST = (".agents/skills", ".claude/skills")


@cache
def project_folders() -> tuple[str, ...]:
    """The skill folders of projects, each once: the one that most agents read first."""
    return tuple(dict.fromkeys([*_FIRST, *sorted(agent.project for agent in AGENTS)]))


def workspace_roots(workspace: Path) -> list[Path]:
    """The skill folders that exist in a workspace, nearest first, each once.

    They are looked for in the workspace, in every folder above it up to the root of its repository, and in folders
    below it (three levels deep, among the first 2,000 folders, hidden ones left out). A skill folder that is a link
    out of the repository is left out, since whoever wrote the repository chose where it leads.
    """
    workspace = workspace.absolute()
    bases = _up_to_repository(workspace)
    top = bases[-1].resolve()
    found = [root for base in bases for root in _roots_in(base)]
    found += _nested_roots(workspace)
    return _unique(root for root in found if root.resolve().is_relative_to(top))


def _up_to_repository(workspace: Path) -> list[Path]:
    """The workspace and the folders above it up to the one with `.git`; outside of a repository, the workspace only."""
    line = [workspace, *workspace.parents]
    for place, folder in enumerate(line):
        if (folder / ".git").exists():
            return line[: place + 1]
    return [workspace]


def _roots_in(base: Path) -> Iterator[Path]:
    for name in project_folders():
        root = base / name
        if root.is_dir() and (name not in PLAIN_NAMES or _holds_skills(root)):
            yield root


def _holds_skills(folder: Path) -> bool:
    return next(find_skills(folder), None) is not None


def _nested_roots(workspace: Path) -> Iterator[Path]:
    """Skill folders below the workspace, level by level."""
    level = [workspace]
    looked_at = 0
    for _ in range(NESTED_DEPTH):
        level = [folder for parent in level for folder in _folders_in(parent)]
        for folder in level:
            looked_at += 1
            if looked_at > NESTED_FOLDERS:
                return
            yield from (root for root in _hidden_roots(folder) if root.is_dir())


def _folders_in(parent: Path) -> list[Path]:
    names = (name for name in _folder_names(parent) if not name.startswith(".") and name not in PASSED_BY)
    return [parent / name for name in names]


def _hidden_roots(folder: Path) -> Iterator[Path]:
    present = {name for name in _folder_names(folder) if name.startswith(".")}
    for name in project_folders():
        if name.partition("/")[0] in present:
            yield folder / name


def _folder_names(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as listing:
            return sorted(entry.name for entry in listing if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []


def user_roots(home: Path, environment: Mapping[str, str]) -> list[Path]:
    """The skill folders that exist in a person's home, or where the agents' own variables say, each once."""
    found = [home / _FIRST[0]]
    for agent in AGENTS:
        found += _user_places(agent.user, home, environment)
    return _unique(root for root in found if root.is_dir())


def _user_places(places: tuple[str, ...], home: Path, environment: Mapping[str, str]) -> list[Path]:
    """Where an agent keeps a person's skills: where its variable says, or the first of its places that exists."""
    for place in places:
        head, _, rest = place.partition("/")
        if head == "~":
            if (home / rest).is_dir():
                return [home / rest]
        elif Path(environment.get(head[1:]) or "").is_absolute():
            return [Path(environment[head[1:]]) / rest]
    return []


def _unique(roots: Iterator[Path]) -> list[Path]:
    """Each folder once, however many names lead to it."""
    unique: dict[Path, Path] = {}
    for root in roots:
        unique.setdefault(root.resolve(), root)
    return list(unique.values())


def sibling_roots(root: Path) -> list[Path]:
    """The other well-known skill folders of the same base: of the same project, or the same home."""
    known = {*project_folders(), *(place[2:] for agent in AGENTS for place in agent.user if place.startswith("~/"))}
    text = str(root)
    names = [name for name in known if text.endswith("/" + name)]
    if not names:
        return []
    base = Path(text.removesuffix("/" + max(names, key=len)))
    return [base / name for name in sorted(known) if (base / name).is_dir()]
