"""`prowess validate`, `import` and `export`: skills as folders, files and archives."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prowess.interfaces.cli.engine import common_options, progress_bar, with_engine
from prowess.interfaces.cli.prompt_size import note_too_long, read_prompt_limit
from prowess.view import checked_json, imported_json

if TYPE_CHECKING:
    from prowess.catalog.importer import CheckResult, ImportResult
    from prowess.errors import ProwessError
    from prowess.open import Prowess


PROFILES = ("agentskills", "claude-api", "claude-code", "codex", "mcp", "bernstein", "prowess")


@click.command("validate")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--profile", type=click.Choice(PROFILES), default="prowess", help="Whose rules to check against.")
@click.option("--quiet", "-q", is_flag=True, help="Show only what is not in order.")
@common_options
def validate_command(
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
    from prowess.interfaces.cli.error_output import EXIT_CODES
    from prowess.interfaces.cli.output import print_json_line

    with progress_bar("Checking") as watch:

        async def work(prowess: Prowess) -> list[CheckResult]:
            return await prowess.skills.check(*map(Path, paths or (".",)), profile=profile, watch=watch)

        checked = with_engine(workspace, work)
    for item in checked:
        if as_json:
            print_json_line(checked_json(item))
        elif not (quiet and item.ok and not item.dangers):
            _print_checked(item)
    bad = sum(not item.ok for item in checked)
    grave = sum(item.dangers > 0 for item in checked)
    if not as_json:
        verdict = "all are in order" if not bad else f"{bad} not in order"
        if grave:
            verdict = f"{bad} not in order, {grave} with dangerous findings; read those files before you use them"
        click.echo(f"{len(checked)} checked against {profile}: {verdict}.")
    # A skill with dangerous findings may be valid, but a check that passes in silence would recommend it.
    if bad or grave:
        raise click.exceptions.Exit(EXIT_CODES[Invalid])


def _print_checked(item: CheckResult) -> None:
    from prowess.interfaces.cli.error_output import print_findings, print_problems
    from prowess.interfaces.cli.output import escape_path

    clean = item.ok and not item.dangers
    mark = click.style("✓", fg="green") if clean else click.style("✗" if not item.ok else "!", fg="red")
    click.echo(f"{mark} {escape_path(item.path)}")
    print_problems(item.problems)
    print_findings([finding.as_json() for finding in item.findings])


MAX_LISTED = 20


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
def import_command(paths: tuple[str, ...], scope: Any, replace: bool, workspace: str | None, as_json: bool) -> None:
    """Keep skills from folders, files or archives, in whatever form they are.

    The files are kept byte for byte. One that cannot be kept is reported and does not stop the others.
    """
    from prowess.interfaces.cli.error_output import exit_code
    from prowess.interfaces.cli.output import print_json

    with progress_bar("Importing") as watch:

        async def work(prowess: Prowess) -> tuple[list[ImportResult], int]:
            keep = partial(prowess.skills.import_path, scope=scope, replace=replace, watch=watch)
            done = [one for path in paths for one in await keep(Path(path))]
            return done, await read_prompt_limit(prowess, [one.chars for one in done])

        outcome, limit = with_engine(workspace, work)
    if as_json:
        print_json([imported_json(item) for item in outcome])
    else:
        _print_imported(outcome, scope)
        note_too_long([(item.slug, item.chars) for item in outcome if item.slug], limit)
    errors = [item.error for item in outcome if item.error is not None]
    if errors:
        raise click.exceptions.Exit(exit_code(errors[0]))


def _print_imported(outcome: list[ImportResult], scope: str) -> None:
    from prowess.interfaces.cli.error_output import print_findings, print_problems

    kept = [item for item in outcome if item.error is None]
    for item in kept:
        if len(kept) <= MAX_LISTED or item.problems or item.dangers:
            words = "kept" if item.changed else "unchanged"
            click.echo(f"{click.style('✓', fg='green')} {item.slug}  {words} ({item.form})")
        print_problems(item.problems)
        print_findings([finding.as_json() for finding in item.findings if finding.severity == "danger"])
    for item in outcome:
        if item.error is not None:
            _show_error(item, item.error)
    same = sum(not item.changed for item in kept)
    left = len(outcome) - len(kept)
    counts = [f"{len(kept) - same} kept in the {scope} scope"]
    counts += [f"{same} unchanged"] if same else []
    counts += [f"{left} not kept"] if left else []
    click.echo(", ".join(counts) + ".")


def _show_error(item: ImportResult, error: ProwessError) -> None:
    from prowess.errors import DuplicateSkill, Invalid
    from prowess.interfaces.cli.error_output import print_problems
    from prowess.interfaces.cli.output import clean, escape_path, print_wrapped

    click.echo(f"{click.style('✗', fg='red')} {escape_path(item.path)}")
    if isinstance(error, Invalid) and error.problems:
        print_problems(error.problems)
        return
    taken = isinstance(error, DuplicateSkill)
    hint = "If it is the same skill, add --replace to update it; its history stays." if taken else error.hint
    print_wrapped(f"{clean(error.message)} {clean(hint)}".rstrip(), 4)


EXPORT_FORMS = (
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


class _FormChoice(click.Choice[str]):
    """A built-in form, or the form of a plugin.

    Plugin forms have a dot in their name. They are checked when the skill is written, so that parsing the command line
    does not load plugins.
    """

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return value if "." in value else super().convert(value, param, ctx)


@click.command("export")
@click.argument("slug")
@click.option("--to", "folder", required=True, metavar="DIR", help="The folder to write into; made if need be.")
@click.option("--profile", type=click.Choice(PROFILES), help="Write a folder that passes this profile.")
@click.option("--form", type=_FormChoice(EXPORT_FORMS), help="Write this form, or an archive.")
@click.option("--replace", is_flag=True, help="Replace what stands there under the same name.")
@common_options
def export_command(
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
    from prowess.interfaces.cli.error_output import print_problems
    from prowess.interfaces.cli.output import escape_path, print_json

    if form and profile:
        raise click.UsageError("Choose --form or --profile, not both.")

    done = with_engine(
        workspace,
        lambda prowess: prowess.skills.export(slug, Path(folder), form=form, profile=profile, replace=replace),
    )
    if as_json:
        print_json(
            {"slug": slug, "path": str(done.path), "form": done.form, "profile": profile, "left_out": done.left_out}
        )
        return
    click.echo(f"Wrote {escape_path(done.path)} ({done.form}).")
    print_problems(done.left_out)
