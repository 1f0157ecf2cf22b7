"""The `Registry` protocol, and what registries say about skills.

Everything here was written by others: a registry, or the author of a skill. Texts are cut and free of control characters,
ids have a strict pattern, and the rest of an answer is dropped.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, Protocol

from prowess.errors import Invalid
from prowess.sources.fetched import FetchedSkill

MAX_RESULTS = 50
"""The most skills that a search or a list returns, whatever the registry sends."""
MAX_ID_CHARS = 200

_SEGMENT = r"[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9_-])?"
_ID = re.compile(rf"{_SEGMENT}(?:/{_SEGMENT}){{0,3}}", re.ASCII)

AuditStatus = Literal["pass", "warn", "fail"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """The verdict of one scanner that a registry reports. It is advice, and not our own scan."""

    provider: str
    status: AuditStatus
    summary: str = ""
    risk: str = ""
    audited_at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryEntry:
    """A skill as a registry lists it. Nobody here has accepted any of its texts."""

    registry: str
    id: str
    """Identifies the skill in its registry, for example `owner/repo/skill`."""
    source: str
    """Where the registry has it from, for example `owner/repo`; together with `skill_id` it names the skill, too."""
    skill_id: str
    name: str = ""
    description: str = ""
    version: str = ""
    installs: int | None = None
    """How often it was installed, as the registry counts; None if it does not say."""
    url: str = ""
    """The page about the skill."""
    updated_at: str = ""
    warnings: tuple[str, ...] = ()
    """Warnings of the registry itself: `duplicate` or `suspicious`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryDetail:
    """One skill with everything that its registry says about it, and its files."""

    entry: RegistryEntry
    skill: FetchedSkill
    audits: tuple[Audit, ...] = ()


class Registry(Protocol):
    """Reads one registry. Nothing is ever sent but the request itself: no telemetry, no count of installs.

    Raise `NotFound` for an unknown skill, `Invalid` for an id or files that cannot be used, `Refused` where a key is
    needed, `TryLater` if the registry does not answer or asks to wait, and `Unavailable` for an answer in another shape.
    """

    name: str

    async def search(self, query: str, *, limit: int) -> list[RegistryEntry]:
        """Return the skills that the registry finds, in its order, each once."""
        ...

    async def trending(self, *, limit: int) -> list[RegistryEntry]:
        """Return the skills that are installed most at the moment, in the registry's order."""
        ...

    async def metadata(self, id: str) -> RegistryDetail:
        """Return what the registry says about one skill, with its files."""
        ...

    async def download(self, id: str) -> FetchedSkill:
        """Return the files of one skill, with the registry's version or hash as its revision."""
        ...

    def page_url(self, id: str) -> str:
        """Return the address of the page about a skill."""
        ...

    def find_id(self, url: str) -> str | None:
        """Return the id of the skill whose page has this address, or None for any other address."""
        ...


def is_registry_id(text: str) -> bool:
    """Return True for one to four plain names with slashes between them. No name starts or ends with a dot."""
    return len(text) <= MAX_ID_CHARS and _ID.fullmatch(text) is not None


def check_id(text: str, example: str) -> str:
    """Return `text` if it has the pattern of ids; raise `Invalid` if not."""
    if is_registry_id(text):
        return text
    raise Invalid(f"Invalid registry id {text[:80]!r}.", hint=f"Use an id from a search, for example {example!r}.")
