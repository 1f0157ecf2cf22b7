"""Rules that every store follows: what a save does given what is stored, and the errors for names that do not exist."""

from __future__ import annotations

import difflib
import uuid
from collections.abc import Callable, Collection
from heapq import nsmallest
from typing import Literal

from prowess.errors import Conflict, DuplicateSkill, Invalid, NotFound
from prowess.skill.forms.form import Reading
from prowess.skill.model import Skill
from prowess.skill.package import Package

_MAX_COMPARED = 400


def unknown_skill(name: str, known: Collection[str], location: str) -> NotFound:
    """The error for a slug that is not there, with the slugs that look like it."""
    return NotFound(f"There is no skill {name[:80]!r} in {location}.", hint=suggest_names(name, known))


def unknown_id(what: str, id: str, location: str) -> NotFound:
    """The error for an id that is not there; an id of somebody else reads exactly the same."""
    return NotFound(
        f"There is no {what} with the id {id[:80]!r} in {location}.", hint="List the skills to see them all."
    )


def suggest_names(name: str, known: Collection[str]) -> str:
    """A sentence with the known names nearest to `name`, whatever letters are capital."""
    if not known:
        return "Nothing is kept here yet."
    lowered = {other.lower(): other for other in _comparable(name.lower(), known)}
    found = difflib.get_close_matches(name[:200].lower(), lowered, n=3, cutoff=0.5)
    if not found:
        return "List the skills to see them all."
    return "Did you mean " + " or ".join(repr(lowered[match]) for match in found) + "?"


def _comparable(name: str, known: Collection[str]) -> Collection[str]:
    """Comparing takes long, so a large catalog is cut down to those names that begin most alike."""
    if len(known) <= _MAX_COMPARED:
        return known
    return nsmallest(
        _MAX_COMPARED, known, key=lambda other: (-_common_prefix(name, other), abs(len(name) - len(other)))
    )


def _common_prefix(one: str, other: str) -> int:
    """With how many of the same characters two names begin."""
    pairs = zip(one, other, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


SaveAction = Literal["create", "update", "same"]


def decide_save(
    slug: str,
    new: str,
    kept: str | None,
    *,
    expected: str | None,
    location: str,
    known: Callable[[], Collection[str]],
    replace: bool = False,
) -> SaveAction:
    """Whether files with the digest `new` create or update the skill, or are kept already.

    `kept` is the digest that is kept, `expected` the one that the writer has seen. A writer who expects a
    digest gets `NotFound` or `Conflict` when it is not the kept one; a writer who expects none gets `DuplicateSkill`
    when the slug is taken, unless `replace` says that this is what they want. `known` gives the kept slugs, for a hint.
    """
    if kept is None:
        if expected is not None:
            raise unknown_skill(slug, known(), location)
        return "create"
    if expected is not None and kept != expected:
        raise digest_conflict(slug, expected, kept)
    if kept == new:
        return "same"
    if expected is None and not replace:
        raise DuplicateSkill(
            f"The slug {slug!r} is taken in {location}, by other files.",
            hint="Choose another slug, or replace the skill that is there.",
        )
    return "update"


def digest_conflict(slug: str, expected: str, actual: str) -> Conflict:
    """The error for a write against a digest that is no longer the kept one."""
    return Conflict(
        f"The skill {slug!r} has changed: it is {actual[:12]} now, not {expected[:12]}.",
        hint="Read it again, look at the difference, and repeat the change.",
    )


def accepted_skill(reading: Reading) -> tuple[Skill, Package]:
    """The skill and the files of a reading that `prowess.skill.validate.accept` gave."""
    if reading.skill is None:
        raise Invalid("There is no skill in these files.", problems=reading.problems)
    return reading.skill, reading.package


def declared_id(skill: Skill) -> str | None:
    """The id that the skill's own files declare, if it is a UUID."""
    try:
        return str(uuid.UUID(skill.id)) if skill.id else None
    except ValueError:
        return None
