"""`prowess history`: the versions of a skill."""

from __future__ import annotations

import click

from prowess.interfaces.cli.opening import common_options, with_engine


@click.command("history")
@click.argument("slug")
@common_options
def command(slug: str, workspace: str | None, as_json: bool) -> None:
    """List the versions of a skill, oldest first; also of one that was deleted."""
    from prowess.interfaces.cli.printing import one_line, print_json, print_table

    versions = with_engine(workspace, lambda prowess: prowess.history(slug))
    if as_json:
        print_json([version.model_dump(mode="json") for version in versions])
        return
    rows = [
        (
            str(version.number),
            version.change,
            version.created_at[:19].replace("T", " ") + (f" by {one_line(version.actor)}" if version.actor else ""),
            str(len(version.manifest)),
            version.digest[:12],
            one_line(version.note),
        )
        for version in versions
    ]
    print_table(("version", "change", "when", "files", "digest", "note"), rows, flexible=5)
