"""`prowess validate`, `import` and `export`: skills as folders, files and archives."""

from __future__ import annotations

import re
import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prowess.errors import DuplicateSkill, Invalid, ProwessError
from prowess.interfaces.cli.commands.skills import warn_conflicts
from prowess.interfaces.cli.engine import Cli, common_options, progress_bar, spinner
from prowess.interfaces.cli.error_output import EXIT_CODES, exit_code, print_findings, print_problems
from prowess.interfaces.cli.options import choose_skills, command, for_each, report_failures
from prowess.interfaces.cli.output import clean, escape_path, one_line, print_json, print_json_line, print_wrapped
from prowess.interfaces.cli.prompt_size import note_too_long, read_prompt_limit
from prowess.interfaces.cli.server import chosen_server
from prowess.view import checked_json, imported_json

if TYPE_CHECKING:
    from prowess.catalog.exporter import ExportResult
    from prowess.catalog.importer import CheckResult, ImportResult, Progress
    from prowess.interfaces.cli.options import Failure
    from prowess.open import Prowess


PROFILES = ("agentskills", "claude-api", "claude-code", "codex", "mcp", "bernstein", "prowess")


@command(
    "validate",
    "prowess validate",
    "prowess validate my-skill",
    "prowess validate .agents/skills/my-skill --profile claude-code --profile codex",
)
@click.argument("targets", nargs=-1, metavar="[SLUG|PATH]...")
@click.option(
    "--profile",
    "profiles",
    type=click.Choice(PROFILES),
    multiple=True,
    default=("prowess",),
    show_default=True,
    help="Rules to check against (repeatable).",
)
@click.option("--quiet", "-q", is_flag=True, help="Show only skills with problems.")
@common_options
def validate_command(targets: tuple[str, ...], profiles: tuple[Any, ...], quiet: bool, cli: Cli) -> None:
    """Check skills and show how to fix problems.

    SLUG is an available skill in a folder. PATH is a skill folder, file or archive, or a folder that contains skills. The
    default is the current folder.
    """
    from prowess.interfaces.cli.targets import find_path

    profiles = tuple(dict.fromkeys(profiles))
    with progress_bar("Checking") as show:

        def watch(step: Progress) -> None:
            show(step.done, step.total)

        async def work(prowess: Prowess) -> list[list[CheckResult]]:
            paths = [await find_path(prowess, target) for target in targets or (".",)]
            return [await prowess.skills.check(*paths, profile=profile, watch=watch) for profile in profiles]

        checked = cli.call(work)
    for profile, items in zip(profiles, checked, strict=True):
        for item in items:
            if cli.as_json:
                print_json_line({**checked_json(item), "profile": profile})
            elif not (quiet and item.ok and not item.dangers):
                _print_checked(item)
        if not cli.as_json:
            click.echo(_summarize(items, profile))
    # A skill with dangerous findings may be valid, but exit code 0 would recommend it.
    if any(not item.ok or item.dangers for items in checked for item in items):
        raise click.exceptions.Exit(EXIT_CODES[Invalid])


def _summarize(checked: list[CheckResult], profile: str) -> str:
    bad = sum(not item.ok for item in checked)
    grave = sum(item.dangers > 0 for item in checked)
    verdict = f"{bad} with errors" if bad else "no errors"
    if grave:
        verdict += f", {grave} with dangerous findings. Read those files before you use them"
    return f"{len(checked)} skill{'s' * (len(checked) != 1)} checked against the profile {profile}, {verdict}."


def _print_checked(item: CheckResult) -> None:
    clean = item.ok and not item.dangers
    mark = click.style("✓", fg="green") if clean else click.style("✗" if not item.ok else "!", fg="red")
    click.echo(f"{mark} {escape_path(item.path)}")
    print_problems(item.problems, place=item.place)
    print_findings([finding.as_json() for finding in item.findings])


MAX_LISTED = 20
"""The most imported or exported skills that are listed by name."""
_URL = re.compile(r"(?:https?|git|ssh)://|git@")
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")


