"""`prowess delete`: remove a skill, so that it can still be brought back."""

from __future__ import annotations

import click

from prowess.interfaces.cli.opening import common_options, with_engine


@click.command("delete")
@click.argument("slug")
@click.option("--note", default="", help="Why; kept with the version.")
@common_options
def command(slug: str, note: str, workspace: str | None, as_json: bool) -> None:
    """Remove a skill. Its versions stay, so `prowess rollback` brings it back."""
    from prowess.interfaces.cli.printing import clean, print_json

    deleted = with_engine(workspace, lambda prowess: prowess.delete(slug, note=note))
    if as_json:
        print_json({"slug": deleted.slug, "version": deleted.number, "digest": deleted.digest})
        return
    back = deleted.number
    click.echo(f"Deleted {clean(deleted.slug)}. `prowess rollback {clean(deleted.slug)} {back}` brings it back.")
