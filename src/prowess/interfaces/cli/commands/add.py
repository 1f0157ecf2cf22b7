"""`prowess add` and `update`: install skills from any source for agents, and keep them up to date."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from prowess.errors import Invalid, Refused
from prowess.interfaces.cli.approval_card import ask_until, format_files
from prowess.interfaces.cli.engine import Cli, common_options, progress_bar, spinner
from prowess.interfaces.cli.error_output import exit_code
from prowess.interfaces.cli.options import command
from prowess.interfaces.cli.output import clean, escape_path, one_line, print_json, print_table, print_wrapped
from prowess.interfaces.cli.person import TYPED, Proof, at_terminal, token_option, token_proof
from prowess.interfaces.cli.trust_prompt import format_previewed
from prowess.lazy_dataclass import dataclass
from prowess.skill.text.hidden import show_hidden

if TYPE_CHECKING:
    from prowess.engine.install_plan import InstallPlan, PlannedSkill
    from prowess.engine.installs import InstallResult
    from prowess.open import Prowess

F = TypeVar("F", bound=Callable[..., Any])
_SHOWN_DIFF_LINES = 80
_CHANGES = {"new": "new", "update": "changed", "unchanged": "installed already"}


def _change_options(function: F) -> F:
    """Add the options that `add` and `update` share."""
    for option in (
        click.option("--discard-changes", is_flag=True, help="Replace installed files even if they were edited here."),
        click.option("--dry-run", is_flag=True, help="Show what would happen, without changing anything."),
        click.option(
            "--yes", "-y", is_flag=True, help="Do not ask. Without a terminal, the skills still have to be accepted."
        ),
        click.option("--global", "-g", "is_global", is_flag=True, help="Use all of your projects instead of this one."),
    ):
        function = option(function)
    return token_option(common_options(function))


@command(
    "add",
    "prowess add anthropics/skills --list",
    "prowess add anthropics/skills --skill pdf --agent claude-code,cursor",
    "prowess add ./my-skill --copy",
    "prowess add --frozen --yes",
)
@click.argument("source", default="", required=False)
@click.option("--skill", "-s", "skills", multiple=True, metavar="NAME", help="Install this skill (repeatable).")
@click.option("--all", "every", is_flag=True, help="Install every skill of the source.")
@click.option("--list", "-l", "only_list", is_flag=True, help="List the skills of the source without installing them.")
@click.option(
    "--agent",
    "-a",
    "agents",
    multiple=True,
    metavar="IDS",
    help="Install for these agents, such as claude-code,cursor.",
)
@click.option("--copy", is_flag=True, help="Give each agent its own copy, instead of a link to .agents/skills.")
@click.option("--scope", type=click.Choice(["workspace", "user"]), help="`user` is the same as --global.")
@click.option("--frozen", is_flag=True, help="Install exactly what prowess.lock records, or fail. Needs no SOURCE.")
@_change_options
def add_command(
    source: str,
    skills: tuple[str, ...],
    every: bool,
    only_list: bool,
    agents: tuple[str, ...],
    copy: bool,
    scope: str | None,
    frozen: bool,
    is_global: bool,
    token_file: Path | None,
    cli: Cli,
    **change: bool,
) -> None:
    """Install skills from a repository, a URL or a folder for your agents.

    SOURCE is owner/repo[/path][@skill][#ref], a URL of a repository, a site, a file or an archive, or a path such as
    ./skills. The skills are shown first, with what they ask for. They go to .agents/skills, and other agents get links.
    """
    if not source and not frozen:
        raise click.UsageError("Give a SOURCE, such as owner/repo or ./folder, or --frozen to restore what is locked.")
    if is_global and scope == "workspace":
        raise click.UsageError("--global and --scope workspace cannot be combined.")
    user = is_global or scope == "user"

    async def fetch(prowess: Prowess) -> InstallPlan:
        if frozen:
            return await prowess.installs.plan_frozen(source, skills=skills, user=user)
        mode = "copy" if copy else None
        return await prowess.installs.plan(source, agents=agents, user=user, mode=mode, skills=skills)

    with _unchanged_if_stopped(), spinner("Fetching …"):
        plan = cli.call(fetch)
    if only_list:
        cli.print(plan, lambda: _print_list(plan))
        return
    options = _Options(**change)
    if len(plan.skills) > 1 and not (skills or every or frozen or options.dry_run):
        plan = _choose(plan, source, cli)
    command_line = _retype(
        "add",
        source,
        skills=[] if every else [skill.new.name for skill in plan.skills],
        agents=agents,
        user=user,
        copy=copy,
    )
    command_line += " --all" * every
    _carry_out(plan, "Install", command_line, options, token_file, cli)


@command("update", "prowess update", "prowess update pdf --dry-run", "prowess update --global")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@_change_options
def update_command(names: tuple[str, ...], is_global: bool, token_file: Path | None, cli: Cli, **change: bool) -> None:
    """Update installed skills from their sources, all of them or those with a NAME.

    What changes is shown as a diff first. A rewritten history or a moved repository is reported.
    """
    with _unchanged_if_stopped(), progress_bar("Fetching") as show:
        plan = cli.call(lambda prowess: prowess.installs.plan_update(names, user=is_global, step=show))
    changed = [skill.new.name for skill in plan.changes]
    if not changed and not cli.as_json and not plan.skipped and not plan.gone:
        _print_warnings(plan)
        click.echo("Everything is up to date.")
        return
    command_line = _retype("update", *(names or ()), user=is_global)
    _carry_out(plan.only(changed), "Update", command_line, _Options(**change), token_file, cli)


@contextmanager
def _unchanged_if_stopped() -> Generator[None]:
    """If the block is interrupted, say that it has changed nothing."""
    try:
        yield
    except (KeyboardInterrupt, click.exceptions.Exit):
        click.echo("Nothing was changed.", err=True)
        raise


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    """The options that `_change_options` adds."""

    yes: bool
    dry_run: bool
    discard_changes: bool


def _carry_out(
    plan: InstallPlan, verb: str, command_line: str, options: _Options, token_file: Path | None, cli: Cli
) -> None:
    """Show a plan, ask about it, and carry it out."""
    shown = {skill.preview.slug: _format_planned(skill) for skill in plan.skills} if cli.as_json else _print_plan(plan)
    left = [skill for skill in plan.skills if skill.change != "unchanged" or skill.preview.trust == "found"]
    if options.dry_run or not left:
        if cli.as_json:
            print_json({"plan": plan.as_json(), "result": None})
        elif not plan.skipped:
            click.echo("Nothing was changed." if left else "Already installed. Nothing was changed.")
        if not left and plan.skipped:
            raise click.exceptions.Exit(exit_code(plan.skipped[0].error))
        return
    _check_obstacles(plan, options)
    proof = _find_proof(verb, command_line, token_file, cli, yes=options.yes)
    if not options.yes:
        click.echo("")
        agreed, shown = _ask_about_plan(plan, shown, verb)
        if not agreed:
            click.echo("Nothing was changed.")
            raise click.exceptions.Exit(1)

    async def work(prowess: Prowess) -> InstallResult:
        from asyncio import CancelledError  # not for --help, which has no event loop

        words = proof.words if proof else ""
        discard_changes = options.discard_changes or not options.yes
        try:
            return await prowess.installs.install(plan, proof=words, shown=shown, discard_changes=discard_changes)
        except CancelledError:
            await _print_stopped(prowess, plan, verb)
            raise

    result = cli.call(work, channel=proof.channel if proof else "cli")
    cli.print(
        {"plan": plan.as_json(), "result": result.as_json()},
        lambda: _print_result(plan, result, "Installed" if verb == "Install" else "Updated"),
    )
    if plan.skipped:
        raise click.exceptions.Exit(exit_code(plan.skipped[0].error))


async def _print_stopped(prowess: Prowess, plan: InstallPlan, verb: str) -> None:
    """Print how many skills an interrupted command has installed."""
    known = await prowess.installs.list(user=plan.base.is_user)
    digests = {skill.name: skill.entry.digest for skill in known if skill.entry is not None}
    done = sum(digests.get(skill.new.name) == skill.preview.digest for skill in plan.changes)
    words = f"{done} of {len(plan.changes)} skills {verb.lower().rstrip('e')}ed."
    click.echo(f"{words} To continue, run the same command again." if done else "Nothing was changed.", err=True)


def _check_obstacles(plan: InstallPlan, options: _Options) -> None:
    """Raise `Conflict` before a person is asked about something that cannot be done."""
    from prowess.sources.installed import conflict_error

    for skill in plan.changes:
        # At a terminal, edited files are shown before the question.
        is_unasked = options.yes and not options.discard_changes
        fatal = [obstacle for obstacle in skill.obstacles if obstacle.state != "edited" or is_unasked]
        if fatal:
            raise conflict_error(skill.new.name, fatal)


def _find_proof(verb: str, command_line: str, token_file: Path | None, cli: Cli, *, yes: bool) -> Proof | None:
    """Return the proof that a person acts, or None if nobody can say so and `--yes` installs without accepting.

    Raise `Refused` if a person would have to be asked and cannot be.
    """
    token = token_proof(token_file)
    typed = TYPED if at_terminal() else None
    if yes:
        return token or typed
    if typed is None or cli.as_json:
        raise Refused(
            f"Nothing was {verb.lower().rstrip('e')}ed: confirming needs a terminal, and does not work with --json.",
            hint=f"If you have read what is shown above, run: {command_line} --yes",
        )
    return typed


def _choose(plan: InstallPlan, source: str, cli: Cli) -> InstallPlan:

    if at_terminal() and not cli.as_json:
        return _choose_skills(plan)
    names = [one_line(skill.new.name) for skill in plan.skills]
    some = ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
    raise Invalid(
        f"The source has {len(names)} skills: {some}.",
        hint=f"Choose with --skill NAME or --all; `prowess add {one_line(source)} --list` describes them.",
    )


def _print_list(plan: InstallPlan) -> None:

    _print_warnings(plan)
    rows = [
        (
            one_line(skill.new.name, 40),
            one_line(skill.new.pin.path, 40) or ".",
            str(sum(finding.get("severity") == "danger" for finding in skill.preview.findings) or ""),
            one_line(skill.preview.description),
        )
        for skill in plan.skills
    ]
    if rows:
        print_table(("skill", "path", "dangers", "description"), rows, flexible=3)


def _retype(
    name: str, *words: str, user: bool, skills: Sequence[str] = (), agents: Sequence[str] = (), copy: bool = False
) -> str:
    """Return the command that repeats this one without a choice."""
    import shlex

    parts = ["prowess", name, *(word for word in words if word)]
    parts += [part for skill in skills for part in ("--skill", skill)]
    parts += [part for agent in agents for part in ("--agent", agent)]
    parts += ["--global"] * user + ["--copy"] * copy
    return " ".join(shlex.quote(part) for part in parts)


def _format_planned(skill: PlannedSkill) -> str:
    """Return what a person needs to know before installing a skill: most serious first, nothing cut but the diff."""
    pin = skill.new.pin
    facts = format_previewed(skill.preview).split("\n")[1:]
    for obstacle in skill.obstacles:
        path = _near_path(str(obstacle.path))
        what = {
            "edited": "was edited here; the changes would be lost",
            "same": "has the same files, but is not from Prowess",
        }.get(obstacle.state, "is not from Prowess")
        facts.insert(0, f"  in the way: {path} {what}")
    if skill.hidden_by:
        facts.append(f"  not used: the skill of the same name in the {skill.hidden_by} scope takes precedence")
    facts += [f"  {one_line(problem.message)}" for problem in skill.problems]
    facts.append(f"  signed by {one_line(skill.signer)}" if skill.signer else "  not signed")
    where = f", {one_line(pin.path)}" if pin.path else ""
    states = [state[:12] for state in dict.fromkeys((skill.from_state, pin.state)) if state]
    facts.append(f"  from {one_line(pin.source)}{where} at {' → '.join(map(one_line, states))}")
    facts.append(f"  to {', '.join(_near_path(path) for path in skill.places)} ({skill.new.mode})")
    if skill.left_out:
        facts.append(f"  without {', '.join(escape_path(path) for path in skill.left_out)}")
    count = f"{skill.preview.files} file{'s' * (skill.preview.files != 1)}"
    head = f"{one_line(skill.new.name)}  {_CHANGES[skill.change]}, {count}, sha256 {skill.preview.digest[:16]}"
    return "\n".join([head, *facts])


def _near_path(path: str) -> str:
    """Return a path as seen from here, if it is below."""
    here = Path.cwd()
    return escape_path(Path(path).relative_to(here) if Path(path).is_relative_to(here) else path)


def _format_diff_text(skill: PlannedSkill) -> str:
    """Return the whole difference to the installed files, with hidden characters written out."""
    return clean(show_hidden(skill.diff))


def _print_plan(plan: InstallPlan) -> dict[str, str]:
    """Print warnings, skills that are left out, and the changes; return the text about each skill, by slug."""
    _print_warnings(plan)
    shown: dict[str, str] = {}
    for skill in plan.skills:
        text = _format_planned(skill)
        head, _, rest = text.partition("\n")
        click.secho(head, bold=True)
        click.echo(rest)
        diff = _format_diff_text(skill).split("\n") if skill.diff else []
        click.echo("\n".join(f"    {line}" for line in diff[:_SHOWN_DIFF_LINES]) + "\n" * bool(diff), nl=False)
        if len(diff) > _SHOWN_DIFF_LINES:
            click.echo(f"    … {len(diff) - _SHOWN_DIFF_LINES:,} more lines")
        shown[skill.preview.slug] = text
    return shown


def _print_warnings(plan: InstallPlan) -> None:
    """Print what is unusual about the sources, and which skills cannot be installed."""
    for warning in plan.warnings:
        print_wrapped(f"Warning: {clean(warning.message)} {clean(warning.hint)}".rstrip(), err=True)
    for name in plan.gone:
        click.echo(f"{one_line(name)}: its source no longer has it. Run `prowess remove {one_line(name)}`.", err=True)
    for skill in plan.skipped:
        print_wrapped(
            f"{one_line(skill.name)}: {clean(skill.error.message)} {clean(skill.error.hint)}".rstrip(), err=True
        )


def _choose_skills(plan: InstallPlan) -> InstallPlan:
    """Ask which skills of a source to install; return the plan for those."""
    for number, skill in enumerate(plan.skills, start=1):
        click.echo(f"{number:>3}  {one_line(skill.new.name)}  {one_line(skill.preview.description, 80)}")
    names = [skill.new.name for skill in plan.skills]
    while True:
        typed = str(click.prompt(f"Which skills? [1-{len(names)}, names, or all]", default="", show_default=False))
        words = [word.strip() for word in typed.replace(",", " ").split()]
        if not words:
            raise click.Abort
        if words == ["all"]:
            return plan
        numbers = {str(number): name for number, name in enumerate(names, start=1)}
        chosen = [numbers.get(word, word) for word in words]
        unknown = [word for word in chosen if word not in names]
        if not unknown:
            return plan.only(chosen)
        click.echo(f"Not in the list: {', '.join(map(one_line, unknown))}.", err=True)


def _ask_about_plan(plan: InstallPlan, shown: dict[str, str], verb: str) -> tuple[bool, dict[str, str]]:
    """Ask whether to continue with a plan that was shown. Return the answer, and what was seen, by slug."""
    skills = plan.skills
    files = [f"━━ {skill.new.name}\n\n{format_files(skill.new.placed)}" for skill in skills]
    diffs = [f"━━ {skill.new.name}\n\n{_format_diff_text(skill)}" for skill in skills if skill.diff]
    views = {"v": ("iew", "\n\n".join(files))} | ({"d": ("iff", "\n\n".join(diffs))} if diffs else {})
    what = f"these {len(skills)} skills" if len(skills) > 1 else "this skill"
    question = f"{verb} {what} and trust {'them' if len(skills) > 1 else 'it'}, exactly as shown?"
    answer, viewed = ask_until(question, {"y": "es", "n": "o"}, views)
    return answer == "y", {slug: f"{text}{viewed}" for slug, text in shown.items()}


def _print_result(plan: InstallPlan, result: InstallResult, verb: str) -> None:
    """Print what was installed, and what is not trusted yet."""
    for name in result.installed:
        click.echo(f"{click.style('✓', fg='green')} {verb} {one_line(name)}.")
    _print_unaccepted([skill for skill in plan.skills if skill.preview.slug not in result.accepted])


def _print_unaccepted(skills: Sequence[PlannedSkill]) -> None:
    waiting = [skill.preview.slug for skill in skills if skill.preview.trust != "local"]
    if waiting:
        names = f" {waiting[0]}" if len(waiting) == 1 else ""
        print_wrapped(
            f"Nobody has accepted {'it' if len(waiting) == 1 else f'{len(waiting)} of them'} yet, so agents cannot use "
            f"{'it' if len(waiting) == 1 else 'them'}. At a terminal, run `prowess trust{names}`."
        )
