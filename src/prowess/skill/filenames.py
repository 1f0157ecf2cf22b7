"""The file names of a skill: what counts as SKILL.md, what marks a skill's folder, and which files are never part of a skill."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from prowess.patterns import lazy_pattern
from prowess.skill.form_info import MARKER_FILES, FormName, form_info
from prowess.skill.json_values import json_object, json_value
from prowess.skill.limits import UNLIMITED

if TYPE_CHECKING:
    from prowess.skill.kinds import Kind
    from prowess.skill.package import File, Package


SKILL_MD = "SKILL.md"
SKILL_MD_SPELLINGS = frozenset({"skill.md", "skills.md"})
"""The names that are read as SKILL.md, in lower case."""

SIDECAR = "agents/prowess.yaml"
CODEX_FILE = "agents/openai.yaml"
"""The settings that Codex reads next to SKILL.md."""
STANDARD_FOLDERS: dict[str, Kind] = {"references": "reference", "scripts": "script", "assets": "asset"}
"""The folders of the open standard, with the kind of the files in them."""

STANDARD_KEYS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
"""The frontmatter keys of the open standard."""

MAX_DESCRIPTION_CHARS = 1024
MAX_COMPATIBILITY_CHARS = 500
MAX_ARTIFACT_NAME_CHARS = 200
"""The maximum length of an artifact name that is derived from a path."""


SCRIPT_SUFFIXES: dict[str, str] = {
    ".py": "python3",
    ".sh": "sh",
    ".bash": "bash",
    ".js": "node",
    ".mjs": "node",
    ".cjs": "node",
    ".pl": "perl",
    ".rb": "ruby",
}
"""The suffixes of scripts, with the interpreter of each."""


def is_script_name(path: str) -> bool:
    """Return True if a file is a script by its suffix."""
    return PurePosixPath(path).suffix.lower() in SCRIPT_SUFFIXES


_SHEBANG = lazy_pattern(r"\ufeff?#!([^\n]{1,200})")


def read_shebang(text: str) -> tuple[str, ...]:
    """Return the program that the first line of a script names, without its folder, and its options; () for none."""
    found = _SHEBANG.match(text)
    words = found[1].split() if found else []
    if words and PurePosixPath(words[0]).name == "env":
        # Kernels pass everything after `env` as one argument, which `-S` splits.
        words = words[2:] if words[1:2] in (["-S"], ["--split-string"]) else words[1:]
    if not words:
        return ()
    name = PurePosixPath(words[0]).name
    # `uv run --script`: Prowess installs the packages itself.
    return ("python3",) if name == "uv" else (name, *words[1:])


def is_skill_md(path: str) -> bool:
    """Return True if a path is SKILL.md in any spelling."""
    return path.lower() in SKILL_MD_SPELLINGS


def find_skill_md(package: Package) -> File | None:
    """Return SKILL.md in any spelling, preferably the exact one, or None."""
    exact = package.get(SKILL_MD)
    if exact is not None:
        return exact
    return next((file for file in package.files if is_skill_md(file.path)), None)


def find_document_path(package: Package) -> str:
    """Return the path of the document of a package: SKILL.md, or else its first file."""
    file = find_skill_md(package) or next(iter(package.files), None)
    return file.path if file is not None else SKILL_MD


def find_document(form: FormName, package: Package) -> File | None:
    """Return the document that describes a skill: SKILL.md, the only Markdown file, or the file of a form of data."""
    info = form_info(form)
    paths = info.load().controls(package, UNLIMITED) if info.is_data else {find_document_path(package)}
    return next((file for path in sorted(paths) if (file := package.get(path)) is not None), None)


def document_text(form: FormName, package: Package) -> str:
    """Return the text of the document that describes a skill, frontmatter included; '' if its form has none."""
    file = find_document(form, package)
    # PostgreSQL cannot store NUL in text.
    return file.content.decode(errors="replace").replace("\x00", "\ufffd") if file else ""


def hash_content(content: str, digest: str) -> str:
    """Return the hash that tells whether a document changed; the digest of the files if the skill has none."""
    return hashlib.sha256(content.encode()).hexdigest() if content else digest


def name_in_folder(path: str) -> str:
    """Return the path of a file inside its folder."""
    return (path.partition("/")[2] or path)[-MAX_ARTIFACT_NAME_CHARS:]


IGNORED_NAMES = frozenset({".git", "__pycache__", "node_modules", "__MACOSX", ".DS_Store"})
"""Files and folders that tools leave behind; never part of a skill, wherever they are."""

SINGLE_FILE_SUFFIXES = (".md", ".json", ".yaml", ".yml")
"""The suffixes of a single file that can be a whole skill."""


# Bounded by the limit for frontmatter, so that a large file without a second marker is not searched to its end.
_FRONTMATTER = re.compile(rb"(?:\xef\xbb\xbf)?---[ \t]*\r?\n(.{0,16384}?)^---[ \t]*\r?$", re.DOTALL | re.MULTILINE)
_SKILL_KEY = re.compile(rb"^(slug|name|description)[ \t]*:", re.MULTILINE)
_DESCRIPTOR = re.compile(rb"^skill_id[ \t]*:", re.MULTILINE)


def is_ignored(name: str) -> bool:
    """Return True if a file or folder with this name is never part of a skill."""
    return name in IGNORED_NAMES or name.endswith(".pyc")


def is_marker(name: str) -> bool:
    """Return True if a file with this name makes its folder a skill."""
    return name.lower() in MARKER_FILES


def has_marker(names: Iterable[str]) -> bool:
    """Return True if a folder with these entries is a skill."""
    return any(is_marker(name) for name in names)


def outermost_folders(folders: Iterable[str]) -> list[str]:
    """Return the outermost folders, sorted: a skill inside a skill belongs to the outer one."""
    roots: list[str] = []
    # Sorted by segments: as plain text, `a-b` comes between `a` and `a/c`, and `a/c` would then count as a root.
    for folder in sorted(set(folders), key=lambda path: path.split("/")):
        if not roots or not folder.startswith(roots[-1] + "/"):
            roots.append(folder)
    return roots


def looks_like_skill(name: str, data: bytes) -> bool:
    """Return True if the content of a single file says that it is a skill, so that a README next to skills is not read as a bad skill."""
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
    return isinstance(json_object(json_value(data)).get("artifacts"), list)
