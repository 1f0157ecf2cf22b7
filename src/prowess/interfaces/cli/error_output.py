"""Turn every error into a message on stderr and an exit code. No other module does this."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Sequence

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
from prowess.interfaces.cli.output import clean, escape_path, print_wrapped
from prowess.view import error_json

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


MAX_PROBLEMS = 10
"""How many problems of one code are worth printing."""


def exit_code(error: ProwessError) -> int:
    """The code of the nearest family."""
    return next(EXIT_CODES[kind] for kind in type(error).__mro__ if kind in EXIT_CODES)


def report_error(error: Exception) -> int:
    """Say what went wrong and what to do, and give the exit code."""
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, click.Abort):
        click.echo("Stopped. What was kept by then stays.", err=True)
        return 130
    if isinstance(error, click.ClickException):
        error.show()
        return error.exit_code
    if isinstance(error, BrokenPipeError):
        discard_stdout()  # the reader went away (`| head`)
        return 0
    if isinstance(error, OSError):
        discard_stdout()
        error = _from_os_error(error)
    if isinstance(error, ProwessError):
        _print_error(error)
        return exit_code(error)
    return _report_bug(error)


def discard_stdout() -> None:
    """Where stdout takes nothing any more, keep the interpreter from complaining about it at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _from_os_error(error: OSError) -> Unavailable:
    """What the operating system refused, in words."""
    # A file that was open already is named by its number, which tells nobody anything.
    name = "" if isinstance(error.filename, int) else os.fsdecode(error.filename or "")
    where = f"{escape_path(name)}: " if name else ""
    return Unavailable(
        f"{where}{error.strerror or error}.", hint="Check that the place exists, its permissions, and the free space."
    )


def _print_error(error: ProwessError) -> None:
    problems = error.problems if isinstance(error, Invalid) else ()
    if "--json" in sys.argv[1:]:
        click.echo(json.dumps({"error": error_json(error)}, ensure_ascii=False), err=True)
        return
    told = [problem for problem in problems if _is_covered(problem, error)]
    codes = "".join(f" [{code}]" for code in dict.fromkeys(problem.code for problem in told))
    click.echo(click.style("Error: ", fg="red", bold=True) + clean(error.message + codes), err=True)
    print_problems([problem for problem in problems if problem not in told], indent=2, err=True)
    if error.hint:
        click.echo(f"{clean(error.hint)}", err=True)


def _is_covered(problem: Problem, error: ProwessError) -> bool:
    """Whether the error's own words say all that the problem does."""
    return problem.message.rstrip(".") in error.message and problem.hint in error.hint


def format_problem(problem: Problem) -> str:
    """One problem in one line: severity, the place that its message does not name itself, message, hint."""
    field = None if problem.field and problem.message.startswith(f"{problem.field}:") else problem.field
    line = None if f"line {problem.line}" in problem.message else problem.line
    place = ":".join(str(part) for part in (field, line) if part is not None)
    words = f"{problem.severity}: {place + ': ' if place else ''}{problem.message}"
    return clean(f"{words} {problem.hint}".strip() + f" [{problem.code}]")


def print_problems(problems: Sequence[Problem], *, indent: int = 4, err: bool = False) -> None:
    """Every problem, a line each; of many with one code, the first ten and how many more there are."""
    seen: Counter[str] = Counter()
    for problem in problems:
        seen[problem.code] += 1
        if seen[problem.code] <= MAX_PROBLEMS:
            print_wrapped(format_problem(problem), indent, err=err)
    for code, count in seen.items():
        if count > MAX_PROBLEMS:
            print_wrapped(f"… and {count - MAX_PROBLEMS} more [{code}]", indent, err=err)


def _report_bug(error: Exception) -> int:
    if os.environ.get("PROWESS_DEBUG"):
        raise error
    click.echo(
        f"Prowess made a mistake: {type(error).__name__}: {clean(str(error))}\n"
        "Your skills are untouched. Run again with PROWESS_DEBUG=1 for the details, and please report it.",
        err=True,
    )
    return 70
