"""`prowess audit`: what was decided, and the proof that nobody changed it since."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from prowess.interfaces.cli.groups import hand_down
from prowess.interfaces.cli.opening import common_options, with_engine

if TYPE_CHECKING:
    from prowess.build.opening import Prowess
    from prowess.storage.ledger import AuditRow


@click.group("audit", invoke_without_command=True)
@click.option(
    "--after", type=click.IntRange(min=0), metavar="N", help="Only rows after this number, the first of them."
)
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=50, metavar="N", show_default=True, help="The most rows."
)
@common_options
@click.pass_context
def command(ctx: click.Context, after: int | None, limit: int, workspace: str | None, as_json: bool) -> None:
    """Show what was decided about skills lately: by whom, about which bytes, with what outcome."""
    if hand_down(ctx, workspace, as_json=as_json):
        return
    from prowess.interfaces.cli.cards import moment
    from prowess.interfaces.cli.printing import one_line, print_json, print_table

    rows = with_engine(workspace, lambda prowess: _rows(prowess, after, limit))
    if as_json:
        print_json([asdict(row) for row in rows])
        return
    if not rows:
        click.echo("Nothing has been decided since." if after else "Nothing has been decided yet.")
        return
    table = [
        (
            str(row.number),
            moment(row.at),
            one_line(row.actor, 24),
            row.action,
            one_line(row.slug, 40),
            row.digest[:12],
            row.outcome,
            one_line(_why(row)),
        )
        for row in rows
    ]
    print_table(("no.", "when", "actor", "action", "skill", "digest", "outcome", "why"), table, flexible=7)


async def _rows(prowess: Prowess, after: int | None, limit: int) -> Sequence[AuditRow]:
    from prowess.interfaces.cli.latest import latest

    if after is not None:
        return await prowess.audit(after=after, limit=limit)
    last = await prowess.last_audit()
    return await latest(lambda after, limit: prowess.audit(after=after, limit=limit), limit, last=last)


def _why(row: AuditRow) -> str:
    detail = row.detail
    if "setting" in detail:
        return f"{detail['setting']}: {detail.get('before')} -> {detail.get('after')}"
    return str(detail.get("why") or detail.get("note") or "")


@command.command("verify")
@click.option(
    "--head", default="", metavar="HASH", help="The last hash that you noted elsewhere: finds rows cut off the end."
)
@common_options
def verify(head: str, workspace: str | None, as_json: bool) -> None:
    """Check the chain of hashes: whether any row was altered, removed, added or moved.

    Rows that were cut off the end leave no trace in the chain itself. Note the printed head elsewhere and give it back
    with --head to find that too.
    """
    from prowess.interfaces.cli.printing import clean, print_json

    verdict = with_engine(workspace, lambda prowess: prowess.verify_audit(head=head))
    if as_json:
        print_json(asdict(verdict))
    elif verdict.ok:
        rows = "1 row" if verdict.rows == 1 else f"{verdict.rows:,} rows"
        click.echo(f"{rows}, all as written. Head: {verdict.head}" if verdict.rows else "There are no rows yet.")
    else:
        place = f" at row {verdict.first_bad}" if verdict.first_bad else ""
        click.echo(f"The audit was changed{place}: {clean(verdict.problem)}")
    if not verdict.ok:
        raise click.exceptions.Exit(1)
