"""`prowess events` and `audit`: the event log and the audit log."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, TypeVar

import click

from prowess.events import EVENT_NAMES
from prowess.interfaces.cli.engine import common_options, with_engine
from prowess.interfaces.cli.options import DefaultGroup, delegate_to_subcommand

if TYPE_CHECKING:
    from prowess.events import Event
    from prowess.open import Prowess
    from prowess.storage.ledger import AuditRow


T = TypeVar("T")
ReadAfter = Callable[[int, int], Awaitable[Sequence[T]]]
"""Reads entries of a log. Arguments: read those after this number, and at most this many."""

_WINDOW_GROWTH = 4


async def read_latest(read: ReadAfter[T], limit: int, *, last: int) -> Sequence[T]:
    """Return the last `limit` entries of a log, oldest first. `last` is the number of its newest entry.

    `read` may filter entries out, so the window of numbers grows until there are enough entries or the log begins.
    """
    window = limit
    while True:
        after = max(0, last - window)
        found = await read(after, window)
        if len(found) >= limit or after == 0:
            return found[-limit:]
        window *= _WINDOW_GROWTH


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
def events_command(
    after: int | None, names: tuple[str, ...], limit: int, follow: bool, workspace: str | None, as_json: bool
) -> None:
    """Show the latest events: skills enabled and disabled, approvals asked and answered, skills loaded.

    With --json, one JSON object a line. With --after, the first ones from there on. With --follow, those to come (and all
    after N, if it is given), from other processes too; none is lost.
    """
    if follow:
        try:
            with_engine(workspace, lambda prowess: _follow_events(prowess, after, names, as_json=as_json))
        except KeyboardInterrupt:
            raise click.exceptions.Exit(130) from None
        return
    found = with_engine(workspace, lambda prowess: _read_events(prowess, after, names, limit))
    for event in found:
        _print_event(event, as_json=as_json)
    if not found and not as_json:
        click.echo("Nothing has happened yet." if not after and not names else "Nothing of the kind has happened.")


async def _read_events(prowess: Prowess, after: int | None, names: tuple[str, ...], limit: int) -> Sequence[Event]:

    if after is not None:
        return await prowess.events.list(after=after, limit=limit, names=names)
    last = await prowess.events.last()
    return await read_latest(
        lambda after, limit: prowess.events.list(after=after, limit=limit, names=names), limit, last=last
    )


async def _follow_events(prowess: Prowess, after: int | None, names: tuple[str, ...], *, as_json: bool) -> None:
    async with aclosing(prowess.events.follow(after=after, names=names)) as events:
        async for event in events:
            _print_event(event, as_json=as_json)


def _print_event(event: Event, *, as_json: bool) -> None:
    from prowess.interfaces.cli.approval_card import format_time
    from prowess.interfaces.cli.output import one_line, print_json_line

    if as_json:
        print_json_line(event)
    else:
        click.echo(f"{event.number}  {format_time(event.at)}  {event.name}  {one_line(_describe_event(event), 160)}")


def _describe_event(event: Event) -> str:
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


class _AuditGroup(DefaultGroup):
    default = "skill"


@click.group("audit", cls=_AuditGroup, invoke_without_command=True)
@click.option(
    "--after", type=click.IntRange(min=0), metavar="N", help="Only rows after this number, the first of them."
)
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=50, metavar="N", show_default=True, help="The most rows."
)
@common_options
@click.pass_context
def audit_command(ctx: click.Context, after: int | None, limit: int, workspace: str | None, as_json: bool) -> None:
    """Show what was decided about skills lately: by whom, about which bytes, with what outcome.

    `prowess audit SLUG` says who let a skill in.
    """
    if delegate_to_subcommand(ctx, workspace, as_json=as_json):
        return
    from prowess.interfaces.cli.approval_card import format_time
    from prowess.interfaces.cli.output import one_line, print_json, print_table

    rows = with_engine(workspace, lambda prowess: _read_audit(prowess, after, limit))
    if as_json:
        print_json(rows)
        return
    if not rows:
        click.echo("Nothing has been decided since." if after else "Nothing has been decided yet.")
        return
    table = [
        (
            str(row.number),
            format_time(row.at),
            one_line(row.actor, 24),
            row.action,
            one_line(row.slug, 40),
            row.digest[:12],
            row.outcome,
            one_line(_audit_reason(row)),
        )
        for row in rows
    ]
    print_table(("no.", "when", "actor", "action", "skill", "digest", "outcome", "why"), table, flexible=7)


async def _read_audit(prowess: Prowess, after: int | None, limit: int) -> Sequence[AuditRow]:

    if after is not None:
        return await prowess.audit.rows(after=after, limit=limit)
    last = await prowess.audit.last()
    return await read_latest(lambda after, limit: prowess.audit.rows(after=after, limit=limit), limit, last=last)


def _audit_reason(row: AuditRow) -> str:
    detail = row.detail
    if "setting" in detail:
        return f"{detail['setting']}: {detail.get('before')} -> {detail.get('after')}"
    return str(detail.get("why") or detail.get("note") or "")


@audit_command.command("skill")
@click.argument("slug")
@common_options
def audit_skill(slug: str, workspace: str | None, as_json: bool) -> None:
    """Say who let a skill in, when, through which channel, with which proof and what they were shown.

    For each version of its bytes, also the prompts that have it and the runs of it.
    """
    from prowess.interfaces.cli.account_output import print_account
    from prowess.interfaces.cli.output import print_json

    account = with_engine(workspace, lambda prowess: prowess.audit.skill(slug))
    if as_json:
        print_json(account)
    else:
        print_account(account)


@audit_command.command("verify")
@click.option(
    "--head", default="", metavar="HASH", help="The last hash that you noted elsewhere: finds rows cut off the end."
)
@common_options
def verify_audit(head: str, workspace: str | None, as_json: bool) -> None:
    """Check the chain of hashes: whether any row was altered, removed, added or moved.

    Rows that were cut off the end leave no trace in the chain itself. Note the printed head elsewhere and give it back
    with --head to find that too.
    """
    from prowess.interfaces.cli.output import clean, print_json

    verdict = with_engine(workspace, lambda prowess: prowess.audit.verify(head=head))
    if as_json:
        print_json(verdict)
    elif verdict.ok:
        rows = "1 row" if verdict.rows == 1 else f"{verdict.rows:,} rows"
        click.echo(f"{rows}, all as written. Head: {verdict.head}" if verdict.rows else "There are no rows yet.")
    else:
        place = f" at row {verdict.first_bad}" if verdict.first_bad else ""
        click.echo(f"The audit was changed{place}: {clean(verdict.problem)}")
    if not verdict.ok:
        raise click.exceptions.Exit(1)
