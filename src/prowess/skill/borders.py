"""Where one skill ends and the next begins: what marks a skill's folder, what in it is not part of the skill."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, cast

from prowess.skill.filenames import SKILL_MD

MARKERS = frozenset({SKILL_MD.lower(), "skill.json"})
"""A folder that holds one of these, in upper or lower case, is a skill; everything below it belongs to it.

The old spelling SKILLS.md is read as SKILL.md but marks no folder: collections call the list of their skills so.
"""

SKIPPED = frozenset({".git", "__pycache__", "node_modules", "__MACOSX", ".DS_Store"})
"""Left behind by tools; never part of a skill, wherever it lies."""

LONE_SUFFIXES = (".md", ".json", ".yaml", ".yml")
"""A single file can be a whole skill, too; these are the endings it may have."""


_FRONTMATTER = re.compile(rb"(?:\xef\xbb\xbf)?---[ \t]*\r?\n(.{0,16384}?)^---[ \t]*\r?$", re.DOTALL | re.MULTILINE)
_KEY = re.compile(rb"^(slug|name|description)[ \t]*:", re.MULTILINE)
_DESCRIPTOR = re.compile(rb"^skill_id[ \t]*:", re.MULTILINE)


def is_skipped(name: str) -> bool:
    """Whether a file or folder of that name is never part of a skill."""
    return name in SKIPPED or name.endswith(".pyc")


def is_marker(name: str) -> bool:
    """Whether a file of that name makes its folder a skill."""
    return name.lower() in MARKERS


def has_marker(names: Iterable[str]) -> bool:
    """Whether a folder with these entries is a skill."""
    return any(is_marker(name) for name in names)


def outermost(folders: Iterable[str]) -> list[str]:
    """Those of the folders that lie in no other, sorted: a skill inside a skill belongs to the outer one."""
    roots: list[str] = []
    for folder in sorted(set(folders), key=lambda path: path.split("/")):
        if not roots or not folder.startswith(roots[-1] + "/"):
            roots.append(folder)
    return roots


def looks_like_skill(name: str, data: bytes) -> bool:
    """Whether a single file says that it is a skill, so that a README beside skills is not taken for a bad one."""
    if name.endswith(".md"):
        return _is_markdown_skill(data)
    if name.endswith(".json"):
        return _is_json_skill(data)
    return name.endswith((".yaml", ".yml")) and _DESCRIPTOR.search(data) is not None


def _is_markdown_skill(data: bytes) -> bool:
    head = _FRONTMATTER.match(data)
    if head is None:
        return False
    keys = set(_KEY.findall(head[1]))
    return b"slug" in keys or {b"name", b"description"} <= keys


def _is_json_skill(data: bytes) -> bool:
    if b'"artifacts"' not in data:
        return False
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and isinstance(cast("dict[str, Any]", value).get("artifacts"), list)
