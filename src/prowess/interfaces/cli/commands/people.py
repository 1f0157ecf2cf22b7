"""`prowess org` and `prowess user`: the organizations of a server, and their users."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from prowess.errors import Invalid, Refused
from prowess.interfaces.cli.commands.token import PERMISSIONS_HELP, org_option, print_tokens, split_list
from prowess.interfaces.cli.engine import common_options, with_engine
from prowess.interfaces.cli.options import delegate_to_subcommand, group
from prowess.interfaces.cli.output import clean, one_line, print_json, print_table
from prowess.interfaces.cli.person import at_terminal, require_person, token_option
from prowess.view import to_json

if TYPE_CHECKING:
    from prowess.open import Prowess
    from prowess.storage.credentials import Token
    from prowess.storage.people import Member, Organization


def _confirm(question: str, *, yes: bool) -> None:
    """Ask a person to confirm. Raise `Refused` if there is nobody to ask."""
    if yes:
        return
    if not at_terminal():
        raise Refused("This cannot be undone, and there is no terminal to confirm it.", hint="Add --yes.")
    click.confirm(question, abort=True)


def _state(deactivated_at: str | None) -> str:
    return "active" if deactivated_at is None else f"deactivated {deactivated_at[:10]}"


@group("org", "prowess org", "prowess org create acme --name 'Acme Inc'", invoke_without_command=True)
@common_options
@click.pass_context
def org_command(ctx: click.Context, workspace: str | None, as_json: bool) -> None:
    """List, create and deactivate the organizations that a server keeps apart.

    Without organizations, everything belongs to the single user of this machine.
    """
    if not delegate_to_subcommand(ctx, workspace, as_json=as_json):
        _print_organizations(workspace, as_json=as_json)


@org_command.command("list", examples=("prowess org list", "prowess org list --json"))
@common_options
def list_organizations(workspace: str | None, as_json: bool) -> None:
    """List the organizations."""
    _print_organizations(workspace, as_json=as_json)


def _print_organizations(workspace: str | None, *, as_json: bool) -> None:
    found: list[Organization] = with_engine(workspace, lambda prowess: prowess.organizations.list(), quick=True)
    if as_json:
        print_json(found)
    elif not found:
        click.echo("No organizations. Create one: prowess org create ID")
    else:
        rows = [(one.id, one_line(one.name), one.created_at[:10], _state(one.deactivated_at)) for one in found]
        print_table(("id", "name", "created", "state"), rows, flexible=1)


@org_command.command("create", examples=("prowess org create acme", "prowess org create acme --name 'Acme Inc'"))
@click.argument("id")
@click.option("--name", default="", help="Name to show (default: the id).")
@common_options
def create_organization(id: str, name: str, workspace: str | None, as_json: bool) -> None:
    """Create an organization.

    Its ID has lowercase letters, digits and hyphens. It cannot be changed, and is never given to another organization.
    """
    made = with_engine(workspace, lambda prowess: prowess.organizations.create(id, name=name))
    if as_json:
        print_json(made)
    else:
        click.echo(
            f"Created the organization {made.id}. Add its first admin: prowess user add USER --org {made.id} --admin"
        )


@org_command.command("show", examples=("prowess org show acme", "prowess org show acme --json"))
@click.argument("id")
@common_options
def show_organization(id: str, workspace: str | None, as_json: bool) -> None:
    """Show an organization with its users."""

    async def work(prowess: Prowess) -> tuple[Organization, list[Member]]:
        return await prowess.organizations.get(id), await prowess.users.list(organization=id)

    found, members = with_engine(workspace, work)
    if as_json:
        print_json({**to_json(found), "members": members})
        return
    click.echo(f"{found.id}  {one_line(found.name)}")
    click.echo(f"{_state(found.deactivated_at)}, created {found.created_at[:10]} by {one_line(found.created_by)}\n")
    _print_members(members, id)


@org_command.command("deactivate", examples=("prowess org deactivate acme", "prowess org deactivate acme --yes --json"))
@click.argument("id")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@common_options
def deactivate_organization(id: str, yes: bool, workspace: str | None, as_json: bool) -> None:
    """Deactivate an organization: all its tokens and web sessions end at once.

    Its skills and records stay in the database.
    """
    _confirm(f"Deactivate {clean(id)}? Nobody in it can sign in any more, and this cannot be undone.", yes=yes)
    done = with_engine(workspace, lambda prowess: prowess.organizations.deactivate(id))
    if as_json:
        print_json(done)
    else:
        click.echo(f"Deactivated {done.id}. Its tokens and web sessions have ended.")


@group("user", "prowess user list --org acme", "prowess user add ann --org acme --admin")
def user_command() -> None:
    """Add, change and remove the users of an organization."""


@user_command.command(
    "add",
    examples=("prowess user add ann --org acme --admin", "prowess user add bob --org acme --permissions skills.read"),
)
@click.argument("user")
@org_option
@click.option("--name", default="", help="Name to show (default: the id).")
@click.option("--email", default="", help="Email address to show. It is not used to sign in.")
@click.option("--admin", is_flag=True, help="Let the user manage the organization.")
@click.option("--permissions", metavar="LIST", help=f"{PERMISSIONS_HELP} (default: all but admin).")
@click.option(
    "--subject", default="", metavar="ID", help="Subject of the user at PROWESS_OIDC_ISSUER, to sign in there."
)
@common_options
def add_user(
    user: str,
    organization: str,
    name: str,
    email: str,
    admin: bool,
    permissions: str | None,
    subject: str,
    workspace: str | None,
    as_json: bool,
) -> None:
    """Add a user to an organization.

    USER has lowercase letters, digits and hyphens. It cannot be changed, and is never given to another user.
    """
    issuer = _issuer() if subject else ""

    async def work(prowess: Prowess) -> Member:
        made = await prowess.users.add(
            user, organization=organization, name=name, email=email, admin=admin, permissions=split_list(permissions)
        )
        if subject:
            await prowess.users.bind(user, issuer=issuer, subject=subject, organization=organization)
        return made

    made = with_engine(workspace, work)
    if as_json:
        print_json(made)
        return
    click.echo(f"Added {made.user_id} to {made.organization_id} with {', '.join(made.permissions)}.")
    click.echo(f"Give them a token: prowess token create --org {made.organization_id} --user {made.user_id}", err=True)


def _issuer() -> str:
    from prowess.settings import read_settings

    issuer = read_settings().oidc_issuer
    if not issuer:
        raise Invalid(
            "--subject needs the provider.", hint="Set PROWESS_OIDC_ISSUER, for example https://id.example.com."
        )
    return issuer


@user_command.command(
    "change",
    examples=(
        "prowess user change bob --org acme --admin",
        "prowess user change bob --org acme --permissions skills.read",
    ),
)
@click.argument("user")
@org_option
@click.option("--admin", is_flag=True, help="Let the user manage the organization.")
@click.option("--permissions", metavar="LIST", help=f"{PERMISSIONS_HELP}.")
@click.option("--subject", default="", metavar="ID", help="Only bind this subject at PROWESS_OIDC_ISSUER to the user.")
@common_options
def change_user(
    user: str,
    organization: str,
    admin: bool,
    permissions: str | None,
    subject: str,
    workspace: str | None,
    as_json: bool,
) -> None:
    """Replace the permissions of a user, effective at once, or let an account at a provider sign in as the user."""
    if subject and (admin or permissions):
        raise click.UsageError("--subject cannot be combined with --admin or --permissions.")
    # No default, unlike for a new user: a command without permissions in it must not give or remove any.
    if not (subject or admin or permissions):
        raise click.UsageError("Nothing to change. Pass --permissions LIST, --admin or --subject ID.")
    issuer = _issuer() if subject else ""

    async def work(prowess: Prowess) -> Member:
        if subject:
            return await prowess.users.bind(user, issuer=issuer, subject=subject, organization=organization)
        return await prowess.users.change(
            user, organization=organization, admin=admin, permissions=split_list(permissions)
        )

    made = with_engine(workspace, work)
    if as_json:
        print_json(made)
    else:
        click.echo(f"{made.user_id} now has {', '.join(made.permissions)} in {made.organization_id}.")


@user_command.command("list", examples=("prowess user list --org acme", "prowess user list --org acme --json"))
@org_option
@common_options
def list_users(organization: str, workspace: str | None, as_json: bool) -> None:
    """List the users of an organization."""
    found = with_engine(workspace, lambda prowess: prowess.users.list(organization=organization), quick=True)
    if as_json:
        print_json(found)
    else:
        _print_members(found, organization)


def _print_members(found: list[Member], organization: str) -> None:
    if not found:
        click.echo(f"No users yet. Add one: prowess user add USER --org {organization}")
        return
    rows = [
        (one.user_id, one_line(one.name), one.role, ", ".join(one.permissions), _state(one.deactivated_at))
        for one in found
    ]
    print_table(("user", "name", "role", "permissions", "state"), rows, flexible=3)


@user_command.command("show", examples=("prowess user show ann --org acme", "prowess user show ann --org acme --json"))
@click.argument("user")
@org_option
@common_options
def show_user(user: str, organization: str, workspace: str | None, as_json: bool) -> None:
    """Show a user with their tokens."""

    async def work(prowess: Prowess) -> tuple[Member, list[Token]]:
        member = await prowess.users.get(user, organization=organization)
        return member, await prowess.tokens.list(organization=organization, user=user)

    member, tokens = with_engine(workspace, work)
    if as_json:
        print_json({**to_json(member), "tokens": tokens})
        return
    click.echo(f"{member.user_id}  {one_line(member.name)}  {one_line(member.email)}".rstrip())
    click.echo(f"{member.role} of {member.organization_id}, {_state(member.deactivated_at)}")
    click.echo(f"Permissions: {', '.join(member.permissions)}\n")
    print_tokens(tokens)


@user_command.command(
    "sign-in",
    examples=(
        "prowess user sign-in ann --org acme",
        "prowess user sign-in ann --org acme --url https://prowess.example.com",
    ),
)
@click.argument("user")
@org_option
@click.option("--url", default="", metavar="URL", help="Address of the server (default: PROWESS_PUBLIC_URL).")
@token_option
@common_options
def make_link(
    user: str, organization: str, url: str, token_file: Path | None, workspace: str | None, as_json: bool
) -> None:
    """Print a link that signs a user in to a browser, once and within ten minutes.

    Send it to the user yourself. Anyone who opens it acts as the user, so it needs a terminal or the approver token.
    """
    from prowess.settings import read_settings

    channel = require_person("sign a user in", token_file).channel
    address = (url or read_settings().public_url or "http://127.0.0.1:7717").rstrip("/")
    code = with_engine(
        workspace,
        lambda prowess: prowess.sign_ins.create_code(organization=organization, user=user),
        channel=channel,
    )
    link = f"{address}/sign-in#{code}"
    if as_json:
        print_json({"link": link})
    else:
        click.echo(link)


@user_command.command(
    "remove", examples=("prowess user remove bob --org acme", "prowess user remove bob --everywhere --yes")
)
@click.argument("user")
@org_option
@click.option("--everywhere", is_flag=True, help="Deactivate the user in all organizations, for ever.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@common_options
def remove_user(
    user: str, organization: str, everywhere: bool, yes: bool, workspace: str | None, as_json: bool
) -> None:
    """Remove a user from an organization: their tokens and web sessions there end at once.

    The user can be added again. The last admin of an organization cannot be removed.
    """
    if everywhere == bool(organization):
        raise click.UsageError("Give --org ID, or --everywhere.")
    if not everywhere:
        removed = with_engine(workspace, lambda prowess: prowess.users.remove(user, organization=organization))
        if as_json:
            print_json(removed)
        else:
            click.echo(f"Removed {removed.user_id} from {removed.organization_id}. Their tokens there have ended.")
        return
    _confirm(f"Deactivate {clean(user)} in all organizations? This cannot be undone.", yes=yes)
    ended = with_engine(workspace, lambda prowess: prowess.users.deactivate(user))
    if as_json:
        print_json({"user_id": user, "organizations": [one.organization_id for one in ended]})
    else:
        click.echo(f"Deactivated {clean(user)}. All their tokens and web sessions have ended.")
