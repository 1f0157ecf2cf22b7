"""`prowess rollback`: make an earlier version current again."""

from __future__ import annotations

import click

from prowess.interfaces.cli.opening import common_options, with_engine


@click.command("rollback")
@click.argument("slug")
@click.argument("version", type=click.IntRange(min=1))
@click.option("--note", default="", help="Why; kept with the new version.")
@common_options
def command(slug: str, version: int, note: str, workspace: str | None, as_json: bool) -> None:
    """Make VERSION of a skill current again, as a new version. Nothing is lost; a deleted skill comes back."""
    from prowess.interfaces.cli.printing import print_json

    skill = with_engine(workspace, lambda prowess: prowess.rollback(slug, version, note=note))
    if as_json:
        print_json(skill.card.model_dump(mode="json"))
        return
    click.echo(f"{skill.slug} is as it was in version {version}; `prowess history {skill.slug}` shows every version.")
