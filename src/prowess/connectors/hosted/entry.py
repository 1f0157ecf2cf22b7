"""Entries of `skills/list` and `skills/get`: what a server says about a skill, checked before anything else is read.

The entry is what a person approves: every file with its digest. `HostedSkill.manifest` is its canonical form, so the digest
of a hosted skill changes with the connector, the address, any file, any digest, and any field of the frontmatter.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any, Literal, cast
from urllib.parse import unquote

from prowess.errors import Invalid, TooLarge
from prowess.skill.filenames import SKILL_MD
from prowess.skill.json_values import is_encodable, json_object
from prowess.skill.mcp_extension import BYTES_LIMIT, FILES_LIMIT, has_valid_name
from prowess.skill.package import File, Package, check_clash, check_path
from prowess.skill.slug import MAX_NAME_CHARS, is_slug
from prowess.skill.text.hidden import show_hidden

MAX_URI_CHARS = 1_000
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]{0,31})://", re.ASCII)
_SEGMENT = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})+", re.ASCII)
_HASH_CHARS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillAddress:
    """The address of a SKILL.md. `folder` is the address of its folder, without a slash at the end.

    An address is only ever sent to the server that listed it. No part of it is resolved, and none becomes a path on disk.
    """

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


MANIFEST_PATH = "entry.json"
MAX_FRONTMATTER_CHARS = 65_536
MAX_FRONTMATTER_DEPTH = 20
_MAX_INT_BITS = 1_024
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})", re.ASCII)

State = Literal["fixed", "dynamic"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedFile:
    """One file of a hosted skill. `path` is its path inside the skill."""

    uri: str
    path: str
    sha256: str
    size: int


@dataclass(frozen=True, kw_only=True)
class HostedSkill:
    """A skill as a server lists it. `files` is empty for a dynamic one, whose content no digest describes."""

    connector: str
    address: SkillAddress
    frontmatter: dict[str, Any]
    files: tuple[HostedFile, ...]
    state: State = "fixed"

    @property
    def uri(self) -> str:
        """The address of its SKILL.md."""
        return self.address.uri

    @property
    def name(self) -> str:
        """The name in its frontmatter, which is the last segment of its path."""
        return self.address.name

    @property
    def description(self) -> str:
        """The description in its frontmatter. A stranger wrote it."""
        return self.frontmatter["description"]

    @property
    def slug(self) -> str:
        """The slug in a conversation, in the namespace of the connector."""
        return self.address.slug_for(self.connector)

    @property
    def origin(self) -> str:
        """Its identity: the connector by the host's name for it, and the address."""
        return f"connector:{self.connector} {self.uri}"

    @property
    def size(self) -> int:
        """The bytes of all files."""
        return sum(file.size for file in self.files)

    @cached_property
    def by_path(self) -> dict[str, HostedFile]:
        """Its files by path."""
        return {file.path: file for file in self.files}

    @property
    def main(self) -> HostedFile:
        """Its SKILL.md."""
        return self.by_path[SKILL_MD]

    @cached_property
    def manifest(self) -> Package:
        """The entry in a canonical form, as a package of one file: it is kept with an approval, and its digest is the skill's."""
        value = {
            "connector": self.connector,
            "uri": self.uri,
            "frontmatter": self.frontmatter,
            "resources": [
                {"uri": file.uri, "digest": f"sha256:{file.sha256}", "size": file.size}
                for file in sorted(self.files, key=lambda file: file.uri)
            ],
        }
        text = json.dumps(value, ensure_ascii=True, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return Package(name=self.name, files=(File(path=MANIFEST_PATH, content=text.encode("ascii")),))

    @property
    def digest(self) -> str:
        """The SHA-256 that identifies exactly this entry of exactly this connector."""
        return self.manifest.digest

    def nested_in(self, path: str) -> str:
        """Return the folder of the nested skill that a file belongs to, or '' if it belongs to this skill alone."""
        folder = path.rpartition("/")[0]
        while folder:
            if f"{folder}/{SKILL_MD}" in self.by_path:
                return folder
            folder = folder.rpartition("/")[0]
        return ""


def parse_entry(connector: str, value: object) -> HostedSkill:
    """Return the skill of an entry, or raise `Invalid` if any rule of the extension is broken."""
    if not isinstance(value, dict):
        raise Invalid("The entry is not an object.")
    entry = cast("dict[str, Any]", value)
    address = parse_skill_uri(entry.get("uri"))
    frontmatter = _check_frontmatter(entry.get("frontmatter"), address)
    resources: object = entry.get("resources")
    if resources == "dynamic":
        return HostedSkill(connector=connector, address=address, frontmatter=frontmatter, files=(), state="dynamic")
    if not isinstance(resources, list):
        raise Invalid("`resources` is neither a list of files nor 'dynamic'.")
    files = _check_files(cast("list[object]", resources), address)
    return HostedSkill(connector=connector, address=address, frontmatter=frontmatter, files=files)


def read_manifest(package: Package) -> HostedSkill:
    """Return the skill of a manifest that was kept, checked like an answer of a server."""
    manifest = package.get(MANIFEST_PATH)
    # The digest of the package was checked, so this is what `manifest` wrote.
    value: dict[str, Any] = json.loads(manifest.content) if manifest else {}
    return parse_entry(str(value.get("connector", "")), value)


def _check_frontmatter(value: object, address: SkillAddress) -> dict[str, Any]:
    if not isinstance(value, dict) or not _is_plain_json(cast("object", value), MAX_FRONTMATTER_DEPTH):
        raise Invalid("`frontmatter` is not a plain JSON object.")
    frontmatter = cast("dict[str, Any]", value)
    if len(json.dumps(frontmatter)) > MAX_FRONTMATTER_CHARS:
        raise TooLarge(f"The frontmatter has more than {MAX_FRONTMATTER_CHARS:,} characters.")
    if not has_valid_name(frontmatter):
        raise Invalid("The name or the description in the frontmatter is not valid.")
    if frontmatter["name"] != address.name:
        raise Invalid(f"The address does not end with the name {frontmatter['name']!r} of the skill.")
    return frontmatter


def _check_files(resources: list[object], address: SkillAddress) -> tuple[HostedFile, ...]:
    # Counted before any of them is looked at.
    if len(resources) > FILES_LIMIT:
        raise TooLarge(f"The skill has {len(resources):,} files; the extension allows {FILES_LIMIT}.")
    files: list[HostedFile] = []
    seen: dict[str, str] = {}
    for resource in resources:
        file = _check_file(resource, address)
        check_clash(file.path, seen)
        files.append(file)
    if sum(file.size for file in files) > BYTES_LIMIT:
        raise TooLarge(f"The files of the skill have more than {BYTES_LIMIT:,} bytes.")
    if address.uri not in {file.uri for file in files}:
        raise Invalid("The list of files lacks the skill's own SKILL.md.")
    return tuple(files)


def _check_file(resource: object, address: SkillAddress) -> HostedFile:
    fields = json_object(resource)
    uri, digest, size = fields.get("uri"), fields.get("digest"), fields.get("size")
    if not isinstance(uri, str) or len(uri) > MAX_URI_CHARS:
        raise Invalid("A file has no valid address.")
    path = address.path_of(uri)
    found = _DIGEST.fullmatch(digest) if isinstance(digest, str) else None
    if found is None:
        raise Invalid(f"The digest of {path!r} is not `sha256:` and 64 lowercase hexadecimal digits.")
    # True is an int in Python.
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise Invalid(f"The size of {path!r} is not a number of bytes.")
    return HostedFile(uri=uri, path=path, sha256=found[1], size=size)


def _is_plain_json(value: object, depth: int) -> bool:
    """Return True for JSON of limited depth whose texts can be stored: no lone surrogates, no infinite numbers."""
    if depth < 0:
        return False
    if isinstance(value, dict):
        pairs = cast("dict[object, object]", value).items()
        return all(isinstance(key, str) and is_encodable(key) and _is_plain_json(one, depth - 1) for key, one in pairs)
    if isinstance(value, list):
        return all(_is_plain_json(one, depth - 1) for one in cast("list[object]", value))
    if isinstance(value, str):
        return is_encodable(value)
    if isinstance(value, float):
        return value - value == 0  # neither infinite nor NaN
    # Python refuses to write very long integers.
    return value is None or (isinstance(value, int) and value.bit_length() <= _MAX_INT_BITS)
