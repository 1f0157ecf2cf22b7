"""Print text, tables, numbers and JSON. Text from a skill never reaches the terminal unescaped."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prowess.interfaces.cli.width import terminal_width
from prowess.patterns import lazy_pattern
from prowess.view import to_json

if TYPE_CHECKING:
    from rich.console import Console


# The text inside a sequence such as `ESC ] … BEL` stays: a file that a person reviews could hide its worst lines there.
_ESCAPES = lazy_pattern(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[ -/]*[0-~])")
_CONTROLS = lazy_pattern(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_INVISIBLE = lazy_pattern(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

_DEFAULT_WIDTH = 120
_MIN_COLUMN = 12


def clean(text: str) -> str:
    """Remove terminal escapes and control characters, and write other hidden characters out. Tabs and line ends stay."""
    text = _CONTROLS.sub("", _ESCAPES.sub("", text.replace("\r\n", "\n")))
    return text if text.isascii() else _show_hidden(text).encode("utf-8", "replace").decode()


def _show_hidden(text: str) -> str:
    from prowess.skill.text.hidden import show_hidden  # imported with the first text that is not plain ASCII

    return show_hidden(text)


def one_line(text: str, limit: int = 0) -> str:
    """Return cleaned text on one line, shortened to `limit` characters with an ellipsis (0: not shortened)."""
    flat = " ".join(clean(text).split())
    return flat if not limit or len(flat) <= limit else flat[: limit - 1].rstrip() + "…"


def escape_path(path: str | Path) -> str:
    """Return a path on one line, with invisible and control characters written as escapes."""
    text = _INVISIBLE.sub(lambda found: found[0].encode("unicode_escape").decode(), str(path))
    return text if text.isascii() else _show_hidden(text)


def print_json(value: object) -> None:
    """Print a value as indented JSON; `view.to_json` converts it."""
    click.echo(_json(to_json(value), indent=2))


def print_json_line(value: object, *, err: bool = False) -> None:
    """Print a value as JSON on one line; `view.to_json` converts it."""
    click.echo(_json(to_json(value)), err=err)


def _json(value: Any, **options: Any) -> str:
    """Return JSON that is safe to print: control characters are escaped, other text stays readable.

    If a string cannot be encoded as UTF-8, such as a file name in another encoding, or not for this terminal, all non-ASCII
    text is escaped.
    """
    text = json.dumps(value, ensure_ascii=False, **options)
    try:
        text.encode()
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(value, ensure_ascii=True, **options)
    # With `ensure_ascii=False`, json escapes only characters below U+0020. DEL, C1 controls and direction overrides
    # would reach the terminal.
    text = _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    return text if text.isascii() else _escape_hidden(text)


def _escape_hidden(text: str) -> str:
    """Return JSON with hidden characters escaped: a person sees them, and the value stays the same."""
    from prowess.skill.text.hidden import replace_hidden

    return replace_hidden(text, lambda char: json.dumps(char)[1:-1])


def output_width() -> int:
    """Return the width for output: that of the terminal or COLUMNS, or a fixed width if stdout is not a terminal."""
    return max(terminal_width(), 40) if has_width() else _DEFAULT_WIDTH


def has_width() -> bool:
    """Return True if the output must fit a terminal or COLUMNS."""
    return sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()


def print_wrapped(text: str, indent: int = 0, *, err: bool = False) -> None:
    """Print a paragraph, wrapped to fit the terminal or COLUMNS, or on one line if there is neither."""
    if (sys.stderr if err else sys.stdout).isatty() or os.environ.get("COLUMNS", "").isdigit():
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


def print_table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    flexible: int | None = None,
    optional: Sequence[str] = (),
) -> None:
    """Print rows in columns below a bold header. The flexible column is cut to the width that the others leave.

    On a terminal that is too narrow, the `optional` columns are left out one after the other. If that is not enough, each row
    is printed as a block.
    """
    from rich.cells import cell_len, set_cell_size

    # Also times and digests: whoever can write to a database can store anything as one.
    rows = [[clean(cell) for cell in row] for row in rows]
    widths = [max(cell_len(row[index]) for row in (head, *rows)) for index in range(len(head))]
    if flexible is not None:
        others = sum(size + 2 for index, size in enumerate(widths) if index != flexible)
        widths[flexible] = min(widths[flexible], max(output_width() - others, _MIN_COLUMN))
    if has_width() and sum(widths) + 2 * (len(widths) - 1) > output_width():
        if optional:
            left_out = head.index(optional[0])
            fewer = [[*row[:left_out], *row[left_out + 1 :]] for row in (head, *rows)]
            flexible = None if flexible in (None, left_out) else flexible - (flexible > left_out)
            print_table(fewer[0], fewer[1:], flexible=flexible, optional=optional[1:])
        else:
            _print_blocks(head, rows)
        return

    def line(cells: Sequence[str]) -> str:
        fitted = [_fit_cell(cell, size, cell_len, set_cell_size) for cell, size in zip(cells, widths, strict=True)]
        return "  ".join(fitted).rstrip()

    click.secho(line(head), bold=True)
    for row in rows:
        click.echo(line(row))


def _print_blocks(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print each row as a bold first cell, with the other cells that are not empty below it."""
    for row in rows:
        click.secho(row[0].strip(), bold=True)
        for name, cell in zip(head[1:], row[1:], strict=True):
            if cell.strip():
                text = f"{name}: {cell.strip()}" if name else cell.strip()
                click.echo(textwrap.fill(text, output_width() - 1, initial_indent="  ", subsequent_indent="    "))


