"""Length assertions: the number of characters or tokens of an output."""

from __future__ import annotations

from collections.abc import Callable

from prowess.run.assertions.assertion import CheckedOutput, make_verdict
from prowess.run.call import Call, Verdict
from prowess.session.session import estimate_tokens
from prowess.skill.assertion_specs import AssertionSeverity, AssertionSpec

_UNITS: dict[str, tuple[str, Callable[[str], int]]] = {
    "char_range": ("character", len),
    "token_range": ("token", estimate_tokens),
}


class LengthAssertion:
    """The output is neither too short nor too long. Tokens are estimated."""

    def __init__(self, spec: AssertionSpec) -> None:
        self._spec = spec
        self._unit, self._measure = _UNITS[spec.check]
        self._least: int | None = spec.settings.get("min")
        self._most: int | None = spec.settings.get("max")

    @property
    def severity(self) -> AssertionSeverity:
        """The severity that the author chose."""
        return self._spec.severity

    @property
    def description(self) -> str:
        """The allowed range."""
        return self._spec.description or f"The output has {self._range()}."

    async def evaluate(self, subject: CheckedOutput, _call: Call, /) -> Verdict:
        """Measure the output."""
        size = self._measure(subject.text)
        fits = (self._least is None or size >= self._least) and (self._most is None or size <= self._most)
        fault = "" if fits else f"It has {_counted(size, self._unit)}; expected {self._range()}."
        return make_verdict(self._spec, self.description, fault)

    def _range(self) -> str:
        if self._least is None:
            return f"at most {_counted(self._most or 0, self._unit)}"
        if self._most is None:
            return f"at least {_counted(self._least, self._unit)}"
        return f"{self._least:,} to {_counted(self._most, self._unit)}"


def _counted(count: int, unit: str) -> str:
    return f"{count:,} {unit}{'' if count == 1 else 's'}"
