"""Words for people and JSON for programs. Text that a skill brought never reaches the terminal raw."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

_WIDE = 120
_LEAST = 24


def clean(text: str) -> str:
    """Text without terminal escapes, control characters or direction overrides; tabs and line ends stay."""
    text = _ESCAPES.sub("", text.replace("\r\n", "\n"))
    return _CONTROLS.sub("", text).encode("utf-8", "replace").decode()


def one_line(text: str, limit: int = 0) -> str:
    """Cleaned text on one line, shortened with an ellipsis."""
    flat = " ".join(clean(text).split())
    return flat if not limit or len(flat) <= limit else flat[: limit - 1].rstrip() + "…"


def shown_path(path: str | Path) -> str:
    """A path on one line, with whatever would not be seen in it written as an escape."""
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), str(path))


def print_json(value: Any) -> None:
    """One JSON value, indented."""
    click.echo(_json(value, indent=2))


def print_json_line(value: Any) -> None:
    """One JSON value on one line."""
    click.echo(_json(value))


def _json(value: Any, **options: Any) -> str:
    """JSON as UTF-8, in which no terminal finds anything to obey: what would not be seen is written as an escape.

    Where a file name is not text, everything beyond ASCII is.
    """
    text = json.dumps(value, ensure_ascii=False, **options)
    try:
        text.encode()
    except UnicodeEncodeError:
        text = json.dumps(value, ensure_ascii=True, **options)
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def width() -> int:
    """How wide the output may be: the terminal's width, or COLUMNS; wide where it goes to a file."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit():
        return max(shutil.get_terminal_size().columns, 40)
    return _WIDE


def print_wrapped(text: str, indent: int = 0, *, err: bool = False) -> None:
    """A paragraph, broken to fit a terminal; one line where the output goes to a file."""
    if (sys.stderr if err else sys.stdout).isatty():
        text = "\n".join(
            textwrap.wrap(
                text,
                width() - 1,
                initial_indent=" " * indent,
                subsequent_indent=" " * (indent + 2),
                break_on_hyphens=False,
            )
        )
        click.echo(text, err=err)
    else:
        click.echo(" " * indent + text, err=err)


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]], *, flexible: int | None = None) -> None:
    """Rows in columns under a bold head; the flexible column is cut to the room that the others leave."""
    from rich.cells import cell_len, set_cell_size

    widths = [max(cell_len(row[place]) for row in (head, *rows)) for place in range(len(head))]
    if flexible is not None:
        others = sum(size + 2 for place, size in enumerate(widths) if place != flexible)
        widths[flexible] = min(widths[flexible], max(width() - others, _LEAST))

    def line(cells: Sequence[str]) -> str:
        fitted = [_fit(cell, size, cell_len, set_cell_size) for cell, size in zip(cells, widths, strict=True)]
        return "  ".join(fitted).rstrip()

    click.secho(line(head), bold=True)
    for row in rows:
        click.echo(line(row))


def _fit(text: str, size: int, measure: Any, resize: Any) -> str:
    """Text in exactly so many cells; what is too long ends in an ellipsis."""
    return (
        text if measure(text) == size else resize(text, size) if measure(text) < size else resize(text, size - 1) + "…"
    )


def can_move() -> bool:
    """Whether stderr is a terminal on which a line can be written over again, and whose owner wants that."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")


def console(*, err: bool = False) -> Console:
    """The terminal, for what moves on it."""
    from rich.console import Console

    return Console(stderr=err, highlight=False, markup=False, emoji=False)
