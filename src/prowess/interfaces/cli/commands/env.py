"""`prowess env`: which skills may read which names of the environment."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from prowess.interfaces.cli.groups import hand_down
from prowess.interfaces.cli.opening import common_options, with_engine

if TYPE_CHECKING:
    from prowess.policy.env_grants import EnvGrant


@click.group("env", invoke_without_command=True)
@common_options
@click.pass_context
def command(ctx: click.Context, workspace: str | None, as_json: bool) -> None:
    """Show which names of the environment skills may read; allow one, or forbid it again. Values are never shown."""
    if not hand_down(ctx, workspace, as_json=as_json):
        _list("", workspace, as_json=as_json)


@command.command("list")
@click.argument("slug", required=False, default="")
@common_options
def list_(slug: str, workspace: str | None, as_json: bool) -> None:
    """List what was allowed; with a SLUG, also what that skill asks for."""
    _list(slug, workspace, as_json=as_json)


@command.command("allow")
@click.argument("slug")
@click.argument("name")
@common_options
def allow(slug: str, name: str, workspace: str | None, as_json: bool) -> None:
    """Let the skill SLUG, exactly as it is now, read NAME. When it changes, it has to be allowed again."""
    from prowess.interfaces.cli.printing import print_json

    grant = with_engine(workspace, lambda prowess: prowess.allow_env(slug, name))
    if as_json:
        print_json(asdict(grant))
    else:
        click.echo(f"{grant.slug} may read {grant.name}, as long as it stays as it is.")
        if grant.state == "unset":
            click.echo(f"{grant.name} is not set here, so it has nothing to read yet.", err=True)


@command.command("forbid")
@click.argument("slug")
@click.argument("name")
@common_options
def forbid(slug: str, name: str, workspace: str | None, as_json: bool) -> None:
    """Take it back: the skill SLUG no longer reads NAME."""
    from prowess.interfaces.cli.printing import clean, print_json

    with_engine(workspace, lambda prowess: prowess.forbid_env(slug, name))
    if as_json:
        print_json({"slug": slug, "name": name, "state": "forbidden"})
    else:
        click.echo(f"{clean(slug)} may no longer read {clean(name)}.")


def _list(slug: str, workspace: str | None, *, as_json: bool) -> None:
    from prowess.interfaces.cli.env_words import WORDS
    from prowess.interfaces.cli.printing import clean, print_json, print_table

    found: list[EnvGrant] = with_engine(workspace, lambda prowess: prowess.env_grants(slug))
    if as_json:
        print_json([asdict(grant) for grant in found])
        return
    if not found:
        nothing = "No skill may read the environment; `prowess env list SLUG` shows what one asks for."
        click.echo(f"{clean(slug)} asks for nothing of the environment." if slug else nothing)
        return
    print_table(("skill", "name", "state"), [(one.slug, one.name, WORDS[one.state]) for one in found], flexible=2)
