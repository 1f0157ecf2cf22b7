"""`prowess match`: the skills worth offering for a message, or for every message of a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from prowess.interfaces.cli.messages import Limit, given_message, mention_unknown_tags, print_none
from prowess.interfaces.cli.opening import common_options, matching

if TYPE_CHECKING:
    from prowess.match.matcher import Matcher
    from prowess.match.recommendation import Recommendation

LIMIT, BATCH_LIMIT, REFUSED = 5, 10, 3


@click.command("match")
@click.argument("words", nargs=-1, metavar="[MESSAGE]")
@click.option(
    "--limit", type=Limit(), metavar="N", help="The most results, up to 1,000 (default: 5; with --batch, 10)."
)
@click.option("--tag", "tags", multiple=True, help="Only skills with this tag (may be given again).")
@click.option("--context", default="", metavar="TEXT", help="What was said before; it counts less than the message.")
@click.option("--batch", metavar="FILE", help='Rank for each line {"id", "text"} of this file ("-": of stdin).')
@click.option("--explain", is_flag=True, help="Add the evidence, the figures, and what was refused.")
@common_options
def command(
    words: tuple[str, ...],
    limit: int | None,
    tags: tuple[str, ...],
    context: str,
    batch: str | None,
    explain: bool,
    workspace: str | None,
    as_json: bool,
) -> None:
    """Find the skills that are worth offering for a message.

    A message that no skill fits gives none. Without MESSAGE, or with "-", it is read from stdin.
    """
    if batch is not None and words:
        raise click.UsageError("Give a message or --batch, not both.")
    if batch is not None:
        from prowess.interfaces.cli.batch import match_lines, opened

        with opened(batch) as lines, matching(workspace) as matcher:
            match_lines(matcher, lines, limit=limit or BATCH_LIMIT, tags=tags, context=context, explain=explain)
        return
    text = given_message(words)
    with matching(workspace) as matcher:
        results = matcher.match(text, limit=limit or LIMIT, tags=tags, context=context)
        if as_json:
            from prowess.interfaces.cli.printing import print_json

            print_json([result.as_json(explain=explain) for result in results])
        else:
            refused = matcher.rank(text, limit=REFUSED, tags=tags, context=context) if explain and not results else []
            _show(matcher, results, refused, explain=explain)
        if tags and not results:
            mention_unknown_tags(matcher, tags)


def _show(matcher: Matcher, results: list[Recommendation], refused: list[Recommendation], *, explain: bool) -> None:
    from prowess.interfaces.cli.recommendations import print_recommendations

    if results:
        print_recommendations(results, explain=explain)
        return
    print_none(matcher, 'No skill fits this message. `prowess search "WORDS"` shows what comes nearest.')
    if refused:
        click.echo("\nThe best that were refused:")
        print_recommendations(refused, explain=True)
