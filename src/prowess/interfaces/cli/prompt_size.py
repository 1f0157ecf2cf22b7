"""Show which skills are too long for a prompt, and the alternatives."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from prowess.interfaces.cli.output import one_line, print_wrapped
from prowess.skill.limits import DEFAULT_PROMPT_CHARS

if TYPE_CHECKING:
    from prowess.open import Prowess

_LISTED = 5


async def read_prompt_limit(prowess: Prowess, sizes: Iterable[int]) -> int:
    """Return how many characters a prompt may have.

    The policy is read only if a skill is longer than the default: reading it takes longer than a list of skills.
    """
    if max(sizes, default=0) <= DEFAULT_PROMPT_CHARS:
        return DEFAULT_PROMPT_CHARS
    return (await prowess.policy.get()).skills_max_prompt_chars


def note_too_long(sizes: Sequence[tuple[str, int]], limit: int) -> None:
    """Print the skills that take more characters than a prompt may have, with their sizes, and the alternatives."""
    long = sorted(((slug, chars) for slug, chars in sizes if chars > limit), key=lambda item: (-item[1], item[0]))
    if not long:
        return
    shown = ", ".join(f"{one_line(slug, 48)} ({chars:,})" for slug, chars in long[:_LISTED])
    more = f" and {len(long) - _LISTED:,} more" if len(long) > _LISTED else ""
    which = "1 skill is" if len(long) == 1 else f"{len(long):,} skills are"
    budget = -(-long[0][1] // 1_000) * 1_000
    print_wrapped(
        f"{which} longer than the prompt budget of {limit:,} characters and cannot be enabled: {shown}{more}."
    )
    click.echo("Load one on demand with `prowess load SLUG`, or raise the budget of a session:")
    click.echo(f"  prowess sessions open default --budget {budget}")
