"""A type of assertion: that an output does not shout."""

from collections.abc import Iterator
from typing import Any

from prowess.errors import Problem
from prowess.run.assertions.assertion import AssertionType, CheckedOutput, make_verdict
from prowess.run.call import Call, Verdict
from prowess.skill.assertion_specs import AssertionSeverity, AssertionSpec


def check_calm(settings: dict[str, Any]) -> Iterator[Problem]:
    if not isinstance(settings.get("marks", 0), int):
        yield Problem(code="assertion-invalid", severity="error", message="`marks` is a whole number.")


class CalmAssertion:
    def __init__(self, spec: AssertionSpec) -> None:
        self.spec = spec
        self.most = spec.settings.get("marks", 0)

    @property
    def severity(self) -> AssertionSeverity:
        return self.spec.severity

    @property
    def description(self) -> str:
        return self.spec.description or f"The output has at most {self.most} exclamation marks."

    async def evaluate(self, subject: CheckedOutput, _call: Call) -> Verdict:
        found = subject.text.count("!")
        fault = f"It has {found}." if found > self.most else ""
        return make_verdict(self.spec, self.description, fault)


TONE = AssertionType(name="acme.tone", checks={"calm": check_calm}, make=CalmAssertion)