@command(
    "import",
    "prowess import ~/Downloads/pdf.skill",
    "prowess import ../team-skills --prefix team",
    "prowess import ../team-skills --on-conflict rename",
)
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--scope",
    type=click.Choice(["workspace", "user", "org", "account"]),
    help="Import for this workspace (default), for yourself, for your organization (default with --server), or for all "
    "of your workspaces.",
)
@click.option("--as", "slug", default="", metavar="SLUG", help="Import the only skill at PATH under this slug.")
@click.option("--prefix", default="", metavar="NAME", help="Put NAME and a dot before every slug.")
@click.option(
    "--on-conflict",
    type=click.Choice(["skip", "rename", "replace"]),
    help="If a slug is taken: skip the skill, import it under a free slug, or replace the other skill.",
)
@click.option("--replace", is_flag=True, help="Same as --on-conflict replace. The history is kept.")
@click.option("--show-conflicts", is_flag=True, help="List every skill whose slug is taken.")
@common_options
def import_command(
    paths: tuple[str, ...],
    scope: Any,
    slug: str,
    prefix: str,
    on_conflict: Any,
    replace: bool,
    show_conflicts: bool,
    cli: Cli,
) -> None:
    """Import skills from folders, files or archives, in any supported form.

    The files are stored unchanged; only --as, --prefix and --on-conflict rename write the new slug into them. A skill that
    cannot be imported is reported and does not stop the others.
    """
    scope = scope or ("workspace" if chosen_server() is None else "org")
    if slug and prefix:
        raise click.UsageError("--as and --prefix cannot be combined.")
    if replace and on_conflict not in (None, "replace"):
        raise click.UsageError(f"--replace and --on-conflict {on_conflict} cannot be combined.")
    for path in paths:
        _check_is_local(path)
    with progress_bar("Importing") as show:

        async def work(prowess: Prowess) -> tuple[list[ImportResult], int]:
            import_path = partial(
                prowess.skills.import_path,
                scope=scope,
                replace=replace,
                on_conflict=on_conflict or "refuse",
                slug=slug,
                prefix=prefix,
                watch=lambda step: show(step.done, step.total),
            )
            done = [result for path in paths for result in await import_path(Path(path))]
            return done, await read_prompt_limit(prowess, [result.chars for result in done])

        outcome, limit = cli.call(work)
    if cli.as_json:
        print_json([imported_json(item) for item in outcome])
    else:
        _print_imported(outcome, scope, limit, show_conflicts=show_conflicts)
        _print_warnings(outcome, paths)
        if chosen_server() is None:  # a server does not tell what it cannot serve
            warn_conflicts(cli, {item.slug for item in outcome if item.slug and item.error is None})
    errors = [item.error for item in outcome if item.error is not None]
    if errors:
        raise click.exceptions.Exit(exit_code(errors[0]))


def _check_is_local(path: str) -> None:
    """Raise `Invalid` for an address on the network, with the command that installs from it."""
    is_url = bool(_URL.match(path))
    if not is_url and (Path(path).exists() or not _REPOSITORY.fullmatch(path) or path.startswith(".")):
        return
    shown = escape_path(path)
    problem = "is a URL" if is_url else "does not exist here"
    raise Invalid(
        f"{shown} {problem}, and `prowess import` reads files of this machine.",
        hint=f"To install from there, run: prowess add {shown}",
    )


def _print_imported(outcome: list[ImportResult], scope: str, limit: int, *, show_conflicts: bool) -> None:
    from prowess.skill.form_info import form_info

    imported = [item for item in outcome if item.error is None and not item.skipped]
    for item in imported:
        # A descriptor may name a prompt or a rubric that has to be added before it runs.
        problems = item.problems if item.form and form_info(item.form).is_descriptor else ()
        if len(imported) <= MAX_LISTED or problems or item.dangers:
            words = "imported" if item.changed else "unchanged"
            warnings = f", {_count_warnings(len(item.problems))}" if item.problems else ""
            click.echo(f"{click.style('✓', fg='green')} {item.slug}  {words} ({item.form}){warnings}")
        print_problems(problems)
        print_findings([finding.as_json() for finding in item.findings if finding.severity == "danger"])
    conflicts = [item for item in outcome if isinstance(item.error, DuplicateSkill)]
    for item in outcome:
        summarised = isinstance(item.error, DuplicateSkill) and len(conflicts) > 1 and not show_conflicts
        if item.error is not None and not summarised:
            _show_error(item, item.error)
    same = sum(not item.changed for item in imported)
    skipped = sum(item.skipped and not item.in_place for item in outcome)
    used = sum(item.in_place for item in outcome)
    left = sum(item.error is not None for item in outcome)
    counts = [f"{len(imported) - same:,} imported into the {scope} scope"]
    counts += [f"{same:,} unchanged"] if same else []
    counts += [f"{skipped:,} skipped"] if skipped else []
    counts += [f"{left:,} not imported"] if left else []
    click.echo(", ".join(counts) + ".")
    _print_used(used)
    _print_conflicts(len(conflicts), shown=show_conflicts)
    note_too_long([(item.slug, item.chars) for item in imported if item.slug], limit)
    _print_unranked([one_line(item.slug, 48) for item in imported if item.slug and _is_unranked(item)])


