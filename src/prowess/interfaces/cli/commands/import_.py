"""`prowess import`: keep skills from a folder, a file or an archive."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prowess.interfaces.cli.opening import common_options, progress, with_engine

if TYPE_CHECKING:
    from prowess.build import Prowess
    from prowess.catalog.intake import Imported


@click.command("import")
@click.argument("path")
@click.option(
    "--scope",
    type=click.Choice(["workspace", "account"]),
    default="workspace",
    help="Keep them for this workspace, or for all of yours.",
)
@click.option("--replace", is_flag=True, help="Update skills that are there already; their history stays.")
@common_options
def command(path: str, scope: Any, replace: bool, workspace: str | None, as_json: bool) -> None:
    """Keep skills from a folder, a file or an archive, in whatever form they are.

    The files are kept byte for byte. One that cannot be kept is reported and does not stop the others.
    """
    from prowess.interfaces.cli.failures import exit_code
    from prowess.interfaces.cli.printing import print_json

    with progress("Importing") as watch:

        async def work(prowess: Prowess) -> list[Imported]:
            return await prowess.import_path(Path(path), scope=scope, replace=replace, actor="cli", watch=watch)

        outcome = with_engine(workspace, work)
    if as_json:
        print_json([as_object(item) for item in outcome])
    else:
        _show(outcome, scope)
    errors = [item.error for item in outcome if item.error is not None]
    if errors:
        raise click.exceptions.Exit(exit_code(errors[0]))


def as_object(item: Imported) -> dict[str, Any]:
    """One outcome: what it is now, or why it is not kept."""
    from prowess.interfaces.cli.failures import error_object

    skill = item.saved.skill if item.saved else None
    return {
        "path": str(item.path),
        "slug": skill.slug if skill else None,
        "form": skill.form if skill else None,
        "version": skill.version if skill else None,
        "digest": skill.digest if skill else None,
        "changed": bool(item.saved and item.saved.changed and skill),
        "error": error_object(item.error) if item.error else None,
    }


def _show(outcome: list[Imported], scope: str) -> None:
    from prowess.errors import DuplicateSkill, Invalid
    from prowess.interfaces.cli.failures import problem_line
    from prowess.interfaces.cli.printing import clean

    kept = [item.saved for item in outcome if item.saved and item.saved.skill]
    for saved in kept if len(kept) <= 20 else []:
        if saved.skill:
            words = "kept" if saved.changed else "unchanged"
            click.echo(f"{click.style('✓', fg='green')} {saved.skill.slug}  {words} ({saved.skill.form})")
    for item in outcome:
        if item.error is None:
            continue
        click.echo(f"{click.style('✗', fg='red')} {clean(str(item.path))}: {clean(item.error.message)}")
        problems = item.error.problems if isinstance(item.error, Invalid) else ()
        for problem in problems:
            click.echo(f"    {problem_line(problem)}")
        taken = isinstance(item.error, DuplicateSkill)
        hint = "Add --replace to update it; its history stays." if taken else item.error.hint
        if hint:
            click.echo(f"    {clean(hint)}")
    same = sum(not saved.changed for saved in kept)
    left = len(outcome) - len(kept)
    counts = [f"{len(kept) - same} kept in the {scope} scope"]
    counts += [f"{same} unchanged"] if same else []
    counts += [f"{left} not kept"] if left else []
    click.echo(", ".join(counts) + ".")
