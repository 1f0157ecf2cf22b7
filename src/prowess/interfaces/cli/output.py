"""Print text, tables, numbers and JSON. Text from a skill never reaches the terminal unescaped."""

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

from prowess.view import to_json

if TYPE_CHECKING:
    from rich.console import Console


_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_INVISIBLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

_DEFAULT_WIDTH = 120
_MIN_COLUMN = 24


def clean(text: str) -> str:
    """Text without terminal escapes, control characters or direction overrides; tabs and line ends stay."""
    text = _ESCAPES.sub("", text.replace("\r\n", "\n"))
    return _CONTROLS.sub("", text).encode("utf-8", "replace").decode()


def one_line(text: str, limit: int = 0) -> str:
    """Cleaned text on one line, shortened with an ellipsis."""
    flat = " ".join(clean(text).split())
    return flat if not limit or len(flat) <= limit else flat[: limit - 1].rstrip() + "…"


def escape_path(path: str | Path) -> str:
    """A path on one line, with whatever would not be seen in it written as an escape."""
    return _INVISIBLE.sub(lambda found: found[0].encode("unicode_escape").decode(), str(path))


def print_json(value: object) -> None:
    """Print a value as indented JSON; `view.to_json` converts it."""
    click.echo(_json(to_json(value), indent=2))


def print_json_line(value: object) -> None:
    """Print a value as JSON on one line; `view.to_json` converts it."""
    click.echo(_json(to_json(value)))


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


def output_width() -> int:
    """How wide the output may be: the terminal's width, or COLUMNS; wide where it goes to a file."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit():
        return max(shutil.get_terminal_size().columns, 40)
    return _DEFAULT_WIDTH


def print_wrapped(text: str, indent: int = 0, *, err: bool = False) -> None:
    """A paragraph, broken to fit a terminal; one line where the output goes to a file."""
    if (sys.stderr if err else sys.stdout).isatty():
        text = "\n".join(
            textwrap.wrap(
                text,
                output_width() - 1,
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
        widths[flexible] = min(widths[flexible], max(output_width() - others, _MIN_COLUMN))

    def line(cells: Sequence[str]) -> str:
        fitted = [_fit_cell(cell, size, cell_len, set_cell_size) for cell, size in zip(cells, widths, strict=True)]
        return "  ".join(fitted).rstrip()

    click.secho(line(head), bold=True)
    for row in rows:
        click.echo(line(row))


def _fit_cell(text: str, size: int, measure: Any, resize: Any) -> str:
    """Text in exactly so many cells; what is too long ends in an ellipsis."""
    return (
        text if measure(text) == size else resize(text, size) if measure(text) < size else resize(text, size - 1) + "…"
    )


def can_animate() -> bool:
    """Whether stderr is a terminal on which a line can be written over again, and whose owner wants that."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")


def console(*, err: bool = False) -> Console:
    """The terminal, for what moves on it."""
    from rich.console import Console

    return Console(stderr=err, highlight=False, markup=False, emoji=False)


MISSING = "-"


def format_cost(dollars: float | None) -> str:
    """US dollars; the less they are, the more places."""
    if dollars is None:
        return MISSING
    return f"${dollars:,.2f}" if dollars >= 1 else f"${dollars:.4f}" if dollars >= 0.01 else f"${dollars:.6f}"


def format_duration(milliseconds: int | None) -> str:
    """How long it took, in milliseconds, seconds or minutes."""
    if milliseconds is None:
        return MISSING
    if milliseconds < 1_000:
        return f"{milliseconds} ms"
    return f"{milliseconds / 1_000:.1f} s" if milliseconds < 100_000 else f"{milliseconds / 60_000:.1f} min"


def format_percent(of_one: float | None) -> str:
    """A part of a whole, in percent."""
    return MISSING if of_one is None else f"{of_one * 100:.1f} %"


def format_count(number: int | None) -> str:
    """A number with its thousands marked."""
    return MISSING if number is None else f"{number:,}"


_EIGHTHS = " ▏▎▍▌▋▊▉█"


def draw_bar(share: float, cells: int) -> str:
    """A bar of so many cells at most, padded to that width; what is more than nothing is never invisible."""
    share = max(0.0, min(share, 1.0))
    eighths = max(round(share * cells * 8), 1 if share else 0)
    full, part = divmod(eighths, 8)
    return ("█" * full + (_EIGHTHS[part] if part else "")).ljust(cells)
