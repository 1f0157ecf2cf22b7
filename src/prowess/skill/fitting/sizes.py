"""Leaving out files until a skill is within the limits of the MCP extension."""

from __future__ import annotations

from prowess.skill.filenames import SIDECAR, is_skill_md
from prowess.skill.package import File, Package
from prowess.skill.profiles import codex
from prowess.skill.profiles.mcp import BYTES_LIMIT, FILES_LIMIT

_KEPT = frozenset({SIDECAR, codex.SIDECAR})


def surplus(package: Package) -> list[File]:
    """The files to leave out: assets before others, the largest first, never what says what the skill is."""
    count, total = len(package.files), sum(len(file.content) for file in package.files)
    gone: list[File] = []
    for file in sorted((file for file in package.files if not _is_kept(file.path)), key=_order):
        if count <= FILES_LIMIT and total <= BYTES_LIMIT:
            break
        gone.append(file)
        count, total = count - 1, total - len(file.content)
    return gone


def _is_kept(path: str) -> bool:
    return path in _KEPT or is_skill_md(path)


def _order(file: File) -> tuple[bool, int, str]:
    return (not file.path.startswith("assets/"), -len(file.content), file.path)
