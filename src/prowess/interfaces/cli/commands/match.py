"""`prowess match` and `search`: find skills for a message, for every line of a file, or by words and tags."""

from __future__ import annotations

import math
import re
import sys
import textwrap
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import click

from prowess.errors import Invalid, NotFound
from prowess.interfaces.cli.engine import Cli, common_options, mark_trust, open_matcher
from prowess.interfaces.cli.options import (
    MAX_MESSAGE_CHARS,
    Limit,
    command,
    print_no_results,
    read_message,
)
from prowess.interfaces.cli.output import draw_bar, one_line, output_width, print_json, print_json_line, print_table
from prowess.interfaces.cli.usage_messages import warn_unknown_tags
from prowess.lazy_dataclass import dataclass
from prowess.match.recommendation import DECISIONS, Recommendation, format_score
from prowess.patterns import lazy_pattern
from prowess.skill.json_values import parse_json

if TYPE_CHECKING:
    from prowess.match.matcher import Matcher


MAX_LINE_BYTES = 4 * 1024 * 1024
_BAR = 8
_DECISION_COLOURS = {"offer": "green", "maybe": "yellow", "no": "red"}
_HEAD = ("score", "skill", "decision", "description")
_SCORE, _SLUG, _TAGS, _INDENT = 5 + _BAR, 48, 24, 4
_MIN_DESCRIPTION = 40
"""The minimum width of a description next to its skill; below it, the description gets its own line."""
_NARROW = lazy_pattern("[\x20-\u02ff\u2010-\u2027\u2030-\u205e]*")
"""Text in which every character takes one terminal cell. It needs no measuring, so rich is not imported for it."""
_WORD = lazy_pattern(r"[^\W_]+")
_UNSPACED = lazy_pattern(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]"
)


class InvalidLine(ValueError):
    """A line of a batch that is not a valid query. `id` is the line's own id, or None if it could not be read."""

    def __init__(self, message: str, id: str | float | None = None) -> None:
        super().__init__(message)
        self.id = id


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchQuery:
    """The query on one line of a batch."""

    id: str | float | None
    text: str
    tags: tuple[str, ...]
    context: str


@contextmanager
def open_batch(file: str) -> Generator[BinaryIO]:
    """Open the file of a batch, or yield stdin for `-`. Raise `NotFound` if there is no such file."""
    if file == "-":
        yield sys.stdin.buffer
        return
    path = Path(file)
    if not path.exists():
        raise NotFound(f"File {file!r} not found.", hint='Give a file of JSON lines, or "-" for stdin.')
    with path.open("rb") as lines:
        yield lines


def match_lines(
    matcher: Matcher, lines: BinaryIO, *, limit: int, tags: Sequence[str], context: str, explain: bool
) -> None:
    """Print one JSON line with results for every query. Blank lines are skipped.

    An invalid line gets an error in its place; the command then exits with code 1 at the end.
    """
    number = queries = bad = 0
    # `readline` with a limit keeps memory bounded if the input is one endless line.
    while line := lines.readline(MAX_LINE_BYTES + 1):
        number += 1
        whole = _skip_rest(line, lines)
        # A file saved on Windows may start with a byte order mark (EF BB BF), even if it is otherwise empty.
        if not line.strip(b"\r\n\t \xef\xbb\xbf"):
            continue
        queries += 1
        try:
            query = _parse_line(line if whole else b"")
            try:
                results = matcher.rank(
                    query.text,
                    limit=limit,
                    tags=tuple(dict.fromkeys((*tags, *query.tags))),
                    context=query.context or context,
                )
            except Invalid as error:  # a server takes shorter messages than a line may have
                raise InvalidLine(error.message, query.id) from error
            print_json_line(_answer_json(query, results, explain=explain))
        except InvalidLine as error:
            bad += 1
            print_json_line({"id": error.id, "line": number, "error": str(error)})
    if bad:
        click.echo(f"{bad} of {queries} line{'s' if queries != 1 else ''} could not be read.", err=True)
        raise click.exceptions.Exit(1)


