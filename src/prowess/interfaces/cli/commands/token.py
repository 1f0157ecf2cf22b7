"""`prowess token`: list, create and revoke tokens for the HTTP API and MCP."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prowess.errors import Refused
from prowess.interfaces.cli.engine import Cli, common_options
from prowess.interfaces.cli.options import Period, find_by_prefix, group
from prowess.interfaces.cli.output import one_line, print_json
from prowess.interfaces.cli.person import require_person, token_option

if TYPE_CHECKING:
    from prowess.open import Prowess
    from prowess.storage.credentials import Token

PERMISSIONS_HELP = "skills.read, skills.write, skills.run, approvals.resolve, admin; separated by commas"
org_option = click.option("--org", "organization", default="", metavar="ID", help="Organization of the user.")


def split_list(text: str | None) -> list[str] | None:
    """Return the parts of a list that is separated by commas; None if the option is not given."""
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


class _Lifetime(Period):
    """A period such as 30d, or `never`, which is None."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the period in days, or None for `never`."""
        return None if value == "never" else super().convert(value, param, ctx)


@group("token", "prowess token", "prowess token create laptop --expires 30d", default="list")
def token_command() -> None:
    """List, create and revoke tokens for the HTTP API and MCP."""


@token_command.subcommand(
    "create",
    "prowess token create --org acme --user ann --expires 30d",
    "prowess token create --org acme --user ann --for-agent builder --json",
    "prowess token create ci --scopes skills.read,skills.run --expires never",
)
@click.argument("name", required=False, default="")
@org_option
@click.option("--user", default="", metavar="ID", help="User that the token is for (default: you, on this machine).")
@click.option("--for-agent", "agent", default="", metavar="NAME", help="Create it for an agent, which cannot approve.")
@click.option("--scopes", metavar="LIST", help=f"{PERMISSIONS_HELP} (default: all that the user has).")
@click.option(
    "--expires", type=_Lifetime(), default="90d", metavar="PERIOD", help="Lifetime: 30d, 12h, never (default: 90d)."
)
@token_option
@common_options
def create_token(
    name: str,
    organization: str,
    user: str,
    agent: str,
    scopes: str | None,
    expires: float | None,
    token_file: Path | None,
    cli: Cli,
) -> None:
    """Create a token and print it once.

    NAME helps you to recognize the token later. The token itself is not stored, so it cannot be shown again. A token that
    can approve or administer can be created only at a terminal, or with the approver token.
    """
    from prowess.policy.actor import AGENT_PERMISSIONS

    allowed = split_list(scopes)
    channel = "cli"
    # An agent with a shell can run this command. It must not give itself the right to approve.
    if not agent and (allowed is None or not set(allowed) <= AGENT_PERMISSIONS):
        try:
            channel = require_person("create a token that can approve or administer", token_file).channel
        except Refused as error:
            error.hint += " For a token that can do neither, add `--scopes skills.read,skills.run`."
            raise
    created = cli.call(
        lambda prowess: prowess.tokens.create(
            name, agent=agent, scopes=allowed, days=expires, organization=organization, user=user
        ),
        channel=channel,
    )
    if cli.as_json:
        print_json(created)
        return
    until = f"until {created.token.expires_at[:10]}" if created.token.expires_at else "forever"
    click.echo(f"Valid {until} with {', '.join(created.token.scopes)}. It is shown only once:", err=True)
    click.echo(created.secret)


@token_command.subcommand("list", "prowess token list", "prowess token list --org acme --json")
@org_option
@click.option("--user", default="", metavar="ID", help="Only tokens of this user.")
@common_options
def list_tokens(organization: str, user: str, cli: Cli) -> None:
    """List tokens: all that you may see, or those of an organization or a user."""

    async def work(prowess: Prowess) -> list[Token]:
        if organization or user:
            return await prowess.tokens.list(organization=organization, user=user, everyone=not user)
        return await _list_visible(prowess)

    print_tokens(cli.call(work), cli)


async def _list_visible(prowess: Prowess) -> list[Token]:
    """Return all tokens that the caller may see: a member of a server's organization sees their own."""
    try:
        return await prowess.tokens.list(everyone=True)
    except Refused:
        return await prowess.tokens.list()


def print_tokens(tokens: list[Token], cli: Cli) -> None:
    """Print tokens as JSON or as a table, or how to create one."""
    cli.print_table(
        tokens,
        ("id", "name", "user", "kind", "scopes", "last used", "state"),
        lambda row: (
            row.id[:8],
            one_line(row.name, 24),
            f"{row.user_id}@{row.organization_id}" if row.user_id else "this machine",
            row.kind,
            ", ".join(row.scopes),
            "never" if row.last_used_at is None else row.last_used_at[:10],
            row.state if row.state != "active" else f"until {row.expires_at[:10]}" if row.expires_at else "active",
        ),
        flexible=4,
        optional=("kind",),
        empty="No tokens. Create one: prowess token create",
    )


@token_command.subcommand("revoke", "prowess token revoke 3f2a91c0", "prowess token revoke 3f2a91c0 --json")
@click.argument("id")
@common_options
def revoke_token(id: str, cli: Cli) -> None:
    """Revoke a token at once.

    ID is the id of the token, or its first four or more characters.
    """

    async def work(prowess: Prowess) -> Token:
        token = find_by_prefix(await _list_visible(prowess), id, "tokens")
        return await prowess.tokens.revoke(token.id if token else id)

    revoked = cli.call(work)
    cli.print(revoked, f"Revoked {one_line(revoked.name)}. Requests with it are refused from now on.")
