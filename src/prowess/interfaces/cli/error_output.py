"""Turn every error into a message on stderr and an exit code. No other module does this."""

from __future__ import annotations

import io
import os
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

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
from prowess.interfaces.cli.output import clean, escape_path, one_line, print_json_line, print_wrapped
from prowess.patterns import lazy_pattern
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
"""One exit code per error family. Others: 2 for a usage error, 70 for a bug in Prowess, 130 for an interruption."""


MAX_PROBLEMS = 10
"""The most problems with the same code that are printed."""
MAX_FINDINGS = 20
"""The most findings about one skill that are printed."""


def exit_code(error: ProwessError) -> int:
    """Return the exit code of the error's nearest family."""
    return next(EXIT_CODES[kind] for kind in type(error).__mro__ if kind in EXIT_CODES)


def report_error(error: Exception) -> int:
    """Print an error and its hint on stderr, and return the exit code."""
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, click.Abort):
        click.echo("Stopped. Everything saved so far is kept.", err=True)
        return 130
    if isinstance(error, click.ClickException):
        if _is_json():
            _print_json({"code": "usage", "message": error.format_message(), "hint": _usage_hint(error)})
        else:
            # It may repeat an argument, such as the name of a file.
            error.show(shown := io.StringIO())
            click.echo(clean(shown.getvalue()), nl=False, err=True)
        return error.exit_code
    if isinstance(error, OSError):
        discard_stdout()
        error = _from_os_error(error)
    if isinstance(error, ProwessError):
        error = _name_wrong_values(error)
        # Imported here because a command that succeeds does not need it.
        error.hint = adapt_install_commands(error.hint)
        _print_error(error)
        return exit_code(error)
    return _report_bug(error)


def discard_stdout() -> None:
    """Redirect stdout to the null device if it is broken.

    Otherwise the interpreter flushes it once more at exit, and prints a traceback.
    """
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _from_os_error(error: OSError) -> Unavailable:
    """Return an `Unavailable` with the path and the reason of an operating system error."""
    # For a file that was already open, `filename` is its descriptor, which means nothing to a person.
    name = "" if isinstance(error.filename, int) else os.fsdecode(error.filename or "")
    where = f"{escape_path(name)}: " if name else ""
    return Unavailable(
        f"{where}{error.strerror or error}.",
        hint="Check that the path exists, its permissions and the free disk space.",
    )


def _is_json() -> bool:
    return "--json" in sys.argv[1:]


def _print_json(error: Mapping[str, Any]) -> None:
    print_json_line({"error": error}, err=True)


def _usage_hint(error: click.ClickException) -> str:
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f"Run `{context.command_path} --help`." if context else ""


def _print_error(error: ProwessError) -> None:
    problems = error.problems if isinstance(error, Invalid) else ()
    if _is_json():
        _print_json(error_json(error))
        return
    covered = [problem for problem in problems if _is_covered(problem, error)]
    codes = "".join(f" [{code}]" for code in dict.fromkeys(problem.code for problem in covered))
    click.echo(click.style("Error: ", fg="red", bold=True) + clean(error.message + codes), err=True)
    print_problems([problem for problem in problems if problem not in covered], indent=2, err=True)
    if error.hint:
        click.echo(f"{clean(error.hint)}", err=True)


def _is_covered(problem: Problem, error: ProwessError) -> bool:
    """Return True if the error's own message and hint already contain those of the problem."""
    return problem.message.rstrip(".") in error.message and problem.hint in error.hint


def _place_of(problem: Problem) -> str:
    return problem.place


def print_problems(
    problems: Sequence[Problem],
    *,
    indent: int = 4,
    err: bool = False,
    place: Callable[[Problem], str] = _place_of,
) -> None:
    """Print one line per problem. Of each code, print the first `MAX_PROBLEMS` and the number of the others."""
    seen: Counter[str] = Counter()
    for problem in problems:
        seen[problem.code] += 1
        if seen[problem.code] <= MAX_PROBLEMS:
            where = place(problem)
            words = f"{problem.severity}: {where + ': ' if where else ''}{problem.message}"
            print_wrapped(clean(f"{words} {problem.hint}".strip() + f" [{problem.code}]"), indent, err=err)
    for code, count in seen.items():
        if count > MAX_PROBLEMS:
            print_wrapped(f"… and {count - MAX_PROBLEMS} more [{code}]", indent, err=err)


def print_findings(findings: Sequence[Mapping[str, Any]], *, indent: int = 4) -> None:
    """Print warnings and dangerous findings, each with its place and an excerpt, and the number of the others."""
    shown = [row for row in findings if row["severity"] != "info"]
    for row in shown[:MAX_FINDINGS]:
        place = ":".join(str(part) for part in (row["path"], row["line"]) if part is not None)
        print_wrapped(one_line(f"{row['severity']}: {place}: {row['message']} [{row['kind']}]"), indent)
        if row["excerpt"]:
            print_wrapped(one_line(str(row["excerpt"])), indent + 4)
    more = len(shown) - MAX_FINDINGS
    if more > 0:
        print_wrapped(f"… and {more} more; --json lists all.", indent)


def _report_bug(error: Exception) -> int:
    if os.environ.get("PROWESS_DEBUG"):
        raise error
    if damage := _find_damage():
        _print_error(damage)
        return exit_code(damage)
    click.echo(
        f"Internal error: {type(error).__name__}: {clean(str(error))}\n"
        "This is a bug in Prowess; your skills are not affected. Run again with PROWESS_DEBUG=1 for the traceback, and "
        "please report it.",
        err=True,
    )
    return 70


def _name_wrong_values(error: ProwessError) -> ProwessError:
    from prowess.storage.driver_errors import WRONG_VALUE_HINT

    return (error.hint == WRONG_VALUE_HINT and _find_damage()) or error


def _find_damage() -> ProwessError | None:
    with suppress(Exception):
        from prowess.engine.doctor import find_damage

        return find_damage()
    return None


_PIP_COMMAND = lazy_pattern(r"pip install '?prowess\[([a-z0-9,_-]+)\]'?")


def adapt_install_commands(text: str) -> str:
    """Return the text with each command that installs an extra replaced by one for the environment of this program.

    Where uv installed Prowess as a tool, pip would install another package of this name, or nothing that this program sees.
    """
    requirement = _read_uv_requirement() if "pip install" in text else None
    if requirement is None:
        return text
    return _PIP_COMMAND.sub(lambda found: _uv_command(requirement, found[1].split(",")), text)


def _uv_command(requirement: dict[str, Any], added: list[str]) -> str:
    extras = ",".join(sorted({*requirement.get("extras", ()), *added}))
    place = next((requirement[name] for name in ("directory", "editable", "path") if requirement.get(name)), "")
    address = f"git+{requirement['git']}" if requirement.get("git") else requirement.get("url", "")
    named = f"{place}[{extras}]" if place else f"prowess[{extras}]" + (f" @ {address}" if address else "")
    return f"uv tool install {shlex.quote(named)}"


def _read_uv_requirement() -> dict[str, Any] | None:
    """Return how uv was asked to install Prowess as a tool; None if it did not."""
    import tomllib

    try:
        receipt = tomllib.loads((Path(sys.prefix) / "uv-receipt.toml").read_text("utf-8"))
        return next(one for one in receipt["tool"]["requirements"] if one["name"] == "prowess")
    except (OSError, ValueError, LookupError, TypeError, StopIteration):
        return None