def _skip_rest(line: bytes, lines: BinaryIO) -> bool:
    """Return True if the line was read completely. Read and discard the rest of a line that is too long."""
    whole = len(line) <= MAX_LINE_BYTES
    while not line.endswith(b"\n") and not whole:
        line = lines.readline(MAX_LINE_BYTES)
        if not line:
            break
    return whole


def _answer_json(query: BatchQuery, results: Sequence[Recommendation], *, explain: bool) -> dict[str, Any]:
    """Return the JSON answer to one query: the ranking, and the best decision in it."""
    rows: list[dict[str, Any]] = []
    for result in results:
        row: dict[str, Any] = {"slug": result.slug, "score": result.score, "decision": result.decision}
        rows.append({**row, "signals": dict(result.signals)} if explain else row)
    best = min((result.decision for result in results), key=DECISIONS.index, default="no")
    return {"id": query.id, "decision": best, "results": rows}


def _parse_line(line: bytes) -> BatchQuery:
    """Parse one line; b"" stands for a line that was too long. Raise `InvalidLine` if it is not a valid query."""
    if not line:
        raise InvalidLine(f"The line is longer than {MAX_LINE_BYTES:,} bytes.")
    try:
        value = parse_json(line.decode("utf-8-sig"))
    except UnicodeDecodeError as fault:
        raise InvalidLine(f"The line is not UTF-8: byte 0x{line[fault.start]:02x}.") from None
    except RecursionError:
        raise InvalidLine("The line is nested too deep.") from None
    except ValueError as fault:
        raise InvalidLine(f"The line is not JSON: {one_line(str(fault), 200)}.") from None
    if not isinstance(value, dict):
        raise InvalidLine('The line is not an object with a "text".')
    return _parse_query(cast("dict[str, Any]", value))


def _parse_query(fields: dict[str, Any]) -> BatchQuery:
    own_id = _parse_id(fields.get("id"))
    text, tags, context = fields.get("text"), fields.get("tags"), fields.get("context")
    if not isinstance(text, str):
        raise InvalidLine('"text" is missing.' if text is None else '"text" must be a string.', own_id)
    tags = [] if tags is None else [tags] if isinstance(tags, str) else tags
    if not (isinstance(tags, list) and all(isinstance(tag, str) for tag in cast("list[Any]", tags))):
        raise InvalidLine('"tags" must be a list of strings.', own_id)
    if not isinstance(context, str | None):
        raise InvalidLine('"context" must be a string.', own_id)
    return BatchQuery(id=own_id, text=text, tags=tuple(cast("list[str]", tags)), context=context or "")


def _parse_id(value: Any) -> str | float | None:
    if isinstance(value, bool | list | dict) or (isinstance(value, float) and not math.isfinite(value)):
        raise InvalidLine('"id" must be a string or a number.')
    return value


DEFAULT_LIMIT, DEFAULT_BATCH_LIMIT, REFUSED_SHOWN = 5, 10, 3


