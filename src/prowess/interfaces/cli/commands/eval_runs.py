"""`prowess eval run`, `resume`, `compare`, `report` and `list`: measure how good the answers with a skill are."""

from __future__ import annotations

import uuid
from asyncio import CancelledError
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prowess.errors import Problem, RunFailed
from prowess.interfaces.cli.approval_card import ask_for_approval, format_time
from prowess.interfaces.cli.engine import Cli, common_options, progress_bar
from prowess.interfaces.cli.error_output import EXIT_CODES, print_problems
from prowess.interfaces.cli.job_runs import raise_failure, watch_job
from prowess.interfaces.cli.options import Number, command
from prowess.interfaces.cli.output import (
    escape_path,
    format_cost,
    format_duration,
    one_line,
    print_json,
    print_table,
    print_wrapped,
)
from prowess.paths import expand_user

if TYPE_CHECKING:
    from prowess.authoring.evals.case import EvalCase
    from prowess.authoring.evals.plan import EvalPlan
    from prowess.authoring.evals.results import CaseResult, EvalRun
    from prowess.authoring.task import ProgressListener, TaskProgress
    from prowess.jobs.job import Job
    from prowess.open import Prowess

    Report = Callable[[EvalRun, list[EvalCase]], None]


_FILE = click.Path(dir_okay=False, path_type=Path)
_JUNIT = click.option("--junit", type=_FILE, metavar="FILE", help="Write JUnit XML here.")
_HTML = click.option("--html", type=_FILE, metavar="FILE", help="Write an HTML report here.")


@command(
    "run",
    "prowess eval run my-skill",
    "prowess eval run my-skill --without --repeats 3 --model local:smollm2",
    "prowess eval run my-skill --against 4 --split held_out",
    "prowess eval run ./my-skill --junit report.xml --html report.html",
)
@click.argument("target", metavar="SLUG|PATH")
@click.option("--skill", default="", metavar="SLUG", help="Skill that an eval file is about.")
@click.option("--model", "-m", "models", multiple=True, metavar="MODEL", help="Model to ask (repeatable).")
@click.option("--evaluation-model", default="", metavar="MODEL", help="Model that judges answers.")
@click.option("--repeats", type=click.IntRange(1, 100), metavar="N", help="Ask each case N times.")
@click.option("--without", is_flag=True, help="Compare with the same model without the skill.")
@click.option("--against", default="", metavar="VERSION", help="Compare with this version: a number or a digest.")
@click.option("--split", type=click.Choice(["train", "validation", "held_out"]), help="Only the cases of this set.")
@click.option("--case", "cases", multiple=True, metavar="ID", help="Only this case (repeatable).")
@click.option("--timeout", type=Number(0, 3600, min_open=True), metavar="SECONDS", help="Time limit for each answer.")
@click.option(
    "--concurrency", type=click.IntRange(1, 64), metavar="N", help="Answers to request in parallel (default: 4)."
)
@click.option(
    "--max-spend",
    type=Number(min=0, min_open=True),
    metavar="USD",
    help="Stop before spending more than this.",
)
@click.option(
    "--no-cache",
    "cache",
    flag_value=False,
    default=True,
    type=bool,
    help="Ask the model again instead of using stored answers.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Also write the files of skill-creator to this folder.",
)
@_JUNIT
@_HTML
@click.option("--durable", is_flag=True, help="Run as a job that survives a crash.")
@click.option("--name", default="", metavar="NAME", help="Name of the job, with --durable.")
@common_options
def run_cases(
    target: str,
    out: Path | None,
    junit: Path | None,
    html: Path | None,
    durable: bool,
    name: str,
    cli: Cli,
    **options: Any,
) -> None:
    """Run the eval cases of a skill and grade the answers.

    SLUG is an available skill. PATH is the folder of a skill, or an eval file. A case with a message is asked with the
    skill in the prompt; a case with inputs runs an artifact of the skill. Results are kept, so no question is asked twice.

    Exits with 0 if every case passes with the skill, 1 if some fail, and 8 if a model or a judge gave no result for some.
    """
    from prowess.authoring.evals.plan import EvalPlan

    if name and not durable:
        raise click.UsageError("--name requires --durable.")
    # A worker may run in another folder.
    path = expand_user(target)
    is_path = "/" in target or target.startswith((".", "~"))
    plan = EvalPlan(target=str(path.absolute()) if is_path else target, **options)

    def report(run: EvalRun, known: list[EvalCase]) -> None:
        _write_files(run, known, out=out, junit=junit, html=html)
        cli.print(run, lambda: _print_run(run))

    work = _run_as_job if durable else _run_here
    run = ask_for_approval(
        cli,
        lambda: work(plan, name, cli, report),
        question="Evaluate exactly these bytes?",
        refusal="Not evaluated: you denied the request.",
    )
    _exit(run)


