"""What the files of a skill are called: SKILL.md however it is spelt, the sidecar, and the standard's three folders."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prowess.skill.kinds import Kind
    from prowess.skill.package import File, Package

SKILL_MD = "SKILL.md"
SPELLINGS = frozenset({"skill.md", "skills.md"})
"""The names that are read as SKILL.md, in lower case."""

SIDECAR = "agents/prowess.yaml"
BUCKETS: dict[str, Kind] = {"references": "reference", "scripts": "script", "assets": "asset"}
"""The folders of the open standard, with the kind of what lies in them."""

STANDARD_KEYS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
"""The keys that the open standard gives to the frontmatter of SKILL.md."""

DESCRIPTION_LIMIT = 1024
COMPATIBILITY_LIMIT = 500
NAME_LENGTH = 200
"""How long the name of an artifact may be that is called by its path."""


def is_skill_md(path: str) -> bool:
    """Whether a path is SKILL.md, however it is spelt."""
    return path.lower() in SPELLINGS


def find_skill_md(package: Package) -> File | None:
    """SKILL.md, however it is spelt; the exact spelling is preferred."""
    exact = package.get(SKILL_MD)
    if exact is not None:
        return exact
    return next((file for file in package.files if is_skill_md(file.path)), None)


def document_path(package: Package) -> str:
    """Where the document of a package stands: SKILL.md, or the only file there is."""
    file = find_skill_md(package) or next(iter(package.files), None)
    return file.path if file is not None else SKILL_MD


def short_name(path: str) -> str:
    """What a file is called inside its folder."""
    return (path.partition("/")[2] or path)[-NAME_LENGTH:]
