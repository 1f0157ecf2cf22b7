"""Assertions that cannot be evaluated: of no known type, incomplete, or with a pattern or schema that is refused."""

from __future__ import annotations

from collections.abc import Iterator

from prowess.errors import Problem
from prowess.skill.assertion_specs import assertions_of, check_assertions
from prowess.skill.forms.form import Reading


def refused_assertions(reading: Reading) -> Iterator[Problem]:
    """One problem for each fault, with the artifact and the place of the assertion that has it."""
    for artifact in reading.skill.artifacts if reading.skill else ():
        written = assertions_of(artifact)
        if written:
            name = f"{artifact.name}@{artifact.variant}" if artifact.variant else artifact.name
            yield from check_assertions(written, f"{name}.assertions")