@command("resume", "prowess eval resume 3f2a", "prowess eval resume 3f2a --json")
@click.argument("run_id", metavar="RUN")
@common_options
def resume(run_id: str, cli: Cli) -> None:
    """Continue an evaluation that was interrupted. Its results so far are kept.

    RUN is the id of an evaluation, or the beginning of one. Exits like `prowess eval run`.
    """

    async def work(prowess: Prowess) -> EvalRun:
        with _progress(run_id, cli) as show:
            run = await prowess.evals.resume(run_id, on_progress=show)
        cli.print(run, lambda: _print_run(run))
        return run

    _exit(cli.call(work))


@contextmanager
def _progress(run_id: str, cli: Cli) -> Generator[ProgressListener]:
    """Show the progress of an evaluation as a bar, unless JSON is printed. If it is interrupted, print how to continue."""
    has_begun = False
    try:
        with progress_bar("Evaluating") as advance:

            def show(progress: TaskProgress) -> None:
                nonlocal has_begun
                has_begun = True
                if not cli.as_json:
                    advance(progress.done + progress.failed, progress.total)

            yield show
    except CancelledError:
        if has_begun:
            click.echo(f"Continue with: prowess eval resume {run_id[:8]}", err=True)
        raise


def _run_here(plan: EvalPlan, _: str, cli: Cli, report: Report) -> EvalRun:
    async def work(prowess: Prowess) -> EvalRun:
        known = await prowess.evals.cases(plan)
        run_id = str(uuid.uuid4())
        with _progress(run_id, cli) as show:
            run = await prowess.evals.run(plan, on_progress=show, run_id=run_id)
        # Before the engine is closed, which fails if a scripted model has steps left.
        report(run, known)
        return run

    return cli.call(work)


def _run_as_job(plan: EvalPlan, name: str, cli: Cli, report: Report) -> EvalRun:
    async def start(prowess: Prowess) -> Job:
        await prowess.evals.cases(plan)  # what cannot be read is said now, not by the job
        skill = "" if "/" in plan.target else plan.target
        return await prowess.jobs.start_task("eval", plan.model_dump(mode="json"), skill=skill, name=name)

    async def finish(prowess: Prowess, job: Job) -> tuple[EvalRun, list[EvalCase]]:
        raise_failure(job)
        return await prowess.evals.get((job.result or {})["run"]), await prowess.evals.cases(plan)

    run, known = watch_job(start, finish, cli)
    report(run, known)
    return run


def _exit(run: EvalRun) -> None:
    failures = _find_failures(run)
    if failures:
        raise click.exceptions.Exit(EXIT_CODES[RunFailed] if any(row.passed is None for row in failures) else 1)


def _write_files(
    run: EvalRun, cases: list[EvalCase], *, out: Path | None, junit: Path | None, html: Path | None
) -> None:
    if junit is not None or html is not None:
        from prowess.authoring.evals.report import html_report, junit_report

        if junit is not None:
            junit.write_bytes(junit_report(run))
        if html is not None:
            html.write_text(html_report(run), encoding="utf-8")
    if out is not None:
        from prowess.authoring.evals.run_tree import write_trees

        for folder in write_trees(run, cases, out):
            click.echo(f"Wrote {escape_path(folder)}.", err=True)


