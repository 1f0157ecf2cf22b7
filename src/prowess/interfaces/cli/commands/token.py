"""`prowess token`: list, create and revoke tokens for the HTTP API and MCP."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prowess.errors import Invalid, Refused
from prowess.interfaces.cli.engine import common_options, with_engine
from prowess.interfaces.cli.options import Period, delegate_to_subcommand, group
from prowess.interfaces.cli.output import one_line, print_json, print_table
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


@group("token", "prowess token", "prowess token create laptop --expires 30d", invoke_without_command=True)
@common_options
@click.pass_context
def token_command(ctx: click.Context, workspace: str | None, as_json: bool) -> None:
    """List, create and revoke tokens for the HTTP API and MCP."""
    if not delegate_to_subcommand(ctx, workspace, as_json=as_json):
        _list_tokens("", "", workspace, as_json=as_json)


@token_command.command(
    "create",
    examples=(
        "prowess token create --org acme --user ann --expires 30d",
        "prowess token create --org acme --user ann --for-agent builder --json",
        "prowess token create ci --scopes skills.read,skills.run --expires never",
    ),
)
@click.argument("name", required=False, default="")
@org_option
@click.option("--user", default="", metavar="ID", help="User whose token it is (default: you, on this machine).")
@click.option("--for-agent", "agent", default="", metavar="NAME", help="Create it for an agent, which cannot approve.")
@click.option("--scopes", metavar="LIST", help=f"{PERMISSIONS_HELP} (default: all that the user has).")
@click.option("--expires", type=_Lifetime(), default="90d", metavar="PERIOD", help="30d, 12h, never (default: 90d).")
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
    workspace: str | None,
    as_json: bool,
) -> None:
    """Create a token and print it once.

    NAME helps you to recognize the token later. The token itself is not stored, so it cannot be shown again. A token that
    can approve or administer can be created only at a terminal, or with the approver token.
    """
    from prowess.policy.actor import AGENT_PERMISSIONS

    wanted = split_list(scopes)
    channel = "cli"
    # An agent with a shell can run this command. It must not give itself the right to approve.
    if not agent and (wanted is None or not set(wanted) <= AGENT_PERMISSIONS):
        try:
            channel = require_person("create a token that can approve or administer", token_file).channel
        except Refused as error:
            error.hint += " For a token that can do neither, add `--scopes skills.read,skills.run`."
            raise
    made = with_engine(
        workspace,
        lambda prowess: prowess.tokens.create(
            name, agent=agent, scopes=wanted, days=expires, organization=organization, user=user
        ),
        channel=channel,
    )
    if as_json:
        print_json(made)
        return
    until = f"until {made.token.expires_at[:10]}" if made.token.expires_at else "for ever"
    click.echo(f"Valid {until} with {', '.join(made.token.scopes)}. It is shown only now:", err=True)
    click.echo(made.secret)


@token_command.command("list", examples=("prowess token list", "prowess token list --org acme --json"))
@org_option
@click.option("--user", default="", metavar="ID", help="Only those of this user.")
@common_options
def list_tokens(organization: str, user: str, workspace: str | None, as_json: bool) -> None:
    """List tokens: all, or those of an organization or a user."""
    _list_tokens(organization, user, workspace, as_json=as_json)


def _list_tokens(organization: str, user: str, workspace: str | None, *, as_json: bool) -> None:
    found = with_engine(
        workspace,
        lambda prowess: prowess.tokens.list(organization=organization, user=user, everyone=not user),
    )
    if as_json:
        print_json(found)
    else:
        print_tokens(found)


def print_tokens(found: list[Token]) -> None:
    """Print tokens as a table, or how to create one."""
    if not found:
        click.echo("No tokens. Create one: prowess token create")
        return
    rows = [
        (
            one.id[:8],
            one_line(one.name, 24),
            f"{one.user_id}@{one.organization_id}" if one.user_id else "this machine",
            one.kind,
            ", ".join(one.scopes),
            "never" if one.last_used_at is None else one.last_used_at[:10],
            one.state if one.state != "active" else f"until {one.expires_at[:10]}" if one.expires_at else "active",
        )
        for one in found
    ]
    print_table(("id", "name", "user", "kind", "scopes", "last used", "state"), rows, flexible=4, optional=("kind",))


@token_command.command("revoke", examples=("prowess token revoke 3f2a91c0", "prowess token revoke 3f2a91c0 --json"))
@click.argument("id")
@common_options
def revoke_token(id: str, workspace: str | None, as_json: bool) -> None:
    """Revoke a token at once.

    ID is the id of the token, or its first four or more characters.
    """

    async def work(prowess: Prowess) -> Token:
        return await prowess.tokens.revoke(await _find_token(prowess, id))

    done = with_engine(workspace, work)
    if as_json:
        print_json(done)
    else:
        click.echo(f"Revoked {one_line(done.name)}. Requests with it are refused from now on.")


async def _find_token(prowess: Prowess, id: str) -> str:
    """Return the id of the token that starts with these four or more characters, or the text itself if none does."""
    every = await prowess.tokens.list(everyone=True) if len(id) >= 4 else []
    matching = [one.id for one in every if one.id.startswith(id.lower())]
    if len(matching) > 1:
        raise Invalid(f"{len(matching)} tokens start with {id[:40]!r}.", hint="Give more characters of the id.")
    return matching[0] if matching else id
