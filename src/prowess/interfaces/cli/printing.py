"""Words for people and JSON for programs. Text that a skill brought never reaches the terminal raw."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """Text without terminal escapes, control characters or direction overrides; tabs and line ends stay."""
    text = _ESCAPES.sub("", text.replace("\r\n", "\n"))
    return _CONTROLS.sub("", text).encode("utf-8", "replace").decode()


def one_line(text: str, limit: int = 0) -> str:
    """Cleaned text on one line, shortened with an ellipsis."""
    flat = " ".join(clean(text).split())
    return flat if not limit or len(flat) <= limit else flat[: limit - 1].rstrip() + "…"


def print_json(value: Any) -> None:
    """One JSON value, indented."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=2))


def print_json_line(value: Any) -> None:
    """One JSON value on one line."""
    click.echo(json.dumps(value, ensure_ascii=False))


def console(*, err: bool = False) -> Console:
    """The terminal, with colour where it has any; wide when the output goes to a file."""
    from rich.console import Console

    made = Console(stderr=err, highlight=False, markup=False, emoji=False, soft_wrap=False)
    if not made.is_terminal:
        made.width = 120
    return made


def table(*columns: str) -> Table:
    """A light table."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    made = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    for column in columns:
        made.add_column(column, overflow="fold", no_wrap=column in ("slug", "version", "scope"))
    return made
