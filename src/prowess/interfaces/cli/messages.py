"""What a person or a pipe asks a matcher: the message, the limit, the tags."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from prowess.match.matcher import Matcher

MOST_CHARS = 1_000_000
MOST_RESULTS = 1_000_000


class Limit(click.IntRange):
    """How many results are wanted: at least one. A matcher gives 1,000 at most."""

    def __init__(self) -> None:
        super().__init__(min=1)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number, cut to what can be counted."""
        return min(super().convert(value, param, ctx), MOST_RESULTS)


class Share(click.FloatRange):
    """A share between 0 and 1."""

    def __init__(self) -> None:
        super().__init__(min=0, max=1)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The share; what is no number is within no range."""
        share = super().convert(value, param, ctx)
        if math.isnan(share):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return share


def given_message(words: Sequence[str]) -> str:
    """The message of the command line; for `-`, or where nothing is given and something is piped in, that of stdin."""
    if words and tuple(words) != ("-",):
        return " ".join(words)[:MOST_CHARS]
    if not words and sys.stdin.isatty():
        raise click.UsageError("Give a message, or pipe one in.")
    data = sys.stdin.buffer.read(4 * MOST_CHARS + 1)
    text = data.decode("utf-8", "replace")
    if len(text) > MOST_CHARS:
        click.echo(f"Only the first {MOST_CHARS:,} characters of the message are looked at.", err=True)
    return text[:MOST_CHARS]


def print_none(matcher: Matcher, words: str) -> None:
    """Say that there is nothing to show: because nothing fits, or because there are no skills at all."""
    from prowess.interfaces.cli.commands.list import EMPTY

    click.echo(words if matcher.search(limit=1) else EMPTY)


def mention_unknown_tags(matcher: Matcher, tags: Sequence[str]) -> None:
    """Say on stderr which of these tags no skill has, and which are near to them."""
    unknown = [tag for tag in dict.fromkeys(tags) if not matcher.search(limit=1, tags=(tag,))]
    if not unknown:
        return
    import difflib

    from prowess.interfaces.cli.printing import one_line

    known = sorted({tag for result in matcher.search(limit=MOST_RESULTS) for tag in result.tags})
    for tag in unknown:
        near = difflib.get_close_matches(tag[:100], known[:5000], n=3, cutoff=0.5)
        hint = f" Did you mean {' or '.join(repr(one_line(other)) for other in near)}?" if near else ""
        click.echo(f"No skill has the tag {one_line(tag, 80)!r}.{hint}", err=True)