def _fit_cell(text: str, size: int, measure: Any, resize: Any) -> str:
    """Pad or cut text to exactly `size` terminal cells. Text that is cut ends in an ellipsis."""
    return (
        text if measure(text) == size else resize(text, size) if measure(text) < size else resize(text, size - 1) + "…"
    )


def print_facts(facts: Iterable[tuple[str, str]], width: int = 10) -> None:
    """Print the facts that have a text, one a line, below each other and with their labels in bold."""
    for label, text in facts:
        if text:
            click.echo(f"{click.style(label.ljust(width), bold=True)}{one_line(text)}")


def can_animate() -> bool:
    """Return True if stderr is a terminal that can redraw a line, and the user has not set NO_COLOR."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")


def console(*, err: bool = False) -> Console:
    """Return a rich console for spinners and progress bars. It does not interpret markup in text."""
    from rich.console import Console

    return Console(stderr=err, highlight=False, markup=False, emoji=False)


MISSING = "-"


def format_cost(dollars: float | None) -> str:
    """Format US dollars, with more decimal places for smaller amounts."""
    if dollars is None:
        return MISSING
    return f"${dollars:,.2f}" if dollars >= 1 else f"${dollars:.4f}" if dollars >= 0.01 else f"${dollars:.6f}"


def format_duration(milliseconds: int | None) -> str:
    """Format a duration in milliseconds, seconds or minutes."""
    if milliseconds is None:
        return MISSING
    if milliseconds < 1_000:
        return f"{milliseconds} ms"
    return f"{milliseconds / 1_000:.1f} s" if milliseconds < 100_000 else f"{milliseconds / 60_000:.1f} min"


def format_percent(of_one: float | None) -> str:
    """Format a share between 0 and 1 as a percentage."""
    return MISSING if of_one is None else f"{of_one * 100:.1f} %"


def format_count(number: int | None) -> str:
    """Format a number with thousands separators."""
    return MISSING if number is None else f"{number:,}"


_EIGHTHS = " ▏▎▍▌▋▊▉█"


def draw_bar(share: float, cells: int) -> str:
    """Draw a bar for a share between 0 and 1, padded to `cells`. A share above 0 always shows at least an eighth."""
    share = max(0.0, min(share, 1.0))
    eighths = max(round(share * cells * 8), 1 if share else 0)
    full, part = divmod(eighths, 8)
    return ("█" * full + (_EIGHTHS[part] if part else "")).ljust(cells)
