"""What is said about mistakes in a call: usage errors without click's terms, and tags that no skill has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from prowess.interfaces.cli.options import MAX_RESULTS
from prowess.interfaces.cli.output import one_line
from prowess.suggestions import did_you_mean

if TYPE_CHECKING:
    from prowess.match.matcher import Matcher


def find_listing(parameter: click.Parameter | None, ctx: click.Context) -> str:
    """Return the command that lists what may be given for a missing argument; '' if none does."""
    name = parameter.human_readable_name if isinstance(parameter, click.Argument) else ""
    if name == "SLUG":
        return "" if ctx.command.name == "new" else "prowess list"
    group = ctx.parent.command if ctx.parent else None
    if name not in ("ID", "JOB", "RUN", "PAGE") or not isinstance(group, click.Group) or ctx.parent is None:
        return ""
    return f"{ctx.parent.command_path} list" if "list" in group.commands else ctx.parent.command_path


_KINDS = {"a valid integer range": "a whole number", "a valid float range": "a number"}
_LIMITS = {"<=x<=": "{} to {}", "<x<=": "more than {}, at most {}", "x>=": "{1} or more", "x>": "more than {1}"}


def plain_words(message: str) -> str:
    """Return click's message about a number without its terms: `Use 1 to 50.` instead of `1<=x<=50`."""
    for term, word in _KINDS.items():
        message = message.replace(term, word)
    head, found, limits = message.removesuffix(".").partition(" is not in the range ")
    sign = next((known for known in _LIMITS if known in limits), "")
    return f"{head} is out of range. Use {_LIMITS[sign].format(*limits.split(sign))}." if found and sign else message


_NAMED_TAGS = 20


def warn_unknown_tags(matcher: Matcher, tags: Sequence[str]) -> None:
    """Print a warning on stderr for each tag that no skill has, with similar tags that exist."""
    unknown = [tag for tag in dict.fromkeys(tags) if not matcher.search(limit=1, tags=(tag,))]
    if not unknown:
        return
    known = [tag for result in matcher.search(limit=MAX_RESULTS) for tag in result.tags]
    for tag in unknown:
        print_unknown_tag(tag, known)


def print_unknown_tag(tag: str, known: Sequence[str]) -> None:
    """Print on stderr that no skill has a tag, with the tag that was probably meant, or else the most frequent ones.

    `known` has the tags of all skills, each as often as a skill has it.
    """
    counted = Counter(map(one_line, known))
    frequent = sorted(counted, key=lambda name: (-counted[name], name))
    more = f" and {len(frequent) - _NAMED_TAGS} more" if len(frequent) > _NAMED_TAGS else ""
    there = f"Tags here: {', '.join(frequent[:_NAMED_TAGS])}{more}." if frequent else "No skill here has tags."
    hint = did_you_mean(tag, frequent) or there
    click.echo(f"No skill has the tag {one_line(tag, 80)!r}. {hint}", err=True)