def _is_unranked(item: ImportResult) -> bool:
    return any(problem.code == "description-from-body" for problem in item.problems)


def _print_unranked(slugs: list[str]) -> None:
    """Print which skills no message will find."""
    if not slugs:
        return
    which, them = ("1 skill has", "it") if len(slugs) == 1 else (f"{len(slugs):,} skills have", "them")
    more = f" and {len(slugs) - 5:,} more" if len(slugs) > 5 else ""
    print_wrapped(f"{which} no description, so `prowess match` does not find {them}: {', '.join(slugs[:5])}{more}.")


def _print_used(count: int) -> None:
    """Print why skills in folders of this scope were not imported."""
    if count:
        skills = (
            "1 skill is already read from its folder"
            if count == 1
            else f"{count:,} skills are already read from their folders"
        )
        print_wrapped(
            f"{skills}, so there is nothing to import. `prowess trust` accepts what changes there. To store a copy under "
            "another name, add --as SLUG or --prefix NAME."
        )


def _count_warnings(count: int) -> str:
    return f"{count:,} warning{'s' * (count != 1)}"


def _print_warnings(outcome: list[ImportResult], paths: tuple[str, ...]) -> None:
    """Print how many warnings there are about the imported skills, and the command that lists them."""
    warned = [len(item.problems) for item in outcome if item.problems]
    if not warned:
        return
    skills = f"{len(warned):,} skill{'s' * (len(warned) != 1)}"
    listing = shlex.join(["prowess", "validate", *map(escape_path, paths)])
    click.echo(f"{_count_warnings(sum(warned))} about {skills}. To list them, run: {listing}")


def _print_conflicts(count: int, *, shown: bool) -> None:
    if not count:
        return
    skills = "1 skill has a slug that is" if count == 1 else f"{count:,} skills have slugs that are"
    listed = "" if shown or count == 1 else " --show-conflicts lists them."
    print_wrapped(f"{skills} already taken.{listed} Run the command again with one of:")
    for option, effect in (
        ("--on-conflict rename", "import under a free slug"),
        ("--on-conflict replace", "replace the skill that is there; its history is kept"),
        ("--on-conflict skip", "import only the others"),
        ("--prefix NAME", "import as NAME.SLUG"),
    ):
        click.echo(f"  {option:<21}  {effect}")


def _show_error(item: ImportResult, error: ProwessError) -> None:
    click.echo(f"{click.style('✗', fg='red')} {escape_path(item.path)}")
    if isinstance(error, Invalid) and error.problems:
        print_problems(error.problems)
        return
    hint = "" if isinstance(error, DuplicateSkill) else error.hint
    print_wrapped(f"{clean(error.message)} {clean(hint)}".rstrip(), 4)


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
    cannot hold is reported.
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

        async def export(slug: str) -> tuple[str, ExportResult]:
            write = partial(prowess.skills.export, form=form, profile=profile, replace=replace)
            return slug, await write(slug, folder, name=name)

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
        print_problems(result.left_out)
    if len(done) + failed > 1:
        left = f", {failed} failed" if failed else ""
        click.echo(f"{len(done)} skills exported to {escape_path(target)}{left}.")


def _split_target(target: Path, form: str | None, *, single: bool) -> tuple[Path, str]:
    """Return the folder to write to and the name of the file; the name is '' unless the target names an archive."""
    if not form or _archive_form(target.name) != form or target.is_dir():
        return target, ""
    if not single:
        raise click.UsageError(f"--to {target} is one file, and there are several skills. Give a folder.")
    return target.parent, target.name


def _archive_form(name: str) -> str | None:
    return next((form for suffix, form in _ARCHIVE_SUFFIXES.items() if name.endswith(suffix)), None)
