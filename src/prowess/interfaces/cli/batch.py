"""Many messages, one JSON object a line, each answered on its own line in the same order, as they come."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NoReturn, cast

import click

from prowess.errors import NotFound
from prowess.interfaces.cli.printing import one_line, print_json_line
from prowess.match.recommendation import DECISIONS

if TYPE_CHECKING:
    from prowess.match.matcher import Matcher
    from prowess.match.recommendation import Recommendation

LONGEST_LINE = 4 * 1024 * 1024


class BadLine(ValueError):
    """A line that asks nothing; `id` is the one that it gives, as far as that can be read."""

    def __init__(self, message: str, id: str | float | None = None) -> None:
        super().__init__(message)
        self.id = id


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What one line asks."""

    id: str | float | None
    text: str
    tags: tuple[str, ...]
    context: str


@contextmanager
def opened(file: str) -> Generator[BinaryIO]:
    """The file to read, or stdin for `-`."""
    if file == "-":
        yield sys.stdin.buffer
        return
    path = Path(file)
    if not path.exists():
        raise NotFound(f"There is no file {file!r}.", hint='Give a file with JSON lines, or "-" for stdin.')
    with path.open("rb") as lines:
        yield lines


def match_lines(
    matcher: Matcher, lines: BinaryIO, *, limit: int, tags: Sequence[str], context: str, explain: bool
) -> None:
    """Answer every line; one that cannot be read gives an error in its place, and exit code 1 at the end."""
    number = asked_for = bad = 0
    while line := lines.readline(LONGEST_LINE + 1):
        number += 1
        whole = _skip_rest(line, lines)
        if not line.strip(b"\r\n\t \xef\xbb\xbf"):
            continue
        asked_for += 1
        try:
            asked = read_line(line if whole else b"")
            results = matcher.rank(
                asked.text,
                limit=limit,
                tags=tuple(dict.fromkeys((*tags, *asked.tags))),
                context=asked.context or context,
            )
            print_json_line(answer(asked, results, explain=explain))
        except BadLine as fault:
            bad += 1
            print_json_line({"id": fault.id, "line": number, "error": str(fault)})
    if bad:
        click.echo(f"{bad} of {asked_for} line{'s' if asked_for != 1 else ''} could not be read.", err=True)
        raise click.exceptions.Exit(1)


def _skip_rest(line: bytes, lines: BinaryIO) -> bool:
    """Whether this was a whole line; the rest of one that is too long is read and forgotten."""
    whole = len(line) <= LONGEST_LINE
    while not line.endswith(b"\n") and not whole:
        line = lines.readline(LONGEST_LINE)
        if not line:
            break
    return whole


def answer(asked: Asked, results: Sequence[Recommendation], *, explain: bool) -> dict[str, Any]:
    """The answer to one line: the ranking, and the best decision in it."""
    rows: list[dict[str, Any]] = []
    for result in results:
        row: dict[str, Any] = {"slug": result.slug, "score": result.score, "decision": result.decision}
        rows.append({**row, "signals": dict(result.signals)} if explain else row)
    best = min((result.decision for result in results), key=DECISIONS.index, default="no")
    return {"id": asked.id, "decision": best, "results": rows}


def read_line(line: bytes) -> Asked:
    """What a line asks, or `BadLine`."""
    if not line:
        raise BadLine(f"The line is longer than {LONGEST_LINE:,} bytes.")
    try:
        value = json.loads(line.decode("utf-8-sig"), parse_constant=_no_number)
    except UnicodeDecodeError as fault:
        raise BadLine(f"The line is not UTF-8: byte 0x{line[fault.start]:02x}.") from None
    except RecursionError:
        raise BadLine("The line is nested too deep.") from None
    except ValueError as fault:
        raise BadLine(f"The line is not JSON: {one_line(str(fault), 200)}.") from None
    if not isinstance(value, dict):
        raise BadLine('The line is no object with a "text".')
    return _asked(cast("dict[str, Any]", value))


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _asked(fields: dict[str, Any]) -> Asked:
    own_id = _id(fields.get("id"))
    text, tags, context = fields.get("text"), fields.get("tags"), fields.get("context")
    if not isinstance(text, str):
        raise BadLine('"text" is missing.' if text is None else '"text" must be a string.', own_id)
    tags = [] if tags is None else [tags] if isinstance(tags, str) else tags
    if not (isinstance(tags, list) and all(isinstance(tag, str) for tag in cast("list[Any]", tags))):
        raise BadLine('"tags" must be a list of strings.', own_id)
    if not isinstance(context, str | None):
        raise BadLine('"context" must be a string.', own_id)
    return Asked(id=own_id, text=text, tags=tuple(cast("list[str]", tags)), context=context or "")


def _id(value: Any) -> str | float | None:
    if isinstance(value, bool | list | dict) or (isinstance(value, float) and not math.isfinite(value)):
        raise BadLine('"id" must be a string or a number.')
    return value
