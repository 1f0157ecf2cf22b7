"""`prowess validate`: check skills and say what to mend."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prowess.interfaces.cli.opening import common_options, progress, with_engine

if TYPE_CHECKING:
    from prowess.build.opening import Prowess
    from prowess.catalog.intake import Checked

PROFILES = ("agentskills", "claude-api", "claude-code", "codex", "mcp", "bernstein", "prowess")


@click.command("validate")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--profile", type=click.Choice(PROFILES), default="prowess", help="Whose rules to check against.")
@click.option("--quiet", "-q", is_flag=True, help="Show only what is not in order.")
@common_options
def command(
    paths: tuple[str, ...],
    profile: Any,
    quiet: bool,
    workspace: str | None,
    as_json: bool,
) -> None:
    """Check skills and say what to mend.

    PATH is a skill's folder, file or archive, or a folder with skills somewhere below it; without one, this folder.
    """
    from prowess.errors import Invalid
    from prowess.interfaces.cli.failures import EXIT_CODES
    from prowess.interfaces.cli.printing import print_json_line

    with progress("Checking") as watch:

        async def work(prowess: Prowess) -> list[Checked]:
            return await prowess.check(*map(Path, paths or (".",)), profile=profile, watch=watch)

        checked = with_engine(workspace, work)
    for item in checked:
        if as_json:
            print_json_line(as_object(item))
        elif not (quiet and item.ok):
            _show(item)
    bad = sum(not item.ok for item in checked)
    if not as_json:
        verdict = "all are in order" if not bad else f"{bad} not in order"
        click.echo(f"{len(checked)} checked against {profile}: {verdict}.")
    if bad:
        raise click.exceptions.Exit(EXIT_CODES[Invalid])


def as_object(item: Checked) -> dict[str, Any]:
    """The shape that scripts rely on."""
    reading = item.report.reading if item.report else None
    skill = reading.skill if reading else None
    return {
        "path": str(item.path),
        "form": reading.form if reading and skill else None,
        "slug": skill.slug if skill else None,
        "title": skill.title if skill else None,
        "description": skill.description if skill else None,
        "ok": item.ok,
        "problems": [asdict(problem) for problem in item.problems],
    }


def _show(item: Checked) -> None:
    from prowess.interfaces.cli.failures import print_problems
    from prowess.interfaces.cli.printing import shown_path

    mark = click.style("✓", fg="green") if item.ok else click.style("✗", fg="red")
    click.echo(f"{mark} {shown_path(item.path)}")
    print_problems(item.problems)
