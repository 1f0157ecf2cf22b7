"""Pattern assertions: a regular expression that an output must or must not match."""

from __future__ import annotations

from prowess.run.assertions.assertion import CheckedOutput, make_verdict
from prowess.run.call import Call, Verdict
from prowess.skill.assertion_specs import AssertionSeverity, AssertionSpec
from prowess.skill.linear_regex import compile_regex
from prowess.skill.text.hidden import quote_source
from prowess.threads import offload

MAX_WORK = 200_000_000
"""Limit on pattern steps times output characters: about a second."""
_LITTLE_WORK = 1_000_000
"""About 5 ms, which the event loop can bear."""
_SHOWN = 80


class PatternAssertion:
    """The pattern matches somewhere in the output (`match`), or nowhere (`no_match`)."""

    def __init__(self, spec: AssertionSpec) -> None:
        self._spec = spec
        self._pattern = quote_source(spec.settings["pattern"])
        self._regex = compile_regex(spec.settings["pattern"])
        self._wanted = spec.check == "match"

    @property
    def severity(self) -> AssertionSeverity:
        """The severity that the author chose."""
        return self._spec.severity

    @property
    def description(self) -> str:
        """The pattern."""
        description = "matches" if self._wanted else "does not match"
        return self._spec.description or f"The output {description} {self._pattern}."

    async def evaluate(self, subject: CheckedOutput, _call: Call, /) -> Verdict:
        """Search the output; in a thread if that takes long."""
        text = subject.text
        work = self._regex.steps * len(text)
        if work > MAX_WORK:
            fault = f"The output has {len(text):,} characters, which is too long to search with {self._pattern}."
        elif work > _LITTLE_WORK:
            fault = self._fault(await offload(self._regex.find, text))
        else:
            fault = self._fault(self._regex.find(text))
        return make_verdict(self._spec, self.description, fault)

    def _fault(self, found: str | None) -> str:
        if (found is not None) == self._wanted:
            return ""
        if found is None:
            return f"Nothing in it matches {self._pattern}."
        stretch = found if len(found) <= _SHOWN else f"{found[:_SHOWN]}…"
        return f"{self._pattern} matches {stretch!r}."
