"""`prowess import`: keep skills from a folder, a file or an archive."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prowess.interfaces.cli.opening import common_options, progress, with_engine

if TYPE_CHECKING:
    from prowess.build.opening import Prowess
    from prowess.catalog.intake import Imported
    from prowess.errors import ProwessError

MANY = 20


@click.command("import")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--scope",
    type=click.Choice(["workspace", "account"]),
    default="workspace",
    help="Keep them for this workspace, or for all of yours.",
)
@click.option("--replace", is_flag=True, help="Update skills that are there already; their history stays.")
@common_options
def command(paths: tuple[str, ...], scope: Any, replace: bool, workspace: str | None, as_json: bool) -> None:
    """Keep skills from folders, files or archives, in whatever form they are.

    The files are kept byte for byte. One that cannot be kept is reported and does not stop the others.
    """
    from prowess.interfaces.cli.failures import exit_code
    from prowess.interfaces.cli.printing import print_json

    with progress("Importing") as watch:

        async def work(prowess: Prowess) -> list[Imported]:
            keep = partial(prowess.import_path, scope=scope, replace=replace, watch=watch)
            return [done for path in paths for done in await keep(Path(path))]

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

    return {
        "path": str(item.path),
        "slug": item.slug,
        "form": item.form,
        "version": item.version,
        "digest": item.digest,
        "changed": item.changed,
        "problems": [asdict(problem) for problem in item.problems],
        "error": error_object(item.error) if item.error else None,
    }


def _show(outcome: list[Imported], scope: str) -> None:
    from prowess.interfaces.cli.failures import print_problems

    kept = [item for item in outcome if item.error is None]
    for item in kept:
        if len(kept) <= MANY or item.problems:
            words = "kept" if item.changed else "unchanged"
            click.echo(f"{click.style('✓', fg='green')} {item.slug}  {words} ({item.form})")
        print_problems(item.problems)
    for item in outcome:
        if item.error is not None:
            _show_error(item, item.error)
    same = sum(not item.changed for item in kept)
    left = len(outcome) - len(kept)
    counts = [f"{len(kept) - same} kept in the {scope} scope"]
    counts += [f"{same} unchanged"] if same else []
    counts += [f"{left} not kept"] if left else []
    click.echo(", ".join(counts) + ".")


def _show_error(item: Imported, error: ProwessError) -> None:
    from prowess.errors import DuplicateSkill, Invalid
    from prowess.interfaces.cli.failures import print_problems
    from prowess.interfaces.cli.printing import clean, print_wrapped, shown_path

    click.echo(f"{click.style('✗', fg='red')} {shown_path(item.path)}")
    if isinstance(error, Invalid) and error.problems:
        print_problems(error.problems)
        return
    taken = isinstance(error, DuplicateSkill)
    hint = "If it is the same skill, add --replace to update it; its history stays." if taken else error.hint
    print_wrapped(f"{clean(error.message)} {clean(hint)}".rstrip(), 4)