@command(
    "match",
    'prowess match "write release notes for these commits"',
    'prowess match "fix the failing build" --explain',
    "prowess match --batch messages.jsonl",
)
@click.argument("words", nargs=-1, metavar="[MESSAGE]")
@click.option(
    "--limit", type=Limit(), metavar="N", help="Maximum number of results, up to 1,000 (default: 5; with --batch, 10)."
)
@click.option("--tag", "tags", multiple=True, help="Only skills with this tag (repeatable).")
@click.option(
    "--context", default="", metavar="TEXT", help="Earlier messages. They count less than the message itself."
)
@click.option("--batch", metavar="FILE", help='Match every line {"id", "text"} of this file ("-": stdin).')
@click.option("--explain", is_flag=True, help="Show the evidence, the signals and rejected candidates.")
@common_options
def match_command(
    words: tuple[str, ...],
    limit: int | None,
    tags: tuple[str, ...],
    context: str,
    batch: str | None,
    explain: bool,
    cli: Cli,
) -> None:
    """Find the skills that fit a message. If none fits, print only a hint.

    Without MESSAGE, or with "-", the message is read from stdin. Built-in role packs are not matched.
    """
    if batch is not None and words:
        raise click.UsageError("Give a message or --batch, not both.")
    if batch is not None:
        with open_batch(batch) as lines, open_matcher(cli) as matcher:
            match_lines(matcher, lines, limit=limit or DEFAULT_BATCH_LIMIT, tags=tags, context=context, explain=explain)
        return
    text = read_message(words)
    with open_matcher(cli) as matcher:
        results = mark_trust(matcher.match(text, limit=limit or DEFAULT_LIMIT, tags=tags, context=context), cli)
        if cli.as_json:
            print_json([result.as_json(explain=explain) for result in results])
        else:
            refused = (
                matcher.rank(text, limit=REFUSED_SHOWN, tags=tags, context=context) if explain and not results else []
            )
            _print_results(matcher, results, refused, explain=explain)
            _print_people_only(matcher.search(text, limit=DEFAULT_LIMIT, tags=tags))
        if explain or not results:
            _print_missing_vectors(matcher)
        if tags and not results:
            warn_unknown_tags(matcher, tags)


def _print_results(
    matcher: Matcher, results: list[Recommendation], refused: list[Recommendation], *, explain: bool
) -> None:

    if results:
        print_recommendations(results, explain=explain)
        return
    next_step = "`prowess list` shows all skills." if explain else "Add --explain to see the closest ones."
    print_no_results(matcher, f"No matching skill. {next_step}")
    if refused:
        click.echo("\nClosest candidates, below the threshold:")
        print_recommendations(refused, explain=True)


def _print_people_only(found: Sequence[Recommendation]) -> None:
    """Print which of the skills would be offered if not only people started them."""
    slugs = [one_line(result.slug, _SLUG) for result in found if result.people_only and result.decision == "offer"]
    if slugs:
        them = "it" if len(slugs) == 1 else "them"
        click.echo(
            f"\nFor people only: {', '.join(slugs)}. Agents are not offered {them}; `prowess enable` adds {them} to a prompt."
        )


def _print_missing_vectors(matcher: Matcher) -> None:
    """Print on stderr how many skills are compared by words only."""
    index = matcher.index()
    if index.missing:
        skills = f"{index.missing:,} of {index.size:,} skill{'s' * (index.size != 1)}"
        click.echo(
            f"{skills} are compared by words only until their vectors are ready (`prowess doctor --index`).", err=True
        )


@command("search", "prowess search release notes", "prowess search --tag writing --limit 50")
@click.argument("words", nargs=-1)
@click.option("--tag", "tags", multiple=True, help="Only skills with this tag (repeatable).")
@click.option(
    "--limit", type=Limit(), default=20, metavar="N", help="Maximum number of results, up to 1,000 (default: 20)."
)
@click.option("--explain", is_flag=True, help="Show the evidence and the signals.")
@common_options
def search_command(words: tuple[str, ...], tags: tuple[str, ...], limit: int, explain: bool, cli: Cli) -> None:
    """Search skills by words and tags, best first.

    Without WORDS, lists all skills that have the tags.
    """
    query = " ".join(words)[:MAX_MESSAGE_CHARS]
    with open_matcher(cli) as matcher:
        results = mark_trust(matcher.search(query, limit=limit, tags=tags), cli)
        if cli.as_json:
            rows = [result.as_json(explain=explain) for result in results]
            # Without words nothing was ranked: a score and a decision would say what nobody has found out.
            hidden = () if query.strip() else ("score", "decision", "why", "evidence", "signals")
            print_json([{name: row[name] for name in row if name not in hidden} for row in rows])
        elif results and query.strip():
            print_recommendations(results, explain=explain)
        elif results:
            _print_tagged(results)
        else:
            print_no_results(matcher, "No matching skill. `prowess list` shows all skills.")
        if tags and not results:
            warn_unknown_tags(matcher, tags)


