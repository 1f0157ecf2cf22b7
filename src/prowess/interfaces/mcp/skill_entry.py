"""Describe one skill as MCP resources: its frontmatter as JSON, its address and its files.

A skill `namespace.name` is served at `skill://namespace/name/…`. The last segment must be the name in the frontmatter,
and no skill may be nested in another. If either rule fails, the address is `skill://~/namespace.name/NAME/…`. A slug
never contains `~`, so the two forms cannot collide.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import accumulate, takewhile
from typing import Any
from urllib.parse import quote, unquote

from prowess.skill.filenames import SKILL_MD
from prowess.skill.mcp_extension import BYTES_LIMIT, FILES_LIMIT, has_valid_fields, has_valid_name
from prowess.skill.model import SkillCard
from prowess.skill.outline import SkillOutline
from prowess.skill.package import FileEntry
from prowess.skill.slug import MAX_SLUG_CHARS

SCHEME = "skill://"
SEPARATE_SEGMENT = "~"
"""The first segment of the address of a skill that cannot be served under its own slug."""

_SAFE = "!$&'()*+,;=:@"
_TYPES = {"md": "text/markdown", "yaml": "application/yaml", "yml": "application/yaml", "toml": "application/toml"}


@dataclass(frozen=True, kw_only=True)
class SkillEntry:
    """One skill as it is served. `frontmatter` is None if it is not a valid skill by the MCP skills extension.

    `people_only` is True if agents are not offered it, so that no list has it. `hidden` is True if nobody has accepted the skill, so that none of its text is shown.
    """

    slug: str
    root: str
    title: str
    description: str
    digest: str
    frontmatter: dict[str, Any] | None
    files: tuple[FileEntry, ...]
    people_only: bool = False
    hidden: bool = False
    _by_path: dict[str, FileEntry] = field(default_factory=dict[str, FileEntry], repr=False, compare=False)

    def __post_init__(self) -> None:
        self._by_path.update((file.path, file) for file in self.files)

    @property
    def name(self) -> str:
        """The name in the frontmatter, or else the last part of the slug."""
        return self.frontmatter["name"] if self.frontmatter else self.slug.rpartition(".")[2]

    @property
    def uri(self) -> str:
        """The address of the skill, which is that of its SKILL.md."""
        return self.uri_of(SKILL_MD)

    @property
    def listed(self) -> bool:
        """True if every host accepts the skill, and agents are offered it, so that `skills/list` includes it."""
        return not self.people_only and self.frontmatter is not None and has_valid_fields(self.frontmatter)

    def file(self, path: str) -> FileEntry | None:
        """Return the file at exactly this path, or None."""
        return self._by_path.get(path)

    def uri_of(self, path: str) -> str:
        """Return the only valid address of a file or folder of the skill; '' stands for its root."""
        return f"{self.root}/{quote(path, safe=_SAFE + '/')}" if path else self.root


NOT_ACCEPTED = "Nobody has accepted this skill yet, so its text is hidden. A person can accept it with `prowess trust`."


def hide_entry(entry: SkillEntry) -> SkillEntry:
    """Return the entry of a skill that nobody has accepted: its address, and no text of it."""
    main = entry.file(SKILL_MD)
    return SkillEntry(
        slug=entry.slug,
        root=entry.root,
        title=entry.slug,
        description=NOT_ACCEPTED,
        digest=entry.digest,
        frontmatter=None,
        files=(main,) if main else (),
        people_only=entry.people_only,
        hidden=True,
    )


def make_entry(
    skill: SkillCard | SkillOutline,
    files: tuple[FileEntry, ...],
    frontmatter: dict[str, Any] | None,
    slugs: Collection[str],
) -> SkillEntry:
    """Return the entry of a skill. `slugs` are all served slugs, which decide the form of its address."""
    fits = len(files) <= FILES_LIMIT and sum(file.size for file in files) <= BYTES_LIMIT
    valid = frontmatter if frontmatter is not None and fits and has_valid_name(frontmatter) else None
    name = valid["name"] if valid else skill.slug.rpartition(".")[2]
    return SkillEntry(
        slug=skill.slug,
        root=SCHEME + _place(skill.slug, name, slugs),
        title=skill.title,
        description=valid["description"] if valid else skill.description,
        digest=skill.digest,
        frontmatter=valid,
        files=files,
        people_only=skill.people_only,
    )


def _place(slug: str, name: str, slugs: Collection[str]) -> str:
    if slug.rpartition(".")[2] == name and not any(outer in slugs for outer in enclosing_slugs(slug)):
        return quote(slug.replace(".", "/"), safe="/")
    return f"{SEPARATE_SEGMENT}/{quote(slug)}/{quote(name)}"


def enclosing_slugs(slug: str) -> list[str]:
    """Return the slugs that would enclose this one: `a` and `a.b` for `a.b.c`."""
    segments = slug.split(".")
    return [".".join(segments[:count]) for count in range(1, len(segments))]


def candidate_slugs(uri: str) -> list[str]:
    """Return the slugs that an address may belong to, outermost first, or [] if it is not the address of a skill."""
    if not uri.startswith(SCHEME) or "?" in uri or "#" in uri:
        return []
    segments = [unquote(segment) for segment in uri.removeprefix(SCHEME).split("/")]
    if segments[0] == SEPARATE_SEGMENT:
        return segments[1:2]
    # An address with 100,000 segments would have 10 GB of longer ones.
    return list(takewhile(lambda slug: len(slug) <= MAX_SLUG_CHARS, accumulate(segments, "{}.{}".format)))


def entry_path(entry: SkillEntry, uri: str) -> str | None:
    """Return the path of an address inside the entry, or None unless the address is exactly as `uri_of` writes it."""
    if uri != entry.root and not uri.startswith(entry.root + "/"):
        return None
    path = unquote(uri[len(entry.root) + 1 :])
    return path if entry.uri_of(path) == uri else None


def guess_media_type(path: str) -> str | None:
    """Return the media type of a file by its name, or None if it is unknown."""
    return _TYPES.get(path.rpartition(".")[2].lower()) or mimetypes.guess_type(path, strict=False)[0]
