"""How it is told that a template cannot be read."""

from __future__ import annotations

from prowess.errors import Invalid, Problem
from prowess.skill.text.hidden import show_hidden

_SHOWN = 80
HINT = "Correct it; docs/templates.md has what a template may say."


def syntax_fault(reason: str, line: int | None = None) -> Invalid:
    """The error for a template that cannot be read, with its one problem."""
    where = f" in line {line}" if line else ""
    return fault("template-syntax", f"The template cannot be read{where}: {reason}.", HINT, line)


def fault(code: str, message: str, hint: str, line: int | None = None) -> Invalid:
    """The error for a template with one problem."""
    problem = Problem(code=code, severity="error", message=message, hint=hint, line=line)
    return Invalid(message, hint=hint, problems=[problem])


def shown(source: str) -> str:
    """The beginning of a piece of a template as its author wrote it."""
    return f"`{show_hidden(source[:_SHOWN])}{'…' * (len(source) > _SHOWN)}`"
