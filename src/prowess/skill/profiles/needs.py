"""What a skill says it needs outside the sandbox and does not get: whoever wrote it should know."""

from __future__ import annotations

from collections.abc import Iterator

from prowess.errors import Problem
from prowess.skill.forms.form import Reading
from prowess.skill.kinds import Function
from prowess.skill.need_values import FORMS, MOST, read_values
from prowess.skill.needs import NEED_FORMS, RUNTIMES, needs_of

CODE = "need-invalid"
UNUSED = "requirements-unused"
_SHOWN = 5


def unreadable_needs(reading: Reading) -> Iterator[Problem]:
    """A warning for each value that cannot be read, the first few of each need."""
    if reading.skill is None or reading.form not in NEED_FORMS:
        return
    said = reading.skill.extra
    if said.get("runtime") not in (None, *RUNTIMES):
        yield _problem("runtime", said["runtime"], f"one of {', '.join(RUNTIMES)}")
    for name, form in FORMS.items():
        unread = read_values(name, said.get(name))[1]
        for value in unread[:_SHOWN]:
            yield _problem(name, value, f"{form.takes}, at most {MOST}")


def unused_requirements(reading: Reading) -> Iterator[Problem]:
    """A warning where a function asks for packages in a runtime that has none; scripts are given theirs in any case."""
    skill = reading.skill
    if skill is None or not any(isinstance(one, Function) and one.content for one in skill.artifacts):
        return
    needs = needs_of(skill)
    if not needs.requirements or any(one.kind == "script" for one in skill.artifacts):
        return
    python = [one for one in skill.artifacts if isinstance(one, Function) and one.content and one.language == "python"]
    if python and needs.runtime == "native":
        return
    named = ", ".join(needs.requirements[:_SHOWN])
    if python:
        message = (
            f"The function is not given the packages it asks for ({named}): it runs in the sandbox, which has none."
        )
        hint = "Add runtime: native, which a person has to agree to, or do without them."
    else:
        message = f"The packages {named} are for Python, and the skill has no Python that they are for."
        hint = "Take requirements out."
    yield Problem(code=UNUSED, severity="warning", message=message, hint=hint, field="requirements")


def _problem(field: str, value: object, takes: str) -> Problem:
    message = f"{str(value)[:80]!r} is nothing that {field} can have; it is not given."
    return Problem(code=CODE, severity="warning", message=message, hint=f"It takes {takes}.", field=field)
