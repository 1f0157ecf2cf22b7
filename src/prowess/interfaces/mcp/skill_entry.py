"""Describe one skill as MCP resources: its frontmatter as JSON, its address and its files.

A skill `namespace.name` is served at `skill://namespace/name/…`. The last segment must be the name in the frontmatter,
and no skill may be nested in another. If either rule fails, the address is `skill://~/namespace.name/NAME/…`. A slug
never contains `~`, so the two forms cannot collide.

Frontmatter values are typed by YAML 1.2, because hosts compare with that. Values without a JSON form are refused, and
so is everything the strict reader refuses, so that two hosts cannot read the same file differently.
"""

from __future__ import annotations

import math
import mimetypes
import re
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import quote, unquote

import yaml

from prowess.skill.filenames import SKILL_MD
from prowess.skill.model import SkillCard
from prowess.skill.outline import SkillOutline
from prowess.skill.package import FileEntry
from prowess.skill.profiles.mcp import BYTES_LIMIT, FILES_LIMIT
from prowess.skill.profiles.strict_yaml import read_strictly
from prowess.skill.text.yaml import YamlRefused, load

_STYLE_CODES = frozenset({"strict-flow", "strict-indentation"})
"""Problems of style that only the reference validator reports. They do not matter here, because JSON has no style."""

_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*", re.ASCII)
_NAME_LIMIT, _DESCRIPTION_LIMIT, _COMPATIBILITY_LIMIT = 64, 1024, 500


_CSafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _CoreLoader(yaml.SafeLoader):
    """Loads plain scalars by the core schema of YAML 1.2 only, without YAML 1.1's types (`yes`, `12:30`, dates)."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012  as PyYAML has it


class _FastLoader(_CSafeLoader):
    """Does the same with the C parser, if PyYAML has it."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012  as PyYAML has it


_CORE_TYPES: tuple[tuple[str, str, Callable[[str], Any]], ...] = (
    ("null", r"~|null|Null|NULL|", lambda _: None),
    ("bool", r"true|True|TRUE|false|False|FALSE", lambda text: text.lower() == "true"),
    ("int", r"[-+]?[0-9]{1,400}", int),
    ("int-octal", r"0o[0-7]{1,400}", lambda text: int(text, 0)),
    ("int-hex", r"0x[0-9a-fA-F]{1,400}", lambda text: int(text, 0)),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", float),
    ("infinite", r"[-+]?(?:\.inf|\.Inf|\.INF)|\.nan|\.NaN|\.NAN", lambda _: math.inf),
)


def _constructor(convert: Callable[[str], Any]) -> Callable[[Any, Any], Any]:
    return lambda _, node: convert(node.value)


def _register_core_types() -> None:
    for name, pattern, convert in _CORE_TYPES:
        tag = f"!core-{name}"
        loaders: tuple[Any, ...] = (_CoreLoader, _FastLoader)
        for loader in loaders:
            loader.add_implicit_resolver(tag, re.compile(rf"(?:{pattern})\Z"), None)
            loader.add_constructor(tag, _constructor(convert))


_register_core_types()


def frontmatter_json(skill_md: bytes) -> dict[str, Any] | None:
    """Return the frontmatter as JSON, or None if hosts would refuse the file or read it differently."""
    strict = read_strictly(skill_md)
    if strict.fields is None or any(problem.code not in _STYLE_CODES for problem in strict.refusals):
        return None
    try:
        load(strict.raw)  # called for its limits: it refuses aliases, deep nesting and large documents
        value = _load_typed(strict.raw)
    except (YamlRefused, yaml.YAMLError, ValueError, TypeError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) and _is_json(value) else None


def _load_typed(text: str) -> Any:
    """Parse YAML with the fast parser, or with the Python parser if the fast one fails.

    The two treat tabs and byte order marks differently, so text with these always goes to the Python parser.
    """
    if "\t" not in text and "\ufeff" not in text:
        with suppress(yaml.YAMLError):
            return yaml.load(text, Loader=_FastLoader)  # noqa: S506  a safe loader, with fewer types
    return yaml.load(text, Loader=_CoreLoader)  # noqa: S506  as above


def _is_json(value: Any) -> bool:
    if isinstance(value, dict):
        pairs = cast("dict[Any, Any]", value).items()
        return all(isinstance(key, str) and _is_json(item) for key, item in pairs)
    if isinstance(value, list):
        return all(_is_json(item) for item in cast("list[Any]", value))
    return not isinstance(value, float) or math.isfinite(value)


def has_valid_name(frontmatter: dict[str, Any]) -> bool:
    """Return True if name and description are valid by the rules of the MCP skills extension."""
    name, description = frontmatter.get("name"), frontmatter.get("description")
    return (
        isinstance(name, str)
        and len(name) <= _NAME_LIMIT
        and _NAME.fullmatch(name) is not None
        and isinstance(description, str)
        and bool(description.strip())
        and len(description) <= _DESCRIPTION_LIMIT
    )


def has_valid_fields(frontmatter: dict[str, Any]) -> bool:
    """Return True if the optional fields have the types of the standard.

    Some hosts reject a whole listing because of one invalid entry, so a skill that fails this check is not listed.
    """
    texts = (frontmatter.get(key, " ") for key in ("license", "allowed-tools", "compatibility"))
    metadata: Any = frontmatter.get("metadata", {})
    return (
        all(isinstance(text, str) for text in texts)
        and 0 < len(str(frontmatter.get("compatibility", " "))) <= _COMPATIBILITY_LIMIT
        and isinstance(metadata, dict)
        and all(isinstance(value, str) for value in cast("dict[str, Any]", metadata).values())
    )


SCHEME = "skill://"
SEPARATE_SEGMENT = "~"
"""The first segment of the address of a skill that cannot be served under its own slug."""

_SAFE = "!$&'()*+,;=:@"
_TYPES = {"md": "text/markdown", "yaml": "application/yaml", "yml": "application/yaml", "toml": "application/toml"}


@dataclass(frozen=True, kw_only=True)
class SkillEntry:
    """One skill as it is served. `frontmatter` is None if it is not a valid skill by the MCP skills extension.

    `hidden` is True if nobody has accepted the skill, so that none of its text is shown.
    """

    slug: str
    root: str
    title: str
    description: str
    digest: str
    frontmatter: dict[str, Any] | None
    files: tuple[FileEntry, ...]
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
        """True if every host accepts the skill, so that `skills/list` includes it."""
        return self.frontmatter is not None and has_valid_fields(self.frontmatter)

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
    given = frontmatter if frontmatter is not None and fits and has_valid_name(frontmatter) else None
    name = given["name"] if given else skill.slug.rpartition(".")[2]
    return SkillEntry(
        slug=skill.slug,
        root=SCHEME + _place(skill.slug, name, slugs),
        title=skill.title,
        description=given["description"] if given else skill.description,
        digest=skill.digest,
        frontmatter=given,
        files=files,
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
    return [".".join(segments[:count]) for count in range(1, len(segments) + 1)]


def entry_path(entry: SkillEntry, uri: str) -> str | None:
    """Return the path of an address inside the entry, or None unless the address is exactly as `uri_of` writes it."""
    if uri != entry.root and not uri.startswith(entry.root + "/"):
        return None
    path = unquote(uri[len(entry.root) + 1 :])
    return path if entry.uri_of(path) == uri else None


def guess_media_type(path: str) -> str | None:
    """Return the media type of a file by its name, or None if it is unknown."""
    return _TYPES.get(path.rpartition(".")[2].lower()) or mimetypes.guess_type(path, strict=False)[0]
