"""`prowess registry token` and `key`: who may publish to a registry of your own, and how others know it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prowess.interfaces.cli.engine import Cli, json_option
from prowess.interfaces.cli.options import command, group
from prowess.interfaces.cli.output import print_json

if TYPE_CHECKING:
    from prowess.sources.package_shelf import PackageShelf

folder_option = click.option(
    "--folder", metavar="DIR", help="Folder of the registry's packages and key (default: PROWESS_HOME/registry)."
)


def open_shelf(folder: str | None, **options: Any) -> PackageShelf:
    """Open the folder of a registry, which is created if it is missing."""
    from prowess.settings import read_settings
    from prowess.sources.package_shelf import PackageShelf

    return PackageShelf(Path(folder) if folder else read_settings().home / "registry", **options)


@group("token", "prowess registry token create ann", "prowess registry token list")
def token_group() -> None:
    """Create, list and revoke the tokens of your registry, in its folder."""


@token_group.command(
    "create", examples=("prowess registry token create ann", "prowess registry token create ci --read")
)
@click.argument("publisher")
@click.option("--read", is_flag=True, help="Only for reading a private registry.")
@folder_option
@json_option
def create_token(publisher: str, read: bool, folder: str | None, cli: Cli) -> None:
    """Create a token for a publisher, and print it once. The packages that it publishes belong to this publisher."""
    token, secret = open_shelf(folder).create_token(publisher, "read" if read else "publish")
    if cli.as_json:
        print_json({"id": token.id, "publisher": token.publisher, "scope": token.scope, "secret": secret})
        return
    click.echo(f"Token {token.id} of {publisher}, for {token.scope}ing. It is shown only now:", err=True)
    click.echo(secret)


@token_group.command("list", examples=("prowess registry token list", "prowess registry token list --json"))
@folder_option
@json_option
def list_tokens(folder: str | None, cli: Cli) -> None:
    """List the tokens, without their secrets."""
    cli.print_table(
        open_shelf(folder).tokens(),
        ("id", "publisher", "scope", "created", "state"),
        lambda row: (row.id, row.publisher, row.scope, row.created_at[:10], "revoked" if row.revoked_at else "active"),
        empty="No tokens. Create one: prowess registry token create NAME",
    )


@token_group.command(
    "revoke",
    examples=("prowess registry token revoke 1a2b3c4d", "prowess registry token revoke 1a2b3c4d --folder /srv/skills"),
)
@click.argument("id")
@folder_option
def revoke_token(id: str, folder: str | None) -> None:
    """Revoke a token, at once and for good."""
    open_shelf(folder).revoke_token(id)
    click.echo(f"Token {id} is revoked.")


@command("key", "prowess registry key", "prowess registry key --folder /srv/skills --json")
@folder_option
@json_option
def key_command(folder: str | None, cli: Cli) -> None:
    """Print the public key of your registry, to publish it where its users can compare it."""
    key = open_shelf(folder).key
    cli.print({"key": key}, key)