@command(
    "compare",
    "prowess eval compare",
    "prowess eval compare 3f2a 9b1c",
    "prowess eval compare my-skill@3 my-skill@4",
)
@click.argument("before", metavar="[RUN]", default="")
@click.argument("after", metavar="[RUN]", default="")
@common_options
def compare(before: str, after: str, cli: Cli) -> None:
    """Compare two runs on the cases that both have.

    RUN is the id of a run or the first four or more characters of it, SLUG for the newest run of a skill, or SLUG@VERSION
    for the newest run of a version. Without the second RUN, the newest of the same skill is compared with the first, or with
    the run before it; without any, the two newest of the skill that was run last. Exits with 1 if the second is worse.
    """
    found = cli.call(lambda prowess: prowess.evals.compare(before, after))
    if cli.as_json:
        print_json(found)
    else:
        for side in ("before", "after"):
            run = found[side]
            click.echo(f"{side.capitalize():7} {run['skill']} {run['digest'][:12]}, run {run['id'][:8]}")
        _print_comparisons((f"after: {row['after']}", f"before: {row['before']}", row) for row in found["comparisons"])
    if any(row["verdict"] == "worse" for row in found["comparisons"]):
        raise click.exceptions.Exit(1)


@command("report", "prowess eval report", "prowess eval report my-skill --html report.html")
@click.argument("run", metavar="[RUN]", default="")
@_HTML
@_JUNIT
@common_options
def report(run: str, html: Path | None, junit: Path | None, cli: Cli) -> None:
    """Show a run again, or write it as one HTML file that opens without a server.

    RUN is as in `prowess eval compare`, by default the newest.
    """
    found = cli.call(lambda prowess: prowess.evals.find(run))
    _write_files(found, [], out=None, junit=junit, html=html)
    if cli.as_json:
        print_json(found)
    elif html is None and junit is None:
        _print_run(found)
    for path in (html, junit):
        if path is not None:
            click.echo(f"Wrote {escape_path(path)}.", err=True)


@command("list", "prowess eval list", "prowess eval list --skill my-skill --json")
@click.option("--skill", default="", metavar="SLUG", help="Only runs of this skill.")
@click.option(
    "--limit", type=click.IntRange(1, 1000), default=50, metavar="N", help="Maximum number to show (default: 50)."
)
@common_options
def list_runs(skill: str, limit: int, cli: Cli) -> None:
    """List evaluations, newest first."""
    found = cli.call(lambda prowess: prowess.evals.list(skill=skill, limit=limit))
    has_table = cli.print_table(
        found,
        ("run", "skill", "version", "state", "passed", "cost", "created"),
        lambda run: (
            run.id[:8],
            one_line(run.skill, 40),
            run.digest[:12],
            run.state,
            _format_passed(run.done - run.failed - run.errors, run.total - run.errors, run.errors),
            format_cost(run.cost_usd),
            format_time(run.created_at)[:16],
        ),
        flexible=1,
        empty="No evaluations. `prowess eval run SLUG` starts one.",
    )
    unfinished = {run.state for run in found} & {"interrupted", "stopped"}
    if has_table and unfinished:
        click.echo(f"`prowess eval resume RUN` continues one that was {' or '.join(sorted(unfinished))}.")


def _format_passed(passed: int, count: int, errors: int) -> str:
    # An error says nothing about the skill, so it counts neither as passed nor as failed.
    return f"{passed}/{count}" + (f" +{errors} error{'s' * (errors != 1)}" if errors else "")


_MAX_FAILED_CASES = 20
"""The most failed cases that are printed."""

_COLOURS = {"better": "green", "worse": "red"}


