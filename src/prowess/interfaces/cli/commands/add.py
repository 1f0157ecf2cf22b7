"""`prowess add` and `update`: install skills from any source for agents, and keep them up to date."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from prowess.errors import Invalid, Refused
from prowess.interfaces.cli.engine import Cli, common_options, progress_bar, spinner
from prowess.interfaces.cli.error_output import exit_code
from prowess.interfaces.cli.options import command
from prowess.interfaces.cli.output import one_line, print_json, print_table
from prowess.interfaces.cli.person import TYPED, Proof, at_terminal, token_option, token_proof
from prowess.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from prowess.engine.install_plan import InstallPlan
    from prowess.engine.installs import InstallResult
    from prowess.open import Prowess

F = TypeVar("F", bound=Callable[..., Any])


def _change_options(function: F) -> F:
    """Add the options that `add` and `update` share."""
    for option in (
        click.option("--discard-changes", is_flag=True, help="Replace installed files even if they were edited here."),
        click.option("--dry-run", is_flag=True, help="Show what would happen, and change nothing."),
        click.option("--yes", "-y", is_flag=True, help="Do not ask. Without a terminal, skills stay to be accepted."),
        click.option("--global", "-g", "is_global", is_flag=True, help="For all of your projects, not this one."),
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
@click.option("--list", "-l", "only_list", is_flag=True, help="List the skills of the source, and install nothing.")
@click.option(
    "--agent", "-a", "agents", multiple=True, metavar="IDS", help="For these agents, such as claude-code,cursor."
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

    with spinner("Fetching …"):
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
    with progress_bar("Fetching") as show:
        plan = cli.call(lambda prowess: prowess.installs.plan_update(names, user=is_global, step=show))
    changed = [skill.new.name for skill in plan.changes]
    if not changed and not cli.as_json and not plan.skipped and not plan.gone:
        from prowess.interfaces.cli.install_output import print_warnings

        print_warnings(plan)
        click.echo("Everything is up to date.")
        return
    command_line = _retype("update", *(names or ()), user=is_global)
    _carry_out(plan.only(changed), "Update", command_line, _Options(**change), token_file, cli)


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
    from prowess.interfaces.cli.install_output import ask_about_plan, format_planned, print_plan, print_result

    shown = {skill.preview.slug: format_planned(skill) for skill in plan.skills} if cli.as_json else print_plan(plan)
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
        agreed, shown = ask_about_plan(plan, shown, verb)
        if not agreed:
            click.echo("Nothing was changed.")
            raise click.exceptions.Exit(1)

    async def work(prowess: Prowess) -> InstallResult:
        words = proof.words if proof else ""
        return await prowess.installs.install(
            plan, proof=words, shown=shown, discard_changes=options.discard_changes or not options.yes
        )

    result = cli.call(work, channel=proof.channel if proof else "cli")
    cli.print(
        {"plan": plan.as_json(), "result": result.as_json()},
        lambda: print_result(plan, result, "Installed" if verb == "Install" else "Updated"),
    )
    if plan.skipped:
        raise click.exceptions.Exit(exit_code(plan.skipped[0].error))


def _check_obstacles(plan: InstallPlan, options: _Options) -> None:
    """Raise `Conflict` before a person is asked about something that cannot be done."""
    from prowess.sources.installed import conflict_error

    for skill in plan.changes:
        # At a terminal, edited files are shown before the question.
        is_unasked = options.yes and not options.discard_changes
        fatal = [obstacle for obstacle in skill.obstacles if obstacle.state == "foreign" or is_unasked]
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
            f"Nothing was {verb.lower().rstrip('e')}ed: without a terminal, or with --json, you cannot be asked.",
            hint=f"If you have read what is shown above, run: {command_line} --yes",
        )
    return typed


def _choose(plan: InstallPlan, source: str, cli: Cli) -> InstallPlan:
    from prowess.interfaces.cli.install_output import choose_skills

    if at_terminal() and not cli.as_json:
        return choose_skills(plan)
    names = [one_line(skill.new.name) for skill in plan.skills]
    some = ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
    raise Invalid(
        f"The source has {len(names)} skills: {some}.",
        hint=f"Choose with --skill NAME or --all; `prowess add {one_line(source)} --list` describes them.",
    )


def _print_list(plan: InstallPlan) -> None:
    from prowess.interfaces.cli.install_output import print_warnings

    print_warnings(plan)
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
