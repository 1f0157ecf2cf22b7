"""`prowess org` and `prowess user`: the organizations of a server, and their users."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from prowess.errors import Invalid, Refused
from prowess.interfaces.cli.commands.token import PERMISSIONS_HELP, org_option, print_tokens, split_list
from prowess.interfaces.cli.engine import Cli, common_options
from prowess.interfaces.cli.options import group
from prowess.interfaces.cli.output import clean, one_line, print_json
from prowess.interfaces.cli.person import at_terminal, require_person, token_option
from prowess.interfaces.cli.server import require_this_machine
from prowess.settings import read_settings
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


@group("org", "prowess org", "prowess org create acme --name 'Acme Inc'", default="list")
def org_command() -> None:
    """List, create and deactivate the organizations that a server keeps apart.

    Without organizations, everything belongs to the single user of this machine.
    """


@org_command.subcommand("list", "prowess org list", "prowess org list --json")
@common_options
def list_organizations(cli: Cli) -> None:
    """List the organizations."""
    cli.print_table(
        cli.call(lambda prowess: prowess.organizations.list(), quick=True),
        ("id", "name", "created", "state"),
        lambda row: (row.id, one_line(row.name), row.created_at[:10], _state(row.deactivated_at)),
        flexible=1,
        empty="No organizations. Create one: prowess org create ID",
    )


@org_command.subcommand("create", "prowess org create acme", "prowess org create acme --name 'Acme Inc'")
@click.argument("id")
@click.option("--name", default="", help="Name to show (default: the id).")
@common_options
def create_organization(id: str, name: str, cli: Cli) -> None:
    """Create an organization.

    Its ID consists of lowercase letters, digits and hyphens. It cannot be changed or reused for another organization.
    """
    created = cli.call(lambda prowess: prowess.organizations.create(id, name=name))
    next_step = f"Add its first admin: prowess user add USER --org {created.id} --admin"
    cli.print(created, f"Created the organization {created.id}. {next_step}")


@org_command.subcommand("show", "prowess org show acme", "prowess org show acme --json")
@click.argument("id")
@common_options
def show_organization(id: str, cli: Cli) -> None:
    """Show an organization with its users."""

    async def work(prowess: Prowess) -> tuple[Organization, list[Member]]:
        return await prowess.organizations.get(id), await prowess.users.list(organization=id)

    found, members = cli.call(work)
    if cli.as_json:
        print_json({**to_json(found), "members": members})
        return
    click.echo(f"{found.id}  {one_line(found.name)}")
    click.echo(f"{_state(found.deactivated_at)}, created {found.created_at[:10]} by {one_line(found.created_by)}\n")
    _print_members(members, id, cli)


@org_command.subcommand("deactivate", "prowess org deactivate acme", "prowess org deactivate acme --yes --json")
@click.argument("id")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@common_options
def deactivate_organization(id: str, yes: bool, cli: Cli) -> None:
    """Deactivate an organization: all its tokens and web sessions end at once.

    Its skills and records stay in the database.
    """
    _confirm(f"Deactivate {clean(id)}? Its members can no longer sign in. This cannot be undone.", yes=yes)
    ended = cli.call(lambda prowess: prowess.organizations.deactivate(id))
    cli.print(ended, f"Deactivated {ended.id}. Its tokens and web sessions have ended.")


@group("user", "prowess user list --org acme", "prowess user add ann --org acme --admin")
def user_command() -> None:
    """Add, change and remove the users of an organization."""


@user_command.subcommand(
    "add", "prowess user add ann --org acme --admin", "prowess user add bob --org acme --permissions skills.read"
)
@click.argument("user")
@org_option
@click.option("--name", default="", help="Name to show (default: the id).")
@click.option("--email", default="", help="Email address to show. It is not used to sign in.")
@click.option("--admin", is_flag=True, help="Let the user manage the organization.")
@click.option("--permissions", metavar="LIST", help=f"{PERMISSIONS_HELP} (default: all but admin).")
@click.option("--subject", default="", metavar="ID", help="Subject at PROWESS_OIDC_ISSUER that signs in as the user.")
@common_options
def add_user(
    user: str, organization: str, name: str, email: str, admin: bool, permissions: str | None, subject: str, cli: Cli
) -> None:
    """Add a user to an organization.

    USER consists of lowercase letters, digits and hyphens. It cannot be changed or reused for another user.
    """
    issuer = _issuer() if subject else ""

    async def work(prowess: Prowess) -> Member:
        member = await prowess.users.add(
            user, organization=organization, name=name, email=email, admin=admin, permissions=split_list(permissions)
        )
        if subject:
            await prowess.users.bind(user, issuer=issuer, subject=subject, organization=organization)
        return member

    member = cli.call(work)
    if cli.as_json:
        print_json(member)
        return
    click.echo(f"Added {member.user_id} to {member.organization_id} with {', '.join(member.permissions)}.")
    token = f"prowess token create --org {member.organization_id} --user {member.user_id}"
    click.echo(f"Give them a token: {token}", err=True)


def _issuer() -> str:
    # Check this before any change: otherwise a user would be added and not linked to the account.
    require_this_machine("user --subject", "The operator of the server links accounts of the provider to users.")
    issuer = read_settings().oidc_issuer
    if not issuer:
        raise Invalid(
            "--subject needs the provider.", hint="Set PROWESS_OIDC_ISSUER, for example https://id.example.com."
        )
    return issuer


@user_command.subcommand(
    "change",
    "prowess user change bob --org acme --admin",
    "prowess user change bob --org acme --permissions skills.read",
)
@click.argument("user")
@org_option
@click.option("--admin", is_flag=True, help="Let the user manage the organization.")
@click.option("--permissions", metavar="LIST", help=f"{PERMISSIONS_HELP}.")
@click.option(
    "--subject", default="", metavar="ID", help="Only let this subject at PROWESS_OIDC_ISSUER sign in as the user."
)
@common_options
def change_user(user: str, organization: str, admin: bool, permissions: str | None, subject: str, cli: Cli) -> None:
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

    member = cli.call(work)
    cli.print(member, f"{member.user_id} now has {', '.join(member.permissions)} in {member.organization_id}.")


@user_command.subcommand("list", "prowess user list --org acme", "prowess user list --org acme --json")
@org_option
@common_options
def list_users(organization: str, cli: Cli) -> None:
    """List the users of an organization."""
    found = cli.call(lambda prowess: prowess.users.list(organization=organization), quick=True)
    _print_members(found, organization, cli)


def _print_members(members: list[Member], organization: str, cli: Cli) -> None:
    cli.print_table(
        members,
        ("user", "name", "role", "permissions", "state"),
        lambda row: (row.user_id, one_line(row.name), row.role, ", ".join(row.permissions), _state(row.deactivated_at)),
        flexible=3,
        empty=f"No users yet. Add one: prowess user add USER --org {organization}",
    )


@user_command.subcommand("show", "prowess user show ann --org acme", "prowess user show ann --org acme --json")
@click.argument("user")
@org_option
@common_options
def show_user(user: str, organization: str, cli: Cli) -> None:
    """Show a user with their tokens."""

    async def work(prowess: Prowess) -> tuple[Member, list[Token]]:
        member = await prowess.users.get(user, organization=organization)
        return member, await prowess.tokens.list(organization=organization, user=user)

    member, tokens = cli.call(work)
    if cli.as_json:
        print_json({**to_json(member), "tokens": tokens})
        return
    click.echo(f"{member.user_id}  {one_line(member.name)}  {one_line(member.email)}".rstrip())
    click.echo(f"{member.role} of {member.organization_id}, {_state(member.deactivated_at)}")
    click.echo(f"Permissions: {', '.join(member.permissions)}\n")
    print_tokens(tokens, cli)


@user_command.subcommand(
    "sign-in",
    "prowess user sign-in ann --org acme",
    "prowess user sign-in ann --org acme --url https://prowess.example.com",
)
@click.argument("user")
@org_option
@click.option("--url", default="", metavar="URL", help="Address of the server (default: PROWESS_PUBLIC_URL).")
@token_option
@common_options
def make_link(user: str, organization: str, url: str, token_file: Path | None, cli: Cli) -> None:
    """Print a link that signs a user in once, in a browser, within ten minutes.

    Send it to the user yourself. Anyone who opens it acts as the user, so it needs a terminal or the approver token.
    """
    channel = require_person("sign a user in", token_file).channel
    address = (url or read_settings().public_url or "http://127.0.0.1:7717").rstrip("/")
    code = cli.call(
        lambda prowess: prowess.sign_ins.create_code(organization=organization, user=user),
        channel=channel,
    )
    link = f"{address}/sign-in#{code}"
    cli.print({"link": link}, link)


@user_command.subcommand("remove", "prowess user remove bob --org acme", "prowess user remove bob --everywhere --yes")
@click.argument("user")
@org_option
@click.option("--everywhere", is_flag=True, help="Deactivate the user in all organizations, permanently.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@common_options
def remove_user(user: str, organization: str, everywhere: bool, yes: bool, cli: Cli) -> None:
    """Remove a user from an organization: their tokens and web sessions there end at once.

    The user can be added again. The last admin of an organization cannot be removed.
    """
    if everywhere == bool(organization):
        raise click.UsageError("Give --org ID, or --everywhere.")
    if not everywhere:
        removed = cli.call(lambda prowess: prowess.users.remove(user, organization=organization))
        cli.print(removed, f"Removed {removed.user_id} from {removed.organization_id}. Their tokens there have ended.")
        return
    _confirm(f"Deactivate {clean(user)} in all organizations? This cannot be undone.", yes=yes)
    ended = cli.call(lambda prowess: prowess.users.deactivate(user))
    cli.print(
        {"user_id": user, "organizations": [member.organization_id for member in ended]},
        f"Deactivated {clean(user)}. All their tokens and web sessions have ended.",
    )
