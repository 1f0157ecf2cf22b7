"""Print recommendations as a table with score bars, highlighted words and a reason.

`prowess match` may run on every message, so nothing heavy is imported for text in Latin script.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from prowess.interfaces.cli.output import draw_bar, one_line, output_width, print_table
from prowess.match.recommendation import format_score
from prowess.patterns import lazy_pattern

if TYPE_CHECKING:
    from prowess.match.recommendation import Recommendation

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


def print_recommendations(results: Sequence[Recommendation], *, explain: bool = False) -> None:
    """Print one row per result, in the given order. `explain` adds the matched terms by field and the score's signals.

    If the terminal is too narrow for the description, it is printed below its row.
    """
    from prowess.match.collisions import matched_terms

    slugs = max(len(_HEAD[1]), *(len(one_line(result.slug, _SLUG)) for result in results))
    before = _SCORE + slugs + len(_HEAD[2]) + 6
    beside = output_width() - before >= _MIN_DESCRIPTION
    room = output_width() - (before if beside else _INDENT)
    head = (_HEAD[0].ljust(_SCORE), _HEAD[1].ljust(slugs), *_HEAD[2 : 4 if beside else 3])
    click.secho("  ".join(head), bold=True)
    for result in results:
        decision = click.style(result.decision.ljust(len(_HEAD[2])), fg=_DECISION_COLOURS[result.decision])
        row = f"{score_bar(result.score)}  {one_line(result.slug, _SLUG):<{slugs}}  {decision}"
        mark = f"[{result.trust}] " if result.trust not in ("", "local") else ""
        text = highlight_words(_truncate(mark + one_line(result.description), room), matched_terms(result))
        click.echo(f"{row}  {text}" if beside else f"{row}\n{' ' * _INDENT}{text}")
        for line in textwrap.wrap(one_line(result.why), room):
            click.secho(" " * (before if beside else _INDENT) + line, dim=True)
        if explain:
            _print_signals(result)


def print_tagged(results: Sequence[Recommendation]) -> None:
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
