"""The protocol of an assertion, and the output as assertions see it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Protocol

from prowess.errors import OutputInvalid
from prowess.lazy_dataclass import dataclass
from prowess.run.answers import extract_json
from prowess.run.call import Call, Output, Verdict
from prowess.run.judged_text import JudgedText
from prowess.skill.assertion_specs import AssertionSeverity, AssertionSpec, SettingsCheck
from prowess.threads import offload_if_large


class CheckedOutput:
    """The output that assertions check: its text and its data, each computed once."""

    def __init__(self, output: Output) -> None:
        self.given = output.data
        """The data of the output; None for a text."""
        self._output = output
        self._lock = asyncio.Lock()
        self._found: tuple[Any, OutputInvalid | None] | None = None

    @cached_property
    def text(self) -> str:
        """The output as text: its own, or its data as JSON."""
        if self._output.text or self.given is None:
            return self._output.text
        return json.dumps(self.given, ensure_ascii=False)

    @cached_property
    def judged(self) -> JudgedText:
        """The output as a model judges it."""
        return JudgedText(text=self.text)

    async def data(self) -> Any:
        """Return the output as data: its own, or the JSON in its text; raise `OutputInvalid` if there is none."""
        if self.given is not None:
            return self.given
        # Assertions run concurrently; without the lock, each would search the text for JSON.
        async with self._lock:
            if self._found is None:
                self._found = await offload_if_large(len(self.text), _found, self.text)
        value, fault = self._found
        if fault is not None:
            raise OutputInvalid(fault.message, hint=fault.hint)
        return value


def _found(text: str) -> tuple[Any, OutputInvalid | None]:
    try:
        return extract_json(text), None
    except OutputInvalid as fault:
        return None, fault


_LONGEST = 500


class Assertion(Protocol):
    """One condition on an output. It never raises because of an output or a model: that is a failed verdict."""

    @property
    def description(self) -> str:
        """The condition, for people."""
        ...

    @property
    def severity(self) -> AssertionSeverity:
        """`hard` if the run fails when the assertion does."""
        ...

    async def evaluate(self, subject: CheckedOutput, call: Call, /) -> Verdict:
        """Return whether the output passes, and why not."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AssertionType:
    """A type of assertion that a plugin adds: its checks with their settings, and a function that makes assertions.

    `checks` maps the name of each check to a function that returns the problems of an assertion's settings. `make` is only
    called for settings without problems.
    """

    name: str
    checks: Mapping[str, SettingsCheck]
    make: Callable[[AssertionSpec], Assertion]


def make_verdict(spec: AssertionSpec, description: str, fault: str = "", *, undecided: bool = False) -> Verdict:
    """Return the verdict of an assertion; it passed if there is no fault."""
    return Verdict(
        type=spec.type,
        description=_truncate(description),
        passed=not fault,
        severity=spec.severity,
        explanation=_truncate(fault),
        undecided=undecided,
    )


def _truncate(text: str) -> str:
    # An explanation may quote the output, which may be of any length.
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
