"""Python functions that could not be called: an agent would have a tool that always fails."""

from __future__ import annotations

from collections.abc import Iterator

from prowess.errors import Problem
from prowess.skill.forms.form import Reading
from prowess.skill.kinds import Function
from prowess.skill.python_source import SourceFault, fault_in

CODE = "function-invalid"


def unusable_functions(reading: Reading) -> Iterator[Problem]:
    """An error for each function that cannot be called; a warning where a newer Python may be able to."""
    for artifact in reading.skill.artifacts if reading.skill else ():
        fault = fault_of(artifact) if isinstance(artifact, Function) else None
        if fault is not None and isinstance(artifact, Function):
            yield _problem(artifact, fault)


def fault_of(function: Function) -> SourceFault | None:
    """What is wrong with a function that the skill brings; None where nothing is known against it."""
    if function.language != "python" or not function.content:
        return None
    return fault_in(function.content, function.handler)


def _problem(function: Function, fault: SourceFault) -> Problem:
    where = function.path or function.name
    if not fault.certain:
        message = f"{where} may not be Python: {fault.message}."
        hint = "Where newer Python than this one is meant, run it to see."
        return Problem(code=CODE, severity="warning", message=message, hint=hint, field=where, line=fault.line)
    message = f"{where} cannot be run: {fault.message.rstrip('.')}."
    hint = "Correct the line." if fault.line else f"Write def {function.handler}(args, ctx) at the top of the file."
    return Problem(code=CODE, severity="error", message=message, hint=hint, field=where, line=fault.line)
