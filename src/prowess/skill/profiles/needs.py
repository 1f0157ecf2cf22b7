"""What a skill says it needs outside the sandbox and cannot mean. It is not given, and whoever wrote it should know."""

from __future__ import annotations

from collections.abc import Iterator

from prowess.errors import Problem
from prowess.skill.forms.form import Reading
from prowess.skill.need_values import FORMS, MOST, read_values
from prowess.skill.needs import NEED_FORMS, RUNTIMES

CODE = "need-invalid"
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


def _problem(field: str, value: object, takes: str) -> Problem:
    message = f"{str(value)[:80]!r} is nothing that {field} can have; it is not given."
    return Problem(code=CODE, severity="warning", message=message, hint=f"It takes {takes}.", field=field)
