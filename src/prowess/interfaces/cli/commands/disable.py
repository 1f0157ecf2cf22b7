"""`prowess disable`: take a skill's text out of the prompt of a conversation."""

from __future__ import annotations

import click

from prowess.interfaces.cli.opening import common_options, with_engine
from prowess.interfaces.cli.sessions import as_object, session_option, used


@click.command("disable")
@click.argument("slug")
@session_option
@common_options
def command(slug: str, session: str, workspace: str | None, as_json: bool) -> None:
    """Take a skill out of the prompt of a conversation; its room is free again."""
    from prowess.interfaces.cli.printing import clean, print_json

    changed = with_engine(workspace, lambda prowess: prowess.disable(session, slug))
    if as_json:
        print_json(as_object(changed))
    else:
        click.echo(f"Disabled {clean(slug)}. {used(changed)}")