def print_recommendations(results: Sequence[Recommendation], *, explain: bool = False) -> None:
    """Print one row per result, in the given order. `explain` adds the matched terms by field and the score's signals.

    If the terminal is too narrow for the description, it is printed below its row.
    """
    from prowess.match.collisions import matched_terms

    longest = min(_SLUG, output_width() - _SCORE - len(_HEAD[2]) - 4)
    slugs = max(len(_HEAD[1]), *(len(one_line(result.slug, longest)) for result in results))
    before = _SCORE + slugs + len(_HEAD[2]) + 6
    beside = output_width() - before >= _MIN_DESCRIPTION
    room = output_width() - (before if beside else _INDENT)
    head = (_HEAD[0].ljust(_SCORE), _HEAD[1].ljust(slugs), *_HEAD[2 : 4 if beside else 3])
    click.secho("  ".join(head), bold=True)
    for result in results:
        decision = click.style(result.decision.ljust(len(_HEAD[2])), fg=_DECISION_COLOURS[result.decision])
        row = f"{score_bar(result.score)}  {one_line(result.slug, longest):<{slugs}}  {decision}"
        mark = f"[{result.trust}] " if result.trust not in ("", "local") else ""
        text = highlight_words(_truncate(mark + one_line(result.description), room), matched_terms(result))
        click.echo(f"{row}  {text}" if beside else f"{row}\n{' ' * _INDENT}{text}")
        for line in textwrap.wrap(one_line(result.why), room):
            click.secho(" " * (before if beside else _INDENT) + line, dim=True)
        if explain:
            _print_signals(result)


def _print_tagged(results: Sequence[Recommendation]) -> None:
    """Print one row per result of a search by tags only, which has no scores."""
    rows = [
        (one_line(result.slug, _SLUG), one_line(", ".join(result.tags), _TAGS), one_line(result.description))
        for result in results
    ]
    print_table(("skill", "tags", "description"), rows, flexible=2)


def score_bar(score: float) -> str:
    """Format a score as a number and a bar of fixed width."""
    return f"{format_score(score)} {draw_bar(score, _BAR)}"


def highlight_words(text: str, terms: Iterable[str]) -> str:
    """Return the text with every word that matches a term in bold and underlined. `click.echo` drops that for pipes."""
    from prowess.match.collisions import content_words

    words = " ".join(terms)
    stems = content_words(words)
    inside = "|".join(re.escape(term) for term in words.split() if _is_unspaced(term))

    def mark(word: re.Match[str]) -> str:
        # Chinese, Japanese, Thai and similar scripts do not separate words, so a term is only part of what matched.
        if _is_unspaced(word[0]):
            return re.sub(inside, lambda part: _highlight(part[0]), word[0]) if inside else word[0]
        return _highlight(word[0]) if content_words(word[0]).keys() & stems else word[0]

    return _WORD.sub(mark, text)


def _is_unspaced(word: str) -> bool:
    return not word.isascii() and _UNSPACED.search(word) is not None


def _highlight(text: str) -> str:
    return click.style(text, bold=True, underline=True)


def _print_signals(result: Recommendation) -> None:
    for item in result.evidence:
        found = (
            ", ".join(one_line(term, 40) for term in item.terms)
            or f"{item.count} word{'s' * (item.count != 1)} (not shown)"
        )
        click.echo(f"{' ' * _INDENT}{item.field}: {found}")
    if result.signals:
        figures = "  ".join(f"{one_line(name)}={value:.4g}" for name, value in sorted(result.signals.items()))
        click.echo(f"{' ' * _INDENT}signals: {figures}")


def _truncate(text: str, room: int) -> str:
    """Cut text to at most `room` terminal cells. Text that is cut ends in an ellipsis."""
    if _NARROW.fullmatch(text):
        return text if len(text) <= room else text[: room - 1].rstrip() + "…"
    from rich.cells import cell_len, set_cell_size

    return text if cell_len(text) <= room else set_cell_size(text, room - 1).rstrip() + "…"
