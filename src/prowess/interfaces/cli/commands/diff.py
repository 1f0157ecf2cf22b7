"""`prowess diff`: what changed between two versions."""

from __future__ import annotations

import click

from prowess.interfaces.cli.opening import common_options, with_engine

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@click.command("diff")
@click.argument("slug")
@click.argument("before", type=click.IntRange(min=1), required=False)
@click.argument("after", type=click.IntRange(min=1), required=False)
@common_options
def command(
    slug: str,
    before: int | None,
    after: int | None,
    workspace: str | None,
    as_json: bool,
) -> None:
    """Show what changed from version BEFORE to version AFTER.

    Without AFTER, up to the skill as it is now; without both, what the last change did.
    """
    from prowess.interfaces.cli.printing import clean, print_json

    found = with_engine(workspace, lambda prowess: prowess.diff(slug, before, after))
    if as_json:
        changes = [change.model_dump(mode="json") for change in found.changes]
        print_json({"slug": found.slug, "before": found.before, "after": found.after, "changes": changes})
        return
    old = f"version {found.before}" if found.before else "nothing"
    new = f"version {found.after}" if found.after else "now"
    click.echo(f"{found.slug}: {old} → {new}" + ("" if found.changes else ": no difference"))
    for change in found.changes:
        click.echo(click.style(f"\n{change.change} {clean(change.path)}", bold=True))
        for line in change.text.split("\n"):
            click.echo(click.style(clean(line), fg=_COLOURS.get(line[:1])))
