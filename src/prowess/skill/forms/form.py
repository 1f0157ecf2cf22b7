"""The forms a skill comes in: what a member of the family can do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from prowess.errors import Problem
from prowess.skill.limits import DEFAULT_LIMITS, Limits
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


class Form(Protocol):
    """One form of a skill on disk or on the wire.

    `read` never raises for bad content: it reports. `write` of what `read` gave loses nothing that the form can
    hold; what it cannot hold is reported in `left_out`.
    """

    @property
    def name(self) -> FormName:
        """What the form is called."""
        ...

    def recognises(self, package: Package) -> bool:
        """Whether the package is in this form, by its content."""
        ...

    def read(self, package: Package, limits: Limits = DEFAULT_LIMITS) -> Reading:
        """Read the skill."""
        ...

    def write(self, skill: Skill, package: Package) -> Writing:
        """Write `skill`, whose files are `package` (in whatever form), in this form."""
        ...
