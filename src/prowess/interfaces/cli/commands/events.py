"""`prowess events`: what happened, and what happens."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from prowess.events import EVENT_NAMES
from prowess.interfaces.cli.opening import common_options, with_engine

if TYPE_CHECKING:
    from prowess.build.opening import Prowess
    from prowess.events import Event


@click.command("events")
@click.option("--after", type=click.IntRange(min=0), metavar="N", help="Only events after this number.")
@click.option(
    "--name", "names", multiple=True, type=click.Choice(EVENT_NAMES), help="Only these events (may be given again)."
)
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=50, metavar="N", show_default=True, help="The most events."
)
@click.option("--follow", "-f", is_flag=True, help="Go on with those to come, until interrupted.")
@common_options
def command(
    after: int | None, names: tuple[str, ...], limit: int, follow: bool, workspace: str | None, as_json: bool
) -> None:
    """Show the latest events: skills enabled and disabled, approvals asked and answered, skills loaded.

    With --json, one JSON object a line. With --after, the first ones from there on. With --follow, those to come (and all
    after N, if it is given), from other processes too; none is lost.
    """
    if follow:
        try:
            with_engine(workspace, lambda prowess: _follow(prowess, after, names, as_json=as_json))
        except KeyboardInterrupt:
            raise click.exceptions.Exit(130) from None
        return
    found = with_engine(workspace, lambda prowess: _found(prowess, after, names, limit))
    for event in found:
        _print(event, as_json=as_json)
    if not found and not as_json:
        click.echo("Nothing has happened yet." if not after and not names else "Nothing of the kind has happened.")


async def _found(prowess: Prowess, after: int | None, names: tuple[str, ...], limit: int) -> Sequence[Event]:
    from prowess.interfaces.cli.latest import latest

    if after is not None:
        return await prowess.events(after=after, limit=limit, names=names)
    last = await prowess.last_event()
    return await latest(lambda after, limit: prowess.events(after=after, limit=limit, names=names), limit, last=last)


async def _follow(prowess: Prowess, after: int | None, names: tuple[str, ...], *, as_json: bool) -> None:
    async with aclosing(prowess.follow(after=after, names=names)) as events:
        async for event in events:
            _print(event, as_json=as_json)


def _print(event: Event, *, as_json: bool) -> None:
    from prowess.interfaces.cli.cards import moment
    from prowess.interfaces.cli.printing import one_line, print_json_line

    if as_json:
        print_json_line(asdict(event))
    else:
        click.echo(f"{event.number}  {moment(event.at)}  {event.name}  {one_line(_told(event), 160)}")


def _told(event: Event) -> str:
    data = event.data
    if event.name == "skills_state_changed":
        slugs = ", ".join(skill["slug"] for skill in data["enabled_skills"]) or "none"
        return f"enabled: {slugs}; {data['budget_used_chars']:,} of {data['budget_max_chars']:,} characters"
    if event.name == "approval_required":
        return f"{data['skill']['slug']}: asked by {data['requester']} ({data['approval_id'][:8]})"
    if event.name == "approval_resolved":
        by = f" by {data['resolver']}" if data["resolver"] else ""
        return f"{data['skill']['slug']}: {data['outcome']}{by} ({data['approval_id'][:8]})"
    part = data.get("reference") or data.get("script") or ""
    failed = f": {data['error']}" if data.get("error") else ""
    return f"{data.get('name', '')} {part}".strip() + failed
