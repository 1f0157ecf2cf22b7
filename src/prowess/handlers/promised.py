"""What an artifact gives, held to what its skill promises."""

from __future__ import annotations

from typing import Any

from prowess.errors import OutputInvalid, Problem
from prowess.run.call import Call
from prowess.skill.schema import compile_schema

_SHOWN = 3


def check_promised(call: Call, result: Any) -> None:
    """`OutputInvalid` with every fault where the result does not satisfy the output schema of the skill."""
    schema = call.skill.output_schema
    errors = compile_schema(schema).errors(result) if schema else ()
    if errors:
        problems = [
            Problem(code="output-invalid", severity="error", message=str(error), field=error.path) for error in errors
        ]
        told = "; ".join(problem.message for problem in problems[:_SHOWN])
        raise OutputInvalid(
            f"The result is not what {call.skill.slug!r} promises: {told}.",
            hint=f"Correct {call.artifact.name!r}, or the output schema.",
            problems=problems,
        )
