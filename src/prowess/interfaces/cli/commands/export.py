"""`prowess export`: write a skill to a folder, in any form."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from prowess.interfaces.cli.commands.validate import PROFILES
from prowess.interfaces.cli.opening import common_options, with_engine

FORMS = (
    "native",
    "agentskills",
    "agentcy",
    "bernstein",
    "devai",
    "inklings",
    "agentlayerrules",
    "skill",
    "zip",
    "tar.gz",
)


@click.command("export")
@click.argument("slug")
@click.option("--to", "folder", required=True, metavar="DIR", help="The folder to write into; made if need be.")
@click.option("--profile", type=click.Choice(PROFILES), help="Write a folder that passes this profile.")
@click.option("--form", type=click.Choice(FORMS), help="Write this form, or an archive.")
@click.option("--replace", is_flag=True, help="Replace what stands there under the same name.")
@common_options
def command(
    slug: str,
    folder: str,
    profile: Any,
    form: str | None,
    replace: bool,
    workspace: str | None,
    as_json: bool,
) -> None:
    """Write a skill to a folder: as it is, in another form, or so that it passes a profile.

    What the target has no place for is reported.
    """
    from prowess.interfaces.cli.failures import print_problems
    from prowess.interfaces.cli.printing import print_json, shown_path

    if form and profile:
        raise click.UsageError("Choose --form or --profile, not both.")

    done = with_engine(
        workspace,
        lambda prowess: prowess.export(slug, Path(folder), form=form, profile=profile, replace=replace),
    )
    if as_json:
        left_out = [asdict(problem) for problem in done.left_out]
        print_json({"slug": slug, "path": str(done.path), "form": done.form, "profile": profile, "left_out": left_out})
        return
    click.echo(f"Wrote {shown_path(done.path)} ({done.form}).")
    print_problems(done.left_out)
