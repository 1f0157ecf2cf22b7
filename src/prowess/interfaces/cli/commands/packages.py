"""`prowess validate` and `import`: skills as folders, files and archives."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prowess.errors import DuplicateSkill, Invalid, ProwessError
from prowess.interfaces.cli.commands.skills import warn_conflicts
from prowess.interfaces.cli.engine import Cli, common_options, progress_bar
from prowess.interfaces.cli.error_output import EXIT_CODES, exit_code, print_findings, print_problems
from prowess.interfaces.cli.options import command
from prowess.interfaces.cli.output import clean, escape_path, one_line, print_json, print_json_line, print_wrapped
from prowess.interfaces.cli.prompt_size import note_too_long, read_prompt_limit
from prowess.interfaces.cli.server import chosen_server
from prowess.view import checked_json, imported_json

if TYPE_CHECKING:
    from prowess.catalog.importer import CheckResult, ImportResult, Progress
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
        for item in items if profile != "prowess" else map(_with_eval_problems, items):
            if cli.as_json:
                print_json_line({**checked_json(item), "profile": profile})
            elif not (quiet and item.ok and not item.dangers):
                _print_checked(item)
        if not cli.as_json:
            click.echo(_summarize(items, profile))
    # A skill with dangerous findings may be valid, but exit code 0 would recommend it.
    if any(not item.ok or item.dangers for items in checked for item in items):
        raise click.exceptions.Exit(EXIT_CODES[Invalid])


def _with_eval_problems(item: CheckResult) -> CheckResult:
    """Return the verdict with the problems of the skill's eval cases as warnings. Trigger queries are part of the profile."""
    package = item.report.reading.package if item.report is not None else None
    paths = [path for path in package.paths if path.startswith("evals/")] if package is not None else []
    if package is None or not paths:
        return item
    from prowess.authoring.evals.formats.suite import read_suite

    files = {path: file.content for path in paths if (file := package.get(path)) is not None}
    # A file that cannot be read at all is reported by the profile, too.
    known = {(problem.field, problem.message) for problem in item.problems}
    found = [
        replace(problem, severity="warning")
        for problem in read_suite(files).problems
        # Without a field, it only says that there are no cases.
        if problem.field is not None and (problem.field, problem.message) not in known
    ]
    return replace(item, problems=(*item.problems, *found))


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
@click.option("--prefix", default="", metavar="NAME", help="Prefix every slug with NAME and a dot.")
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
    outcome: list[ImportResult] = []
    saved = 0
    with _report_unfinished(lambda: sum(item.changed for item in outcome) + saved), progress_bar("Importing") as show:

        def watch(step: Progress) -> None:
            nonlocal saved
            saved = step.saved
            show(step.done, step.total)

        async def work(prowess: Prowess) -> int:
            nonlocal saved
            import_path = partial(
                prowess.skills.import_path,
                scope=scope,
                replace=replace,
                on_conflict=on_conflict or "refuse",
                slug=slug,
                prefix=prefix,
                watch=watch,
            )
            for path in paths:
                outcome.extend(await import_path(Path(path)))
                saved = 0
            return await read_prompt_limit(prowess, [result.chars for result in outcome])

        limit = cli.call(work)
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


@contextmanager
def _report_unfinished(count: Callable[[], int]) -> Generator[None]:
    """If the import ends before its end, print how many skills it has saved, and how to import the others."""
    try:
        yield
    except (ProwessError, OSError, KeyboardInterrupt, click.exceptions.Exit):
        if saved := count():
            skills = f"{saved:,} skill{'s' * (saved != 1)}"
            click.echo(f"{skills} imported. To import the others, run the same command again.", err=True)
        raise


def _check_is_local(path: str) -> None:
    """Raise `Invalid` for an address on the network, with the command that installs from it."""
    is_url = bool(_URL.match(path))
    if not is_url and (Path(path).exists() or not _REPOSITORY.fullmatch(path) or path.startswith(".")):
        return
    shown = escape_path(path)
    problem = "is a URL" if is_url else "does not exist here"
    raise Invalid(
        f"{shown} {problem}, and `prowess import` reads files on this machine.",
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
            f"{skills}, so there is nothing to import. To accept later changes there, run `prowess trust`. To store a copy under "
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
        ("--on-conflict replace", "replace the existing skill; its history is kept"),
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
