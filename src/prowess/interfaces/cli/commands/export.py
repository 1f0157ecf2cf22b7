"""`prowess export`: skills as folders, files and archives."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prowess.interfaces.cli.commands.packages import MAX_LISTED, PROFILES
from prowess.interfaces.cli.engine import Cli, common_options, spinner
from prowess.interfaces.cli.error_output import print_problems
from prowess.interfaces.cli.options import Failure, choose_skills, command, for_each, report_failures
from prowess.interfaces.cli.output import escape_path

if TYPE_CHECKING:
    from prowess.catalog.exporter import ExportResult
    from prowess.open import Prowess


_ARCHIVE_SUFFIXES = {".skill": "skill", ".zip": "zip", ".tar.gz": "tar.gz", ".tgz": "tar.gz"}
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


@command(
    "export",
    "prowess export my-skill --to out",
    "prowess export my-skill --to out/my-skill.zip",
    "prowess export --tag writing --profile claude-code --to out",
)
@click.argument("slugs", nargs=-1, metavar="[SLUG]...")
@click.option("--all", "every", is_flag=True, help="Export all skills but the built-in role packs.")
@click.option("--tag", "tags", multiple=True, help="Export all skills with this tag (repeatable).")
@click.option("--to", "target", required=True, metavar="PATH", help="Folder to write to, or file for an archive form.")
@click.option("--profile", type=click.Choice(PROFILES), help="Write a folder that passes this profile.")
@click.option("--form", type=_FormChoice(EXPORT_FORMS), help="Write this form or archive.")
@click.option("--replace", is_flag=True, help="Replace existing files and folders with the same name.")
@common_options
def export_command(
    slugs: tuple[str, ...],
    every: bool,
    tags: tuple[str, ...],
    target: str,
    profile: Any,
    form: str | None,
    replace: bool,
    cli: Cli,
) -> None:
    """Write skills to folders, files or archives: unchanged, in another form, or to pass a profile.

    With one skill, `--to out/pdf.zip` writes exactly that file: a .zip, .tar.gz or .skill archive. Content that the target
    cannot hold is reported. Skills that share a name are written to folders named after their slugs.
    """
    if form and profile:
        raise click.UsageError("--form and --profile cannot be combined.")
    archive = None if Path(target).is_dir() else _archive_form(target)
    if archive and (profile or form not in (None, *_ARCHIVE_SUFFIXES.values())):
        raise click.UsageError(
            f"--{'profile' if profile else 'form'} writes a folder, and --to {target} is an archive."
        )
    form = form or archive

    async def work(prowess: Prowess) -> tuple[list[tuple[str, ExportResult]], list[Failure]]:
        chosen = await choose_skills(prowess, slugs, every=every, tags=tags)
        folder, name = _split_target(Path(target), form, single=len(chosen) == 1)
        names = Counter(re.split("[.:]", slug)[-1] for slug in chosen)

        async def export(slug: str) -> tuple[str, ExportResult]:
            # Skills of one name, in several namespaces or scopes, would overwrite each other.
            to = folder / slug.replace(":", ".") if names[re.split("[.:]", slug)[-1]] > 1 else folder
            return slug, await prowess.skills.export(slug, to, form=form, profile=profile, replace=replace, name=name)

        return await for_each(chosen, export)

    with spinner("Exporting …"):
        done, failed = cli.call(work)
    rows = [
        {"slug": slug, "path": str(result.path), "form": result.form, "profile": profile, "left_out": result.left_out}
        for slug, result in done
    ]
    cli.print(
        rows[0] if len(slugs) == 1 and len(rows) == 1 else rows,
        lambda: _print_exported([result for _, result in done], len(failed), target),
    )
    report_failures(failed)


def _print_exported(done: list[ExportResult], failed: int, target: str) -> None:
    for result in done:
        if len(done) <= MAX_LISTED or result.left_out:
            click.echo(f"Wrote {escape_path(result.path)} ({result.form}).")
        print_problems(result.left_out, place=result.place)
    if len(done) + failed > 1:
        left = f", {failed} failed" if failed else ""
        click.echo(f"{len(done)} skill{'s' * (len(done) != 1)} exported to {escape_path(target)}{left}.")


def _split_target(target: Path, form: str | None, *, single: bool) -> tuple[Path, str]:
    """Return the folder to write to and the name of the file; the name is '' unless the target names an archive."""
    if not form or _archive_form(target.name) != form or target.is_dir():
        return target, ""
    if not single:
        raise click.UsageError(f"--to {target} is a single file, but several skills are exported. Give a folder.")
    return target.parent, target.name


def _archive_form(name: str) -> str | None:
    return next((form for suffix, form in _ARCHIVE_SUFFIXES.items() if name.endswith(suffix)), None)
