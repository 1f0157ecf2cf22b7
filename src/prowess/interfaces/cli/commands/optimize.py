"""`prowess optimize`: search for a better version of a skill, see what was measured, and decide about it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from prowess.interfaces.cli.approval_card import format_time
from prowess.interfaces.cli.engine import Cli, common_options, open_engine
from prowess.interfaces.cli.options import Number, group
from prowess.interfaces.cli.output import can_animate, clean, console, one_line, print_facts, print_json, print_wrapped
from prowess.interfaces.cli.person import TYPED, require_person, token_option

if TYPE_CHECKING:
    from prowess.authoring.optimize.optimizations import ProposalDiff
    from prowess.authoring.optimize.proposal import OptimizationRequest, Progress, Proposal
    from prowess.open import Prowess

METHODS = ("bootstrap_few_shot", "mipro_v2", "simba", "gepa", "rewrite", "phrases", "description")
STATES = ("running", "refused", "proposed", "approved", "rejected", "watching", "kept", "rolled_back")


@group(
    "optimize",
    "prowess optimize run my-skill --method rewrite",
    "prowess optimize",
    "prowess optimize diff 3f2a",
    "prowess optimize approve 3f2a",
    default="list",
)
def optimize_command() -> None:
    """Search for a measurably better version of a skill, or list the results and decide about them."""


@optimize_command.subcommand(
    "run",
    "prowess optimize run my-skill --method rewrite --max-calls 500",
    "prowess optimize run my-skill --method mipro_v2 --budget-usd 2",
    "prowess optimize run my-skill --method phrases",
)
@click.argument("skill")
@click.option("--artifact", default="", help="Prompt template or DSPy module, if the skill has several.")
@click.option(
    "--method",
    type=click.Choice(METHODS),
    default="bootstrap_few_shot",
    show_default=True,
    help="The first four use DSPy; rewrite, phrases and description do not.",
)
@click.option(
    "--metric", default="assertions", show_default=True, help="assertions, exact (expected outputs) or rubric:ID."
)
@click.option("--budget-usd", type=Number(min=0, min_open=True), metavar="USD", help="Maximum cost.")
@click.option(
    "--max-calls", type=click.IntRange(1), default=500, show_default=True, help="Maximum number of model requests."
)
@click.option(
    "--minutes",
    type=Number(min=0, min_open=True),
    default=30.0,
    show_default=True,
    help="Time limit for the search. The test comes after it.",
)
@click.option("--repeats", type=click.IntRange(1, 20), default=1, show_default=True, help="Runs of each held-out case.")
@click.option("--model", "-m", default="", help="Model to optimize for (default: PROWESS_MODEL).")
@click.option("--evaluation-model", default="", help="Model that judges in rubrics and semantic assertions.")
@click.option("--template", default="predict", show_default=True, help="Template of a new DSPy module.")
@click.option(
    "--cases",
    type=click.Path(exists=True, path_type=Path),
    metavar="FILE",
    help="Eval file with the cases (default: those of the skill).",
)
@click.option("--no-traces", is_flag=True, help="Do not use the inputs of live runs as cases.")
@click.option("--durable", is_flag=True, help="Run as a durable job that survives a crash.")
@common_options
def run(
    skill: str,
    artifact: str,
    method: str,
    metric: str,
    budget_usd: float | None,
    max_calls: int,
    minutes: float,
    repeats: int,
    model: str,
    evaluation_model: str,
    template: str,
    cases: Path | None,
    no_traces: bool,
    durable: bool,
    cli: Cli,
) -> None:
    """Search for a better version of SKILL, and test the best on held-out cases that the search never saw.

    The skill does not change: a candidate that is significantly better becomes a proposal for a person to approve. Any other
    result is refused with its figures, and the exit code is 1. Ctrl-C ends the search and tests the best candidate so far;
    pressing it twice stops everything.
    """
    from prowess.authoring.optimize.proposal import Budget, OptimizationRequest

    request = OptimizationRequest(
        skill=skill,
        artifact=artifact,
        method=cast("Any", method),
        metric=metric,
        budget=Budget(usd=budget_usd, calls=max_calls, minutes=minutes),
        repeats=repeats,
        model=model,
        evaluation_model=evaluation_model,
        template=template,
        cases=str(cases.absolute()) if cases else "",
        traces=not no_traces,
    )
    if durable:
        _start_job(request, cli)
        return
    _follow(lambda prowess: prowess.optimize.prepare(request), cli)


@optimize_command.subcommand("resume", "prowess optimize resume 3f2a", "prowess optimize resume 3f2a --json")
@click.argument("id")
@common_options
def resume(id: str, cli: Cli) -> None:
    """Continue an optimization that was interrupted: test the best candidate so far, or search if none was found."""
    _follow(lambda prowess: prowess.optimize.get(id), cli)


def _follow(prepare: Callable[[Prowess], Awaitable[Proposal]], cli: Cli) -> None:
    """Do an optimization and print its result. If it is interrupted, print how to continue."""
    with open_engine(cli) as engine:
        chosen = engine.run(prepare)
        try:
            with _shown_progress() as show:
                done = engine.run(lambda prowess: prowess.optimize.resume(chosen.id, on_progress=show, graceful=True))
        except (KeyboardInterrupt, click.exceptions.Exit):
            left = engine.run(lambda prowess: prowess.optimize.get(chosen.id))
            goes_on = f"Continue with: prowess optimize resume {left.id[:8]}"
            click.echo(goes_on if left.state == "running" else left.reason, err=True)
            raise
        # Printed before the engine is closed, which fails if a scripted model has steps left.
        cli.print(done, lambda: _print(done))
    if done.state == "refused":
        raise click.exceptions.Exit(1)


def _start_job(request: OptimizationRequest, cli: Cli) -> None:
    async def start(prowess: Prowess) -> Proposal:
        prepared = await prowess.optimize.prepare(request)
        await prowess.jobs.start_task(
            "optimize",
            {"proposal": prepared.id},
            skill=f"{prepared.scope}:{prepared.skill}",
            name=f"optimize-{prepared.id[:8]}",
        )
        return prepared

    prepared = cli.call(start)
    if cli.as_json:
        print_json(prepared)
        return
    click.echo(f"Started the optimization {prepared.id[:8]} as the job optimize-{prepared.id[:8]}.")
    click.echo(f"`prowess worker` runs it, and `prowess optimize show {prepared.id[:8]}` shows its progress.")


@contextmanager
def _shown_progress() -> Generator[Callable[[Progress], None]]:
    """Yield a listener that shows calls, cost and the best score so far on stderr, if that is a terminal."""
    if not can_animate():
        yield lambda _: None
        return
    words = {"base": "Measuring the skill as it is", "search": "Searching", "test": "Testing on held-out cases"}
    with console(err=True).status("Reading cases …") as status:

        def show(progress: Progress) -> None:
            facts = [f"{words[progress.phase]}: {progress.calls:,} of {progress.limit:,} calls"]
            if progress.cost is not None:
                facts.append(f"${progress.cost:.4f}")
            if progress.best is not None:
                facts.append(f"best {progress.best:.3f}, before {progress.base or 0.0:.3f}")
            status.update(", ".join(facts) + " …")

        yield show


@optimize_command.subcommand("list", "prowess optimize list", "prowess optimize list --state proposed --json")
@click.option("--skill", default="", help="Only optimizations of this skill.")
@click.option("--state", "states", multiple=True, type=click.Choice(STATES), help="Only in this state (repeatable).")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=50, metavar="N", help="Maximum number to show (default: 50)."
)
@common_options
def list_proposals(skill: str, states: tuple[str, ...], limit: int, cli: Cli) -> None:
    """List optimizations, newest first."""

    async def read(prowess: Prowess) -> list[Proposal]:
        await prowess.optimize.watch()
        return await prowess.optimize.list(skill=skill, states=states, limit=limit)

    found = cli.call(read)
    has_table = cli.print_table(
        found,
        ("id", "skill", "artifact", "method", "state", "gain", "created"),
        lambda row: (
            row.id[:8],
            one_line(row.skill, 40),
            one_line(row.artifact, 30) or "triggers",
            row.method,
            row.state,
            _difference(row),
            format_time(row.created_at)[:16],
        ),
        flexible=1,
        empty="No optimizations. `prowess optimize run SKILL` starts one.",
    )
    newest = {row.state: row.id[:8] for row in reversed(found)}
    if has_table and "proposed" in newest:
        click.echo(
            f"\nLook at a proposal with `prowess optimize diff {newest['proposed']}`, then approve or reject it."
        )
    if has_table and "running" in newest:
        click.echo(_if_interrupted(newest["running"]))


def _if_interrupted(short: str) -> str:
    # A process that was killed leaves its optimization as running.
    return f"\nIf the process of a running optimization has ended, `prowess optimize resume {short}` continues it."


def _difference(proposal: Proposal) -> str:
    mean = cast("dict[str, Any]", (proposal.test or {}).get("difference") or {}).get("mean")
    return "" if mean is None else f"{mean:+.3f}"


@optimize_command.subcommand("show", "prowess optimize show 3f2a", "prowess optimize show 3f2a --json")
@click.argument("id")
@common_options
def show(id: str, cli: Cli) -> None:
    """Show an optimization with its figures. ID is its id, or the first four or more characters of it."""

    async def read(prowess: Prowess) -> Proposal:
        await prowess.optimize.watch()
        return await prowess.optimize.get(id)

    found = cli.call(read)
    cli.print(found, lambda: _print(found))


def _print(proposal: Proposal) -> None:
    """Print an optimization for a person, with what to do next."""
    short = proposal.id[:8]
    cost = "" if proposal.cost_usd is None else f", ${proposal.cost_usd:.4f}"
    facts = (
        ("Proposal", f"{short} ({proposal.method})"),
        ("Skill", f"{proposal.skill}{f', {proposal.artifact}' if proposal.artifact else ''}"),
        ("State", proposal.state),
        ("Used", f"{proposal.calls:,} model requests{cost}"),
        ("Created", format_time(proposal.created_at)),
        ("Approved", f"by {proposal.approver}, version {proposal.version}" if proposal.approved_at else ""),
    )
    print_facts(facts)
    if proposal.reason:
        print_wrapped(clean(proposal.reason), 0)
    if proposal.state == "proposed":
        click.echo(
            f"\n`prowess optimize diff {short}` shows the change; `prowess optimize approve {short}` applies it."
        )
    if proposal.state == "running":
        click.echo(_if_interrupted(short))


@optimize_command.subcommand("diff", "prowess optimize diff 3f2a", "prowess optimize diff 3f2a --json")
@click.argument("id")
@common_options
def diff(id: str, cli: Cli) -> None:
    """Show what a candidate changes: instructions, demos, phrases, before and after."""
    found = cli.call(lambda prowess: prowess.optimize.diff(id))
    cli.print(found, lambda: _print_diff(found))


def _print_diff(found: ProposalDiff) -> None:
    import json

    for name, part in found.parts.items():
        sections = {name: part} if "before" in part else {f"{name}: {key}": value for key, value in part.items()}
        for title, section in sections.items():
            click.echo(click.style(title.replace("_", " ").capitalize(), bold=True))
            for sign, when, colour in (("-", "before", "red"), ("+", "after", "green")):
                value = section[when]
                items = cast("list[Any]", value) if isinstance(value, list) else str(value).splitlines()
                for item in items:
                    text = item if isinstance(item, str) else json.dumps(item, ensure_ascii=False)
                    click.echo(click.style(f"  {sign} {clean(text)}", fg=colour))
    click.echo()
    click.echo(clean(found.files))


@optimize_command.subcommand(
    "approve", "prowess optimize approve 3f2a", 'prowess optimize approve 3f2a --note "read by Kim"'
)
@click.argument("id")
@click.option("--note", default="", help="Note to store with the new version.")
@token_option
@common_options
def approve(id: str, note: str, token_file: Path | None, cli: Cli) -> None:
    """Make a candidate the next version of its skill, and monitor its live runs.

    Shows the change and asks for confirmation at a terminal; without one, the approver token is required. If live runs get
    significantly worse, the previous version is restored.
    """
    proof = require_person("approve a candidate", token_file)

    async def read(prowess: Prowess) -> tuple[Proposal, ProposalDiff]:
        return await prowess.optimize.get(id), await prowess.optimize.diff(id)

    found, change = cli.call(read, channel=proof.channel)
    if proof is TYPED and found.state in ("proposed", "approved"):
        _print(found)
        _print_diff(change)
        if not click.confirm(f"Make this the next version of {found.skill}?", default=False):
            click.echo("Not approved. Nothing changed.")
            raise click.exceptions.Exit(1)
    done = cli.call(
        lambda prowess: prowess.optimize.approve(found.id, digest=found.candidate_digest, note=note),
        channel=proof.channel,
    )
    if cli.as_json:
        print_json(done)
        return
    watched = " Prowess monitors its live runs." if done.state == "watching" else ""
    click.echo(f"Version {done.version} of {done.skill} is current.{watched}")


@optimize_command.subcommand("reject", "prowess optimize reject 3f2a", 'prowess optimize reject 3f2a --note "too long"')
@click.argument("id")
@click.option("--note", default="", help="Reason to store.")
@common_options
def reject(id: str, note: str, cli: Cli) -> None:
    """Reject a proposal. The skill stays as it is."""
    _report(lambda prowess: prowess.optimize.reject(id, note=note), "Rejected", cli)


@optimize_command.subcommand("cancel", "prowess optimize cancel 3f2a", "prowess optimize cancel 3f2a --json")
@click.argument("id")
@common_options
def cancel(id: str, cli: Cli) -> None:
    """End the search of a running optimization, and test the best candidate so far."""
    _report(lambda prowess: prowess.optimize.cancel(id), "Stopping", cli)


def _report(work: Callable[[Prowess], Any], word: str, cli: Cli) -> None:
    done: Proposal = cli.call(work)
    cli.print(done, f"{word}: {done.method} of {done.skill} ({done.id[:8]}).")


@optimize_command.subcommand("refresh", "prowess optimize refresh", "prowess optimize refresh --json")
@common_options
def refresh(cli: Cli) -> None:
    """Optimize every DSPy module again whose state was made with another version of DSPy. The results are proposals."""
    with _shown_progress() as show:
        done = cli.call(lambda prowess: prowess.optimize.refresh(on_progress=show))
    if cli.as_json:
        print_json(done)
        return
    for proposal in done:
        _print(proposal)
    if not done:
        click.echo("All modules were made with the installed version of DSPy, or were tried already.")
