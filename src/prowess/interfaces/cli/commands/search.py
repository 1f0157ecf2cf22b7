"""`prowess search`: skills by words and tags, whether or not they are worth offering."""

from __future__ import annotations

import click

from prowess.interfaces.cli.messages import MOST_CHARS, Limit, mention_unknown_tags, print_none
from prowess.interfaces.cli.opening import common_options, matching


@click.command("search")
@click.argument("words", nargs=-1)
@click.option("--tag", "tags", multiple=True, help="Only skills with this tag (may be given again).")
@click.option("--limit", type=Limit(), default=20, metavar="N", help="The most results, up to 1,000 (default: 20).")
@click.option("--explain", is_flag=True, help="Add the evidence and the figures.")
@common_options
def command(
    words: tuple[str, ...], tags: tuple[str, ...], limit: int, explain: bool, workspace: str | None, as_json: bool
) -> None:
    """Find skills by words and tags, best first; without WORDS, all that have the tags."""
    from prowess.interfaces.cli.printing import print_json
    from prowess.interfaces.cli.recommendations import print_cards, print_recommendations

    query = " ".join(words)[:MOST_CHARS]
    with matching(workspace) as matcher:
        results = matcher.search(query, limit=limit, tags=tags)
        if as_json:
            print_json([result.as_json(explain=explain) for result in results])
        elif results and query.strip():
            print_recommendations(results, explain=explain)
        elif results:
            print_cards(results)
        else:
            print_none(matcher, "No skill has anything to do with this. `prowess list` shows them all.")
        if tags and not results:
            mention_unknown_tags(matcher, tags)
