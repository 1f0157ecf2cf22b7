"""What a save comes to, given what is kept: the one rule that every store follows."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection
from typing import Literal

from prowess.catalog.near import unknown_skill
from prowess.errors import Conflict, DuplicateSkill, Invalid
from prowess.skill.forms.form import Reading
from prowess.skill.model import Skill
from prowess.skill.package import Package

Step = Literal["create", "update", "same"]


def decide(
    slug: str,
    new: str,
    kept: str | None,
    *,
    expected: str | None,
    location: str,
    known: Callable[[], Collection[str]],
    replace: bool = False,
) -> Step:
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
        raise changed_meanwhile(slug, expected, kept)
    if kept == new:
        return "same"
    if expected is None and not replace:
        raise DuplicateSkill(
            f"The slug {slug!r} is taken in {location}, by other files.",
            hint="Choose another slug, or replace the skill that is there.",
        )
    return "update"


def changed_meanwhile(slug: str, expected: str, actual: str) -> Conflict:
    """The error for a write against a digest that is no longer the kept one."""
    return Conflict(
        f"The skill {slug!r} has changed: it is {actual[:12]} now, not {expected[:12]}.",
        hint="Read it again, look at the difference, and repeat the change.",
    )


def accepted(reading: Reading) -> tuple[Skill, Package]:
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
