"""Read the identity of a stored skill: its id, its digest, and where it was copied from. Everything else is in its files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, get_args

from prowess.patterns import lazy_pattern
from prowess.skill.model import Provenance, Skill, SourceName

ORIGIN = ("source", "source_type", "source_url", "source_ref", "source_id", "marketplace_id", "sync_etag")
"""The columns that say where a skill came from."""

KEY_TEXTS = ("slug", "id", "digest", "package", "created_at", "updated_at")
"""The other columns of a key."""

KEY_LENGTH = len(KEY_TEXTS) + len(ORIGIN)

_DATE = lazy_pattern(r"[0-9T:.+Z-]{10,40}")
_SOURCE_TYPES = frozenset(get_args(Provenance.model_fields["source_type"].annotation)) - {"manual"}


class SkillKey(NamedTuple):
    """The identity of a stored skill: the same key always means the same skill, because the digest identifies its files."""

    slug: str
    id: str
    digest: str
    package: str
    created_at: str
    updated_at: str
    provenance: Provenance | None = None
    """The source that a sync recorded; None for a skill that was written or imported here."""


def as_text(value: object) -> str:
    """Return the value of a text column. SQLite stores bytes there, too, if another program writes them."""
    return value if type(value) is str else ""


def read_key(row: Sequence[Any]) -> SkillKey:
    """Return the key in a row. A value that Prowess does not write becomes '', and the skill is then not served."""
    slug, skill_id, digest, package, *dates = map(as_text, row[: len(KEY_TEXTS)])
    # The dates are shown as they are, so they must not carry other text.
    created_at, updated_at = (date if _DATE.fullmatch(date) else "" for date in dates)
    provenance = _read_provenance(row[len(KEY_TEXTS) : KEY_LENGTH])
    return SkillKey(slug, skill_id, digest, package, created_at, updated_at, provenance)


def key_of(skill: Skill, package: str) -> SkillKey:
    """Return the key that the row of a skill has, stored with a package of this name."""
    texts = (skill.slug, skill.id, skill.digest, package, skill.created_at, skill.updated_at)
    return read_key((*texts, *(getattr(skill.provenance, name) for name in ORIGIN)))


def _read_provenance(values: Sequence[Any]) -> Provenance | None:
    fields = {name: value for name, value in zip(ORIGIN, values, strict=True) if type(value) is str}
    if fields.get("source_type") not in _SOURCE_TYPES or fields.get("source") not in get_args(SourceName):
        return None
    return Provenance.model_validate(fields)
