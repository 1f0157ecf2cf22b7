"""One skill as MCP resources: where it is served, and which files it has.

A skill `namespace.name` is served at `skill://namespace/name/…`. The last segment must be the name that the frontmatter
gives, and no skill may lie inside another one; where either would not hold, the skill is served at
`skill://~/namespace.name/NAME/…` instead. A slug has no `~`, so the two cannot meet.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote

from prowess.interfaces.mcp.frontmatter import is_named, is_regular
from prowess.skill.filenames import SKILL_MD
from prowess.skill.model import SkillCard
from prowess.skill.outline import Outline
from prowess.skill.package import FileEntry
from prowess.skill.profiles.mcp import BYTES_LIMIT, FILES_LIMIT

SCHEME = "skill://"
APART = "~"
"""The first segment of skills that cannot stand at their own place."""

_SAFE = "!$&'()*+,;=:@"
_TYPES = {"md": "text/markdown", "yaml": "application/yaml", "yml": "application/yaml", "toml": "application/toml"}


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What is served of one skill; `frontmatter` is None where it is not a skill as the extension defines one."""

    slug: str
    root: str
    title: str
    description: str
    digest: str
    frontmatter: dict[str, Any] | None
    files: tuple[FileEntry, ...]
    _by_path: dict[str, FileEntry] = field(default_factory=dict[str, FileEntry], repr=False, compare=False)

    def __post_init__(self) -> None:
        self._by_path.update((file.path, file) for file in self.files)

    @property
    def name(self) -> str:
        """What the skill is called: by its frontmatter, or else by its slug."""
        return self.frontmatter["name"] if self.frontmatter else self.slug.rpartition(".")[2]

    @property
    def uri(self) -> str:
        """The address of the skill: that of its SKILL.md."""
        return self.uri_of(SKILL_MD)

    @property
    def listed(self) -> bool:
        """Whether every host takes it, so that `skills/list` names it."""
        return self.frontmatter is not None and is_regular(self.frontmatter)

    def file(self, path: str) -> FileEntry | None:
        """The file at exactly this path."""
        return self._by_path.get(path)

    def uri_of(self, path: str) -> str:
        """The one address of a file or folder of the skill."""
        return f"{self.root}/{quote(path, safe=_SAFE + '/')}" if path else self.root


def entry_of(
    skill: SkillCard | Outline,
    files: tuple[FileEntry, ...],
    frontmatter: dict[str, Any] | None,
    slugs: Collection[str],
) -> Entry:
    """The entry of a skill among the others in reach."""
    fits = len(files) <= FILES_LIMIT and sum(file.size for file in files) <= BYTES_LIMIT
    given = frontmatter if frontmatter is not None and fits and is_named(frontmatter) else None
    name = given["name"] if given else skill.slug.rpartition(".")[2]
    return Entry(
        slug=skill.slug,
        root=SCHEME + _place(skill.slug, name, slugs),
        title=skill.title,
        description=given["description"] if given else skill.description,
        digest=skill.digest,
        frontmatter=given,
        files=files,
    )


def _place(slug: str, name: str, slugs: Collection[str]) -> str:
    if slug.rpartition(".")[2] == name and not any(outer in slugs for outer in namespaces(slug)):
        return quote(slug.replace(".", "/"), safe="/")
    return f"{APART}/{quote(slug)}/{quote(name)}"


def namespaces(slug: str) -> list[str]:
    """The slugs that would enclose this one: `a` and `a.b` for `a.b.c`."""
    segments = slug.split(".")
    return [".".join(segments[:count]) for count in range(1, len(segments))]


def slugs_in(uri: str) -> list[str]:
    """The slugs that an address may belong to, outermost first; none where it is no address of a skill."""
    if not uri.startswith(SCHEME) or "?" in uri or "#" in uri:
        return []
    segments = [unquote(segment) for segment in uri.removeprefix(SCHEME).split("/")]
    if segments[0] == APART:
        return segments[1:2]
    return [".".join(segments[:count]) for count in range(1, len(segments) + 1)]


def path_in(entry: Entry, uri: str) -> str | None:
    """The path inside the entry that an address stands for; None unless it is written exactly as `uri_of` writes it."""
    if uri != entry.root and not uri.startswith(entry.root + "/"):
        return None
    path = unquote(uri[len(entry.root) + 1 :])
    return path if entry.uri_of(path) == uri else None


def media_type(path: str) -> str | None:
    """The type of a file by its name; None where the name says nothing."""
    return _TYPES.get(path.rpartition(".")[2].lower()) or mimetypes.guess_type(path, strict=False)[0]
