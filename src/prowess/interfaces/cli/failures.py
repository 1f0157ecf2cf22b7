"""The one place where an error becomes words on stderr and an exit code."""

from __future__ import annotations

import json
import os
import sys

import click

from prowess.errors import (
    Conflict,
    Invalid,
    NotFound,
    Problem,
    ProwessError,
    Refused,
    RunFailed,
    Unavailable,
)
from prowess.interfaces.cli.printing import clean

EXIT_CODES: dict[type[ProwessError], int] = {
    ProwessError: 1,
    Invalid: 3,
    NotFound: 4,
    Refused: 5,
    Conflict: 6,
    Unavailable: 7,
    RunFailed: 8,
}
"""One code per family. 2 is a command line that was not understood, 70 a fault of our own, 130 an interruption."""


def exit_code(error: ProwessError) -> int:
    """The code of the nearest family."""
    return next(EXIT_CODES[kind] for kind in type(error).__mro__ if kind in EXIT_CODES)


def report(error: Exception) -> int:
    """Say what went wrong and what to do, and give the exit code."""
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, click.Abort):
        click.echo("Stopped.", err=True)
        return 130
    if isinstance(error, click.ClickException):
        error.show()
        return error.exit_code
    if isinstance(error, BrokenPipeError):
        # The reader went away (`| head`); keep the interpreter from complaining about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    if isinstance(error, ProwessError):
        _tell(error)
        return exit_code(error)
    return _own_fault(error)


def _tell(error: ProwessError) -> None:
    problems = error.problems if isinstance(error, Invalid) else ()
    if "--json" in sys.argv[1:]:
        click.echo(json.dumps({"error": error_object(error)}, ensure_ascii=False), err=True)
        return
    click.echo(click.style("Error: ", fg="red", bold=True) + clean(error.message), err=True)
    for problem in problems:
        click.echo(f"  {problem_line(problem)}", err=True)
    if error.hint:
        click.echo(f"{clean(error.hint)}", err=True)


def error_object(error: ProwessError) -> dict[str, object]:
    """The error as JSON: code, message, hint and, where there are any, problems."""
    from dataclasses import asdict

    told: dict[str, object] = {"code": error.code, "message": error.message, "hint": error.hint}
    if isinstance(error, Invalid) and error.problems:
        told["problems"] = [asdict(problem) for problem in error.problems]
    return told


def problem_line(problem: Problem) -> str:
    """One problem in one line: severity, place, message, hint."""
    place = ":".join(str(part) for part in (problem.field, problem.line) if part is not None)
    words = f"{problem.severity}: {place + ': ' if place else ''}{problem.message}"
    return clean(f"{words} {problem.hint}".strip() + f" [{problem.code}]")


def _own_fault(error: Exception) -> int:
    if os.environ.get("PROWESS_DEBUG"):
        raise error
    click.echo(
        f"Prowess made a mistake: {type(error).__name__}: {clean(str(error))}\n"
        "Your skills are untouched. Run again with PROWESS_DEBUG=1 for the details, and please report it.",
        err=True,
    )
    return 70
