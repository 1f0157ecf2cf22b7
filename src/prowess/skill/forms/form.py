"""What reading a skill in some form gives, and what writing it gives."""

from __future__ import annotations

from dataclasses import dataclass

from prowess.errors import Problem
from prowess.skill.model import FormName, Skill
from prowess.skill.package import Package
from prowess.skill.text.document import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What was read from a package: the skill, unless it is past use, and everything that is odd about it.

    `document` is the SKILL.md (or other markdown) that it was read from, for the forms that have one.
    """

    form: FormName
    package: Package
    skill: Skill | None
    problems: tuple[Problem, ...] = ()
    document: Document | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """A skill written in some form, and what that form had no place for."""

    package: Package
    left_out: tuple[Problem, ...] = ()
