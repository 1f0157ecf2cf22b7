"""`prowess approvals`: list approval requests, and approve, deny or revoke one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from prowess.interfaces.cli.engine import common_options, with_engine
from prowess.interfaces.cli.options import delegate_to_subcommand

if TYPE_CHECKING:
    from prowess.open import Prowess
    from prowess.storage.approvals import ApprovalRow

APPROVAL_STATES = ("pending", "approved", "denied", "expired", "revoked")


@click.group("approvals", invoke_without_command=True)
@click.option("--all", "every", is_flag=True, help="Also those that have been answered.")
@common_options
@click.pass_context
def approvals_command(ctx: click.Context, every: bool, workspace: str | None, as_json: bool) -> None:
    """List what waits for an answer; show, approve or deny one."""
    if delegate_to_subcommand(ctx, workspace, as_json=as_json):
        return
    from prowess.interfaces.cli.approval_card import format_time
    from prowess.interfaces.cli.output import one_line, print_json, print_table

    found = with_engine(workspace, lambda prowess: prowess.approvals.list(APPROVAL_STATES if every else ("pending",)))
    if as_json:
        print_json(found)
        return
    if not found:
        click.echo("Nothing waits for an answer." if not every else "Nobody has been asked anything yet.")
        return
    rows = [
        (
            row.id[:8],
            row.action,
            one_line(row.slug, 40),
            one_line(row.requester, 24),
            one_line(row.reason),
            row.state if row.state != "pending" else f"until {format_time(row.expires_at)}",
        )
        for row in found
    ]
    print_table(("id", "to", "skill", "asked by", "reason", "state"), rows, flexible=4)
    if any(row.state == "pending" for row in found):
        click.echo("\n`prowess approvals show ID` shows one; approve ID or deny ID answers it.")


@approvals_command.command("show")
@click.argument("id")
@common_options
def show(id: str, workspace: str | None, as_json: bool) -> None:
    """Show everything that one needs to answer: origin, files, what it asks for, what changed."""
    from prowess.interfaces.cli.approval_card import print_approval_card
    from prowess.interfaces.cli.output import print_json

    row = with_engine(workspace, lambda prowess: _find_approval(prowess, id))
    if as_json:
        print_json(row)
        return
    print_approval_card(row)
    if row.state == "pending":
        click.echo(f"\n`prowess approvals approve {row.id[:8]}` or `prowess approvals deny {row.id[:8]}` answers it.")


@approvals_command.command("approve")
@click.argument("id")
@click.option("--note", default="", help="Kept with the answer.")
@common_options
def approve(id: str, note: str, workspace: str | None, as_json: bool) -> None:
    """Say yes: exactly these bytes, for whoever asked."""
    _resolve(id, note, workspace, approved=True, as_json=as_json)


@approvals_command.command("deny")
@click.argument("id")
@click.option("--note", default="", help="Why; the one who asked is told.")
@common_options
def deny(id: str, note: str, workspace: str | None, as_json: bool) -> None:
    """Say no."""
    _resolve(id, note, workspace, approved=False, as_json=as_json)


@approvals_command.command("revoke")
@click.argument("id")
@click.option("--note", default="", help="Why; kept with it.")
@common_options
def revoke(id: str, note: str, workspace: str | None, as_json: bool) -> None:
    """Take back a question or a yes; what it let into a prompt leaves it at the next turn."""
    from prowess.interfaces.cli.output import clean, print_json

    async def work(prowess: Prowess) -> ApprovalRow:
        return await prowess.approvals.revoke((await _find_approval(prowess, id)).id, note=note)

    row = with_engine(workspace, work)
    if as_json:
        print_json(row)
    else:
        click.echo(f"Revoked: {row.action} {clean(row.slug)}, asked by {clean(row.requester)}.")


def _resolve(id: str, note: str, workspace: str | None, *, approved: bool, as_json: bool) -> None:
    from prowess.interfaces.cli.approval_card import format_time
    from prowess.interfaces.cli.output import clean, print_json

    async def work(prowess: Prowess) -> ApprovalRow:
        found = await _find_approval(prowess, id)
        return await prowess.approvals.resolve(found.id, approved=approved, note=note)

    row = with_engine(workspace, work)
    if as_json:
        print_json(row)
    else:
        click.echo(f"{row.state.capitalize()}: {row.action} {clean(row.slug)}, asked by {clean(row.requester)}.")
        if approved:
            click.echo(f"Good for these bytes until {format_time(row.expires_at)}.")


async def _find_approval(prowess: Prowess, id: str) -> ApprovalRow:
    """Return the approval with that id, or whose id starts with those four or more characters.

    Raise `Invalid` if several match, and `NotFound` if none does.
    """
    from prowess.errors import Invalid

    if len(id) >= 4:
        every = [row for row in await prowess.approvals.list(APPROVAL_STATES) if row.id.startswith(id.lower())]
        if len(every) > 1:
            raise Invalid(f"{len(every)} approvals begin with {id[:40]!r}.", hint="Give more of the id.")
        if every:
            return every[0]
    return await prowess.approvals.get(id)
