"""How it is told that a template cannot be read."""

from __future__ import annotations

from prowess.errors import Invalid, Problem

HINT = "Correct it; docs/templates.md has what a template may say."


def syntax_fault(reason: str, line: int | None = None) -> Invalid:
    """The error for a template that cannot be read, with its one problem."""
    where = f" in line {line}" if line else ""
    return fault("template-syntax", f"The template cannot be read{where}: {reason}.", HINT, line)


def fault(code: str, message: str, hint: str, line: int | None = None) -> Invalid:
    """The error for a template with one problem."""
    problem = Problem(code=code, severity="error", message=message, hint=hint, line=line)
    return Invalid(message, hint=hint, problems=[problem])
