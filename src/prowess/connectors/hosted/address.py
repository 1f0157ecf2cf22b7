"""Addresses of skills and their files: the URI rules of the MCP skills extension.

An address is only ever sent to the server that listed it. No part of it is resolved, and none becomes a path on disk.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from urllib.parse import unquote

from prowess.errors import Invalid
from prowess.skill.filenames import SKILL_MD
from prowess.skill.package import check_path
from prowess.skill.slug import MAX_NAME_CHARS, is_slug
from prowess.skill.text.hidden import show_hidden

MAX_URI_CHARS = 1_000
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]{0,31})://", re.ASCII)
_SEGMENT = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})+", re.ASCII)
_HASH_CHARS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillAddress:
    """The address of a SKILL.md. `folder` is the address of its folder, without a slash at the end."""

    uri: str
    scheme: str
    folder: str
    segments: tuple[str, ...]
    """The segments of the folder, decoded. The last one is the name of the skill."""

    @property
    def name(self) -> str:
        """The name of the skill."""
        return self.segments[-1]

    def path_of(self, uri: str) -> str:
        """Return the path of a file inside the skill, or raise `Invalid` if the address lies outside its folder."""
        if not uri.startswith(f"{self.folder}/"):
            raise Invalid(f"The file {show_uri(uri)} lies outside the skill's folder.")
        path = "/".join(_decode(uri[len(self.folder) + 1 :], uri))
        check_path(path)
        return path

    def slug_for(self, connector: str) -> str:
        """Return the slug of the skill in a conversation: the connector's name, then the skill's path.

        Where the path has other characters than a slug, it is the name with a hash of the address. The first segment is
        always the connector, which the host named.
        """
        namespace = connector if is_slug(connector) else f"{_plain(connector)}-{_hash(connector)}"
        plain = ".".join((namespace, *self.segments))
        if self.scheme == "skill" and all("." not in segment for segment in self.segments) and is_slug(plain):
            return plain
        return f"{namespace}.{self.name[: MAX_NAME_CHARS - _HASH_CHARS - 1].rstrip('-')}-{_hash(self.uri)}"


def parse_skill_uri(uri: object) -> SkillAddress:
    """Return the address of a skill's SKILL.md, or raise `Invalid`."""
    if not isinstance(uri, str) or not uri or len(uri) > MAX_URI_CHARS:
        raise Invalid(f"The address of a skill must be a text of at most {MAX_URI_CHARS:,} characters.")
    scheme = _SCHEME.match(uri)
    folder, slash, file = uri.rpartition("/")
    # Compared as it is written: an encoded `SKILL.md` would be a second address of the same file.
    if scheme is None or not slash or file != SKILL_MD or len(folder) <= scheme.end():
        raise Invalid(
            f"{show_uri(uri)} is not the address of a skill.",
            hint="Use the address of a SKILL.md: skill://NAME/SKILL.md.",
        )
    # Other schemes may leave the authority empty, as `file:///` does.
    start = scheme.end() + (scheme[1] != "skill" and uri[scheme.end()] == "/")
    return SkillAddress(uri=uri, scheme=scheme[1], folder=folder, segments=_decode(folder[start:], uri))


def show_uri(uri: str) -> str:
    """Return an address for a message: quoted, cut, and without hidden characters."""
    return repr(show_hidden(uri[:200]))


def _plain(connector: str) -> str:
    """Return a connector's name without the characters that a slug cannot have."""
    return re.sub(r"[^a-z0-9]+", "-", connector).strip("-")[: MAX_NAME_CHARS - _HASH_CHARS] or "connector"


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:_HASH_CHARS]


def _decode(path: str, uri: str) -> tuple[str, ...]:
    """Return the decoded segments of a path, or raise `Invalid` for one that could mean something else elsewhere."""
    decoded: list[str] = []
    for segment in path.split("/"):
        if not _SEGMENT.fullmatch(segment):
            raise Invalid(f"The address {show_uri(uri)} has an invalid segment.")
        try:
            text = unquote(segment, errors="strict")
        except UnicodeDecodeError:
            raise Invalid(f"The address {show_uri(uri)} is not UTF-8.") from None
        if text in (".", "..") or not text.isprintable() or any(char in text for char in "/\\"):
            raise Invalid(f"The address {show_uri(uri)} leads outside its folder.")
        decoded.append(text)
    return tuple(decoded)
