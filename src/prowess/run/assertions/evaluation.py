"""Evaluate all assertions of an artifact on its output."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any

from prowess.errors import AssertionFailed, Invalid, ProwessError
from prowess.run.assertions.assertion import Assertion, AssertionType, CheckedOutput, make_verdict
from prowess.run.assertions.length import LengthAssertion
from prowess.run.assertions.pattern import PatternAssertion
from prowess.run.assertions.semantic import SemanticAssertion
from prowess.run.assertions.structural import StructuralAssertion
from prowess.run.call import Call, DryRunEnded, Output, Verdict
from prowess.run.handler import RunArtifact
from prowess.run.model_client import ModelClient
from prowess.skill.assertion_specs import AssertionSpec, list_assertions, read_assertion
from prowess.skill.json_values import json_object
from prowess.threads import is_interruption

log = logging.getLogger(__name__)

MAX_CONCURRENT_ASSERTIONS = 4
"""Assertions that are evaluated at the same time; some wait for a model."""


class AssertionRunner:
    """Evaluates all assertions of an artifact, and returns their verdicts in the author's order."""

    def __init__(self, models: ModelClient, plugin_types: Iterable[AssertionType] = ()) -> None:
        self._types: dict[str, Callable[[AssertionSpec], Assertion]] = {
            # First, so that a plugin cannot replace a built-in one.
            **{plugin_type.name: plugin_type.make for plugin_type in plugin_types},
            "structural": StructuralAssertion,
            "length": LengthAssertion,
            "pattern": PatternAssertion,
            "semantic": lambda spec: SemanticAssertion(spec, models),
        }

    async def check(self, call: Call, output: Output) -> tuple[Verdict, ...]:
        """Return all verdicts. An unreadable assertion fails, with severity `hard`."""
        # Variants may have their own assertions.
        written = list_assertions(call.notes.artifact or call.artifact)
        if not written:
            return ()
        subject = CheckedOutput(output)
        if len(written) == 1:  # no task is needed to wait for one
            return (await self.evaluate(written[0], subject, call),)
        room = asyncio.Semaphore(MAX_CONCURRENT_ASSERTIONS)

        async def one(item: Any) -> Verdict:
            async with room:
                return await self.evaluate(item, subject, call)

        return tuple(await asyncio.gather(*(one(item) for item in written)))

    async def evaluate(self, written: Any, subject: CheckedOutput, call: Call) -> Verdict:
        """Return the verdict of one assertion, as its author wrote it."""
        try:
            spec = read_assertion(written)
        except Invalid as fault:
            # Hard, whatever it says: a check that cannot be read must not count as passed.
            return _unreadable(written, fault)
        try:
            return await self._types[spec.type](spec).evaluate(subject, call)
        except (ProwessError, DryRunEnded):
            raise
        except BaseException as error:
            # An assertion type of a plugin may have a bug. It must not be taken for one of the artifact, whose output is kept.
            if is_interruption(error):
                raise
            log.exception("The assertion type %s failed.", spec.type)
            fault = (
                f"The assertion type {spec.type} failed: {type(error).__name__}. "
                "This is a bug in it, not in the output. The log has the traceback."
            )
            return make_verdict(spec, spec.description or f"Assertion of the type {spec.type}.", fault, undecided=True)


def with_assertions(run: RunArtifact, assertions: AssertionRunner) -> RunArtifact:
    """Check the output of each call, and raise `AssertionFailed` if it does not pass a hard assertion."""

    async def checked(call: Call) -> Output:
        output = await run(call)
        verdicts = call.notes.verdicts = await assertions.check(call, output)
        failed = [verdict for verdict in verdicts if not verdict.passed and verdict.severity == "hard"]
        if failed:
            first = failed[0]
            more = f" (and {len(failed) - 1} more of {len(verdicts)})" if len(failed) > 1 else ""
            raise AssertionFailed(
                f"The output of {call.artifact.name!r} failed an assertion: "
                f"{first.description.rstrip('.')}: {first.explanation}{more}",
                hint=f"Run `prowess traces show {call.id}` to see the output and all verdicts.",
            )
        return output

    return checked


def _unreadable(written: Any, fault: Invalid) -> Verdict:
    settings = json_object(written)
    kind, description = settings.get("type"), settings.get("description")
    return Verdict(
        type=kind[:60] if isinstance(kind, str) else "unknown",
        description=description[:500] if isinstance(description, str) and description else "Unreadable assertion.",
        passed=False,
        severity="hard",
        explanation=fault.message,
    )
