"""The file names of a skill: what counts as SKILL.md, what marks a skill's folder, and which files are never part of a skill."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from prowess.skill.form_info import MARKER_FILES

if TYPE_CHECKING:
    from prowess.skill.kinds import Kind
    from prowess.skill.package import File, Package


SKILL_MD = "SKILL.md"
SKILL_MD_SPELLINGS = frozenset({"skill.md", "skills.md"})
"""The names that are read as SKILL.md, in lower case."""

SIDECAR = "agents/prowess.yaml"
STANDARD_FOLDERS: dict[str, Kind] = {"references": "reference", "scripts": "script", "assets": "asset"}
"""The folders of the open standard, with the kind of what lies in them."""

STANDARD_KEYS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
"""The keys that the open standard gives to the frontmatter of SKILL.md."""

MAX_DESCRIPTION_CHARS = 1024
MAX_COMPATIBILITY_CHARS = 500
MAX_ARTIFACT_NAME_CHARS = 200
"""How long the name of an artifact may be that is called by its path."""


def is_skill_md(path: str) -> bool:
    """Whether a path is SKILL.md, however it is spelt."""
    return path.lower() in SKILL_MD_SPELLINGS


def find_skill_md(package: Package) -> File | None:
    """SKILL.md, however it is spelt; the exact spelling is preferred."""
    exact = package.get(SKILL_MD)
    if exact is not None:
        return exact
    return next((file for file in package.files if is_skill_md(file.path)), None)


def find_document_path(package: Package) -> str:
    """Where the document of a package stands: SKILL.md, or the only file there is."""
    file = find_skill_md(package) or next(iter(package.files), None)
    return file.path if file is not None else SKILL_MD


def name_in_folder(path: str) -> str:
    """What a file is called inside its folder."""
    return (path.partition("/")[2] or path)[-MAX_ARTIFACT_NAME_CHARS:]


IGNORED_NAMES = frozenset({".git", "__pycache__", "node_modules", "__MACOSX", ".DS_Store"})
"""Left behind by tools; never part of a skill, wherever it lies."""

SINGLE_FILE_SUFFIXES = (".md", ".json", ".yaml", ".yml")
"""A single file can be a whole skill, too; these are the endings it may have."""


_FRONTMATTER = re.compile(rb"(?:\xef\xbb\xbf)?---[ \t]*\r?\n(.{0,16384}?)^---[ \t]*\r?$", re.DOTALL | re.MULTILINE)
_SKILL_KEY = re.compile(rb"^(slug|name|description)[ \t]*:", re.MULTILINE)
_DESCRIPTOR = re.compile(rb"^skill_id[ \t]*:", re.MULTILINE)


def is_ignored(name: str) -> bool:
    """Whether a file or folder of that name is never part of a skill."""
    return name in IGNORED_NAMES or name.endswith(".pyc")


def is_marker(name: str) -> bool:
    """Whether a file of that name makes its folder a skill."""
    return name.lower() in MARKER_FILES


def has_marker(names: Iterable[str]) -> bool:
    """Whether a folder with these entries is a skill."""
    return any(is_marker(name) for name in names)


def outermost_folders(folders: Iterable[str]) -> list[str]:
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
    keys = set(_SKILL_KEY.findall(head[1]))
    return b"slug" in keys or {b"name", b"description"} <= keys


def _is_json_skill(data: bytes) -> bool:
    if b'"artifacts"' not in data:
        return False
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and isinstance(cast("dict[str, Any]", value).get("artifacts"), list)
