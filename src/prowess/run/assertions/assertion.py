"""What an assertion does, and what those of every type share."""

from __future__ import annotations

from typing import Protocol

from prowess.run.assertions.subject import Subject
from prowess.run.call import Call, Verdict
from prowess.skill.assertion_specs import AssertionSeverity, AssertionSpec

_LONGEST = 500


class Assertion(Protocol):
    """One thing that must be true of an output. It decides by itself: no fault of the output or of a model escapes it."""

    @property
    def description(self) -> str:
        """What it asserts, for people."""
        ...

    @property
    def severity(self) -> AssertionSeverity:
        """Whether the run fails where it does not pass."""
        ...

    async def evaluate(self, subject: Subject, call: Call, /) -> Verdict:
        """Whether it is true of the output, and why not where it is not."""
        ...


def verdict(spec: AssertionSpec, description: str, fault: str = "") -> Verdict:
    """What an assertion says: it has passed where there is no fault."""
    return Verdict(
        type=spec.type,
        description=_cut(description),
        passed=not fault,
        severity=spec.severity,
        explanation=_cut(fault),
    )


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
