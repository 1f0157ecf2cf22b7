"""Option types and arguments that several commands share."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from prowess.match.matcher import Matcher


def delegate_to_subcommand(ctx: click.Context, workspace: str | None, *, as_json: bool) -> bool:
    """Return True if a subcommand follows, and make the options given before it the defaults of that subcommand."""
    if ctx.invoked_subcommand is None:
        return False
    given = {"workspace": workspace, "as_json": as_json or None}
    ctx.default_map = {ctx.invoked_subcommand: {name: value for name, value in given.items() if value is not None}}
    return True


class DefaultGroup(click.Group):
    """A group with a subcommand that may be left out: a word that is no subcommand is the first argument of that one."""

    default = ""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the subcommand and its arguments."""
        known = args[0] in self.commands
        return super().resolve_command(ctx, args if known else [self.default, *args])


_PERIOD = re.compile(r"([0-9]{1,6})([dhw])", re.ASCII)
_DAYS = {"h": 1 / 24, "d": 1.0, "w": 7.0}
_MAX_DAYS = 36_500


class Period(click.ParamType[float]):
    """A length of time such as 30d, 12h or 2w, in days."""

    name = "period"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the period in days. Fail if it is malformed, zero or longer than a century."""
        if isinstance(value, float):
            return value
        found = _PERIOD.fullmatch(str(value).strip().lower())
        days = int(found[1]) * _DAYS[found[2]] if found else 0.0
        if not 0 < days <= _MAX_DAYS:
            self.fail(
                f"{str(value)[:40]!r} is no period; give days, hours or weeks, such as 30d, 12h or 2w.", param, ctx
            )
        return days


MAX_MESSAGE_CHARS = 1_000_000
MAX_RESULTS = 1_000_000


class Limit(click.IntRange):
    """The maximum number of results, at least 1. The matcher returns at most 1,000."""

    def __init__(self) -> None:
        super().__init__(min=1)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number, reduced to `MAX_RESULTS` if it is larger."""
        return min(super().convert(value, param, ctx), MAX_RESULTS)


class Fraction(click.FloatRange):
    """A share between 0 and 1."""

    def __init__(self) -> None:
        super().__init__(min=0, max=1)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the share. Fail for NaN, which click's range check lets through."""
        share = super().convert(value, param, ctx)
        if math.isnan(share):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return share


def read_message(words: Sequence[str]) -> str:
    """Return the message given as arguments, or read it from stdin for `-` or if input is piped in.

    Long messages are cut to `MAX_MESSAGE_CHARS`. Raise click's `UsageError` if there is no message.
    """
    if words and tuple(words) != ("-",):
        return " ".join(words)[:MAX_MESSAGE_CHARS]
    if not words and sys.stdin.isatty():
        raise click.UsageError("Give a message, or pipe one in.")
    data = sys.stdin.buffer.read(4 * MAX_MESSAGE_CHARS + 1)
    text = data.decode("utf-8", "replace")
    if len(text) > MAX_MESSAGE_CHARS:
        click.echo(f"Only the first {MAX_MESSAGE_CHARS:,} characters of the message are looked at.", err=True)
    return text[:MAX_MESSAGE_CHARS]


def print_no_results(matcher: Matcher, words: str) -> None:
    """Print `words` if there are skills but none matches, or how to add skills if there are none at all."""
    from prowess.interfaces.cli.commands.skills import NO_SKILLS

    click.echo(words if matcher.search(limit=1) else NO_SKILLS)


def warn_unknown_tags(matcher: Matcher, tags: Sequence[str]) -> None:
    """Print a warning on stderr for each tag that no skill has, with similar tags that exist."""
    unknown = [tag for tag in dict.fromkeys(tags) if not matcher.search(limit=1, tags=(tag,))]
    if not unknown:
        return
    from prowess.interfaces.cli.output import one_line
    from prowess.suggestions import did_you_mean

    known = sorted({tag for result in matcher.search(limit=MAX_RESULTS) for tag in result.tags})
    for tag in unknown:
        hint = did_you_mean(tag, map(one_line, known))
        click.echo(f"No skill has the tag {one_line(tag, 80)!r}. {hint}".strip(), err=True)
