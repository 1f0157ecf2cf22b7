"""`prowess approvals`: list approval requests, approve, deny or revoke one, and create the approver token."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from prowess.errors import Refused
from prowess.interfaces.auth.approver import make_approver_token, remove_approver_token
from prowess.interfaces.cli.approval_card import (
    format_time,
    print_approval_card,
    read_views,
    record_answer,
    show_and_ask,
)
from prowess.interfaces.cli.engine import Cli, common_options
from prowess.interfaces.cli.options import delegate_to_subcommand, find_by_prefix, group
from prowess.interfaces.cli.output import clean, one_line, print_json
from prowess.interfaces.cli.person import TYPED, at_terminal, require_person, token_option
from prowess.interfaces.cli.server import require_this_machine
from prowess.settings import read_settings

if TYPE_CHECKING:
    from prowess.open import Prowess
    from prowess.storage.approvals import ApprovalRow

APPROVAL_STATES = ("pending", "approved", "denied", "expired", "revoked")


@group(
    "approvals",
    "prowess approvals",
    "prowess approvals --all --json",
    "prowess approvals approve 3f2a",
    invoke_without_command=True,
)
@click.option("--all", "every", is_flag=True, help="Include requests that were answered or have expired.")
@common_options
def approvals_command(every: bool, cli: Cli) -> None:
    """List pending approval requests, or show, approve, deny or revoke one."""
    if delegate_to_subcommand(cli):
        return
    rows = cli.call(lambda prowess: prowess.approvals.list(APPROVAL_STATES if every else ("pending",)), quick=True)
    has_table = cli.print_table(
        rows,
        ("id", "action", "skill", "by", "reason", "state"),
        lambda row: (
            row.id[:8],
            row.action,
            one_line(row.slug, 40),
            one_line(row.requester, 24),
            one_line(row.reason),
            row.state if row.state != "pending" else f"until {format_time(row.expires_at)[:16]}",
        ),
        flexible=4,
        empty="No approval requests yet." if every else "No pending requests.",
    )
    if has_table and any(row.state == "pending" for row in rows):
        click.echo("\nRun `prowess approvals show ID` for details, then `approve ID` or `deny ID` at a terminal.")


@approvals_command.subcommand("show", "prowess approvals show 3f2a", "prowess approvals show 3f2a --files")
@click.argument("id")
@click.option("--files", is_flag=True, help="Also print the content of the files.")
@common_options
def show(id: str, files: bool, cli: Cli) -> None:
    """Show one request: what the skill can access, its origin, its files and what changed.

    ID is the id of the request, or its first four or more characters.
    """
    row = cli.call(lambda prowess: _find_approval(prowess, id))
    if cli.as_json:
        print_json(row)
        return
    print_approval_card(row)
    views = read_views(row, cli)
    for key, title in (("v", "Files"), ("d", "Changes")):
        if key in views and (files or key == "d"):
            click.secho(f"\n{title}", bold=True)
            click.echo(views[key][1])
    if row.state == "pending":
        click.echo(
            f"\nTo answer, run `prowess approvals approve {row.id[:8]}` or `prowess approvals deny {row.id[:8]}`."
        )


@approvals_command.subcommand(
    "approve", "prowess approvals approve 3f2a", 'prowess approvals approve 3f2a --note "read by Kim"'
)
@click.argument("id")
@click.option("--note", default="", help="Note to store with the answer.")
@token_option
@common_options
def approve(id: str, note: str, token_file: Path | None, cli: Cli) -> None:
    """Approve a request, for exactly these bytes and this requester.

    Shows the request and asks for confirmation at a terminal; without one, the approver token is required.
    """
    _resolve(id, note, token_file, cli, approved=True)


@approvals_command.subcommand(
    "deny", "prowess approvals deny 3f2a", 'prowess approvals deny 3f2a --note "not in this repository"'
)
@click.argument("id")
@click.option("--note", default="", help="Reason; the requester sees it.")
@token_option
@common_options
def deny(id: str, note: str, token_file: Path | None, cli: Cli) -> None:
    """Deny a request.

    Shows the request and asks for confirmation at a terminal; without one, the approver token is required.
    """
    _resolve(id, note, token_file, cli, approved=False)


@approvals_command.subcommand(
    "revoke", "prowess approvals revoke 3f2a", 'prowess approvals revoke 3f2a --note "approved by mistake"'
)
@click.argument("id")
@click.option("--note", default="", help="Reason to store with the request.")
@common_options
def revoke(id: str, note: str, cli: Cli) -> None:
    """Withdraw a request or an approval.

    A skill that is in a prompt because of the approval is removed at the next turn. This needs neither a terminal nor a token.
    """

    async def work(prowess: Prowess) -> ApprovalRow:
        return await prowess.approvals.revoke((await _find_approval(prowess, id)).id, note=note)

    row = cli.call(work)
    cli.print(row, f"Revoked: {row.action} {clean(row.slug)}, requested by {clean(row.requester)}.")


@approvals_command.subcommand("token", "prowess approvals token", "prowess approvals token --remove")
@click.option("--remove", is_flag=True, help="Delete the token.")
@common_options
def make_token(remove: bool, cli: Cli) -> None:
    """Create the approver token and print it once.

    The token answers requests where there is no terminal. Creating a new one invalidates the old one.
    """
    require_this_machine("approvals token", "A server has its own tokens: `prowess token create`.")
    home = read_settings().home
    if remove:
        removed = remove_approver_token(home)
        if removed:
            cli.call(lambda prowess: prowess.approvals.record_token(made=False))
        cli.print({"removed": removed}, "Removed the approver token." if removed else "No approver token exists.")
        return
    if cli.as_json or not at_terminal():
        raise Refused("Only a person can create an approver token.", hint="Run this command at a terminal.")
    click.confirm("Anyone with this token can approve in your name. Create it?", abort=True)
    cli.call(lambda prowess: prowess.approvals.record_token(made=True), channel=TYPED.channel)
    click.echo(
        "Store it where no agent can read it. Pass it with --token-file FILE or PROWESS_APPROVER_TOKEN:", err=True
    )
    click.echo(make_approver_token(home))


def _resolve(id: str, note: str, token_file: Path | None, cli: Cli, *, approved: bool) -> None:
    verb = "approve" if approved else "deny"
    proof = require_person(f"{verb} a request", token_file)
    found = cli.call(lambda prowess: _find_approval(prowess, id))
    shown = ""
    if proof is TYPED and found.state == "pending":
        yes, shown = show_and_ask(found, cli, f"{verb.capitalize()} exactly this?")
        if not yes:
            click.echo("Not answered. The request is still pending.")
            raise click.exceptions.Exit(1)
    row = record_answer(found.id, cli, approved=approved, proof=proof, shown=shown, note=note)
    message = f"{row.state.capitalize()}: {row.action} {clean(row.slug)}, requested by {clean(row.requester)}."
    if approved:
        message += f"\nValid for these bytes until {format_time(row.expires_at)} UTC."
    cli.print(row, message)


async def _find_approval(prowess: Prowess, id: str) -> ApprovalRow:
    """Return the approval with that id, or whose id starts with those four or more characters.

    Raise `Invalid` if several match, and `NotFound` if none does.
    """
    found = find_by_prefix(await prowess.approvals.list(APPROVAL_STATES), id, "requests")
    return found or await prowess.approvals.get(id)