def _print_run(run: EvalRun) -> None:
    """Print the figures of a run, then what failed, then what to do next."""
    summary: dict[str, Any] = run.summary or {"arms": [], "comparisons": []}
    print_problems([Problem(**fields) for fields in summary.get("problems", ())], indent=0)
    rows = [
        (
            one_line(run.label(index), 60),
            _format_passed(arm["passed"], arm["passed"] + arm["failed"], arm["errors"]),
            _format_rate(arm["pass_rate"]),
            "-" if arm["score"]["mean"] is None else f"{arm['score']['mean']:.2f}",
            format_duration(None if arm["seconds"]["mean"] is None else round(arm["seconds"]["mean"] * 1000)),
            format_cost(arm["total_cost_usd"]),
        )
        for index, arm in enumerate(summary["arms"])
    ]
    print_table(("", "passed", "pass rate (95 %)", "score", "time", "cost"), rows, flexible=0)
    if summary["comparisons"]:
        click.echo("")
    _print_comparisons((run.label(row["after"]), run.label(row["before"]), row) for row in summary["comparisons"])
    _print_failures(run)
    cached = sum(result.cached for result in run.results)
    note = f" {cached} of {len(run.results)} answers came from the cache." if cached else ""
    click.echo(f"\nRun {run.id[:8]}.{note} See it with `prowess eval report {run.id[:8]} --html report.html`.")


def _print_comparisons(comparisons: Any) -> None:
    """Print the verdict of each comparison, given as the labels of after and before, and the figures."""
    for after, before, row in comparisons:
        verdict = click.style(row["verdict"], fg=_COLOURS.get(row["verdict"]), bold=True)
        score = row["score"]
        figures = "no case in common"
        if score["mean"] is not None:
            interval = "" if score["low"] is None else f" [{score['low']:+.2f}, {score['high']:+.2f}]"
            cases = f"{row['cases']} case{'s' if row['cases'] != 1 else ''}"
            figures = f"score {score['mean']:+.2f}{interval}, p {score['p']:.3f}, {cases}"
        click.echo(f"{one_line(after, 60)} against {one_line(before, 60)}: {verdict} ({figures})")


def _find_failures(run: EvalRun) -> list[CaseResult]:
    """Return the results with the skill that did not pass, or for which there is no verdict."""
    return [result for result in run.results if run.arms[result.arm].kind == "skill" and not result.passed]


def _print_failures(run: EvalRun) -> None:
    failures = _find_failures(run)
    has_models = sum(arm.kind == "skill" for arm in run.arms) > 1
    for result in failures[:_MAX_FAILED_CASES]:
        mark = click.style("!", fg="yellow") if result.passed is None else click.style("✗", fg="red")
        model = f"  {run.arms[result.arm].model}" if has_models else ""
        repeat = f" #{result.repeat}" if result.repeat > 1 else ""
        named = f"{result.case}: {result.title}" if result.title not in ("", result.case) else result.case
        click.echo(f"\n{mark} {click.style(one_line(named, 100) + repeat, bold=True)}{model}")
        if result.error:
            print_wrapped(one_line(result.error, 300), 4)
        for verdict in result.verdicts:
            if not verdict["passed"] and not verdict["error"]:
                check, evidence = verdict["description"], verdict["evidence"]
                # A check may be a sentence, with a full stop of its own.
                print_wrapped(one_line(f"{check.removesuffix('.')}: {evidence}" if evidence else check, 300), 4)
    if len(failures) > _MAX_FAILED_CASES:
        click.echo(f"\n… and {len(failures) - _MAX_FAILED_CASES} more; --json lists them all.")


def _format_rate(interval: dict[str, float | None]) -> str:
    mean, low, high = interval["mean"], interval["low"], interval["high"]
    if mean is None:
        return "-"
    return f"{mean:.0%}" + ("" if low is None or high is None else f" ({low:.0%}-{high:.0%})")
