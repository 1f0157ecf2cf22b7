"""`prowess eval run`, `resume`, `compare`, `report` and `list`: measure how good the answers with a skill are."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prowess.errors import Problem, RunFailed
from prowess.interfaces.cli.approval_card import ask_for_approval, format_time
from prowess.interfaces.cli.engine import common_options, progress_bar, with_engine
from prowess.interfaces.cli.error_output import EXIT_CODES, print_problems
from prowess.interfaces.cli.options import command
from prowess.interfaces.cli.output import (
    escape_path,
    format_cost,
    format_duration,
    one_line,
    print_json,
    print_table,
    print_wrapped,
)

if TYPE_CHECKING:
    from prowess.authoring.evals.case import EvalCase
    from prowess.authoring.evals.plan import EvalPlan
    from prowess.authoring.evals.results import CaseResult, EvalRun
    from prowess.authoring.task import ProgressListener, TaskProgress
    from prowess.jobs.job import Job
    from prowess.open import Prowess

    Report = Callable[[EvalRun, list[EvalCase]], None]


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
@click.option(
    "--timeout", type=click.FloatRange(0, 3600, min_open=True), metavar="SECONDS", help="Time for each answer."
)
@click.option("--concurrency", type=click.IntRange(1, 64), metavar="N", help="Answers at once (default: 4).")
@click.option(
    "--max-spend", type=click.FloatRange(min=0, min_open=True), metavar="USD", help="Stop before more is spent."
)
@click.option("--no-cache", "cache", flag_value=False, default=True, type=bool, help="Ask again for known results.")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="Write skill-creator's files here."
)
@click.option("--junit", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write JUnit XML here.")
@click.option(
    "--html", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write an HTML report here."
)
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
    workspace: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Run the eval cases of a skill and grade the answers.

    SLUG is an available skill. PATH is the folder of a skill, or an eval file. A case with a message is asked with the
    skill in the prompt; a case with inputs runs an artifact of the skill. Results are kept, so that nothing is asked twice.

    Exits with 0 if every case passes with the skill, 1 if some fail, and 8 if a model or a judge gave no result for some.
    """
    from prowess.authoring.evals.plan import EvalPlan

    if name and not durable:
        raise click.UsageError("--name is the name of a job. Add --durable.")
    # A worker may run in another folder.
    path = Path(target).expanduser()
    is_path = "/" in target or target.startswith((".", "~"))
    plan = EvalPlan(target=str(path.absolute()) if is_path else target, **options)

    def report(run: EvalRun, known: list[EvalCase]) -> None:
        _write_files(run, known, out=out, junit=junit, html=html)
        _show_run(run, as_json=as_json)

    work = _run_as_job if durable else _run_here
    run = ask_for_approval(
        lambda: work(plan, name, workspace, report, quiet=as_json),
        workspace=workspace,
        question="Evaluate exactly these bytes?",
        as_json=as_json,
        refusal="Not evaluated: you denied the request.",
    )
    _exit(run)


@command("resume", "prowess eval resume 3f2a", "prowess eval resume 3f2a --json")
@click.argument("run_id", metavar="RUN")
@common_options
def resume(run_id: str, workspace: str | None, as_json: bool) -> None:
    """Go on with an evaluation that was interrupted. Results that it has are kept.

    RUN is the id of an evaluation, or the beginning of one. Exits like `prowess eval run`.
    """

    async def work(prowess: Prowess) -> EvalRun:
        with _progress(quiet=as_json) as hear:
            run = await prowess.evals.resume(run_id, on_progress=hear)
        _show_run(run, as_json=as_json)
        return run

    _exit(with_engine(workspace, work))


@contextmanager
def _progress(*, quiet: bool) -> Generator[ProgressListener]:
    """Show the progress of an evaluation as a bar."""
    from prowess.catalog.importer import Progress, ignore_progress

    with progress_bar("Evaluating") as advance:
        show = ignore_progress if quiet else advance

        def hear(progress: TaskProgress) -> None:
            show(Progress(done=progress.done + progress.failed, total=progress.total))

        yield hear


def _show_run(run: EvalRun, *, as_json: bool) -> None:
    if as_json:
        print_json(run)
    else:
        _print_run(run)


def _run_here(plan: EvalPlan, _: str, workspace: str | None, report: Report, *, quiet: bool) -> EvalRun:
    async def work(prowess: Prowess) -> EvalRun:
        known = await prowess.evals.cases(plan)
        with _progress(quiet=quiet) as hear:
            run = await prowess.evals.run(plan, on_progress=hear)
        # Before the engine is closed, which fails if a scripted model has steps left.
        report(run, known)
        return run

    return with_engine(workspace, work)


def _run_as_job(plan: EvalPlan, name: str, workspace: str | None, report: Report, *, quiet: bool) -> EvalRun:
    from prowess.interfaces.cli.job_runs import raise_failure, watch_job

    async def start(prowess: Prowess) -> Job:
        await prowess.evals.cases(plan)  # what cannot be read is said now, not by the job
        skill = "" if "/" in plan.target else plan.target
        return await prowess.jobs.start_task("eval", plan.model_dump(mode="json"), skill=skill, name=name)

    async def finish(prowess: Prowess, job: Job) -> tuple[EvalRun, list[EvalCase]]:
        raise_failure(job)
        return await prowess.evals.get((job.result or {})["run"]), await prowess.evals.cases(plan)

    run, known = watch_job(start, finish, workspace=workspace, quiet=quiet)
    report(run, known)
    return run


def _exit(run: EvalRun) -> None:
    wrong = [one.passed for one in run.results if run.arms[one.arm].kind == "skill" and not one.passed]
    if wrong:
        raise click.exceptions.Exit(EXIT_CODES[RunFailed] if None in wrong else 1)


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


@command("compare", "prowess eval compare 3f2a 9b1c", "prowess eval compare my-skill@3 my-skill@4")
@click.argument("before", metavar="RUN")
@click.argument("after", metavar="RUN")
@common_options
def compare(before: str, after: str, workspace: str | None, as_json: bool) -> None:
    """Compare two runs on the cases that both have.

    RUN is the id of a run or the first four or more characters of it, SLUG for the newest run of a skill, or SLUG@VERSION
    for the newest run of a version. Exits with 1 if the second is worse.
    """
    found = with_engine(workspace, lambda prowess: prowess.evals.compare(before, after))
    if as_json:
        print_json(found)
    else:
        for side in ("before", "after"):
            run = found[side]
            click.echo(f"{side.capitalize():7} {run['skill']} {run['digest'][:12]}, run {run['id'][:8]}")
        _print_comparisons((f"after: {one['after']}", f"before: {one['before']}", one) for one in found["comparisons"])
    if any(one["verdict"] == "worse" for one in found["comparisons"]):
        raise click.exceptions.Exit(1)


@command("report", "prowess eval report 3f2a", "prowess eval report my-skill --html report.html")
@click.argument("run", metavar="RUN")
@click.option(
    "--html", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write an HTML report here."
)
@click.option("--junit", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write JUnit XML here.")
@common_options
def report(run: str, html: Path | None, junit: Path | None, workspace: str | None, as_json: bool) -> None:
    """Show a run again, or write it as one HTML file that opens without a server.

    RUN is as in `prowess eval compare`.
    """
    found = with_engine(workspace, lambda prowess: prowess.evals.find(run))
    _write_files(found, [], out=None, junit=junit, html=html)
    if as_json:
        print_json(found)
    elif html is None and junit is None:
        _print_run(found)
    for path in (html, junit):
        if path is not None:
            click.echo(f"Wrote {escape_path(path)}.", err=True)


@command("list", "prowess eval list", "prowess eval list --skill my-skill --json")
@click.option("--skill", default="", metavar="SLUG", help="Only runs of this skill.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, metavar="N", help="How many to show (default: 50).")
@common_options
def list_runs(skill: str, limit: int, workspace: str | None, as_json: bool) -> None:
    """List evaluations, newest first."""
    found = with_engine(workspace, lambda prowess: prowess.evals.list(skill=skill, limit=limit))
    if as_json:
        print_json(found)
        return
    if not found:
        click.echo("No evaluations. `prowess eval run SLUG` makes one.")
        return
    rows = [
        (
            run.id[:8],
            one_line(run.skill, 40),
            run.digest[:12],
            run.state,
            _format_passed(run.done - run.failed - run.errors, run.total - run.errors, run.errors),
            format_cost(run.cost_usd),
            format_time(run.created_at)[:16],
        )
        for run in found
    ]
    print_table(("run", "skill", "version", "state", "passed", "cost", "created"), rows, flexible=1)
    if any(run.state == "interrupted" for run in found):
        click.echo("`prowess eval resume RUN` goes on with one that was interrupted.")


def _format_passed(passed: int, count: int, errors: int) -> str:
    # An error says nothing about the skill, so it counts neither as passed nor as failed.
    return f"{passed}/{count}" + (f" +{errors} error{'s' * (errors != 1)}" if errors else "")


_MAX_FAILED_CASES = 20
"""The most failed cases that are printed."""

_COLOURS = {"better": "green", "worse": "red"}


def _print_run(run: EvalRun) -> None:
    """Print the figures of a run, then what failed, then what to do next."""
    summary: dict[str, Any] = run.summary or {"arms": [], "comparisons": []}
    print_problems([Problem(**told) for told in summary.get("problems", ())], indent=0)
    rows = [
        (
            one_line(run.label(place), 60),
            _format_passed(one["passed"], one["passed"] + one["failed"], one["errors"]),
            _with_range(one["pass_rate"], percent=True),
            "-" if one["score"]["mean"] is None else f"{one['score']['mean']:.2f}",
            format_duration(None if one["seconds"]["mean"] is None else round(one["seconds"]["mean"] * 1000)),
            format_cost(one["total_cost_usd"]),
        )
        for place, one in enumerate(summary["arms"])
    ]
    print_table(("", "passed", "pass rate (95 %)", "score", "time", "cost"), rows, flexible=0)
    if summary["comparisons"]:
        click.echo("")
    _print_comparisons((run.label(one["after"]), run.label(one["before"]), one) for one in summary["comparisons"])
    wrong = [one for one in run.results if run.arms[one.arm].kind == "skill" and not one.passed]
    _print_failures(run, wrong)
    asked = sum(not one.cached for one in run.results)
    note = (
        ""
        if asked == len(run.results)
        else f" {len(run.results) - asked} of {len(run.results)} answers came from the cache."
    )
    click.echo(f"\nRun {run.id[:8]}.{note} See it with `prowess eval report {run.id[:8]} --html report.html`.")


def _print_comparisons(comparisons: Any) -> None:
    """Print the verdict of each comparison, given as the labels of after and before, and the figures."""
    for after, before, one in comparisons:
        verdict = click.style(one["verdict"], fg=_COLOURS.get(one["verdict"]), bold=True)
        score = one["score"]
        figures = "no case in common"
        if score["mean"] is not None:
            interval = "" if score["low"] is None else f" [{score['low']:+.2f}, {score['high']:+.2f}]"
            cases = f"{one['cases']} case{'s' if one['cases'] != 1 else ''}"
            figures = f"score {score['mean']:+.2f}{interval}, p {score['p']:.3f}, {cases}"
        click.echo(f"{one_line(after, 60)} against {one_line(before, 60)}: {verdict} ({figures})")


def _print_failures(run: EvalRun, wrong: Sequence[CaseResult]) -> None:
    several = sum(arm.kind == "skill" for arm in run.arms) > 1
    for one in wrong[:_MAX_FAILED_CASES]:
        mark = click.style("!", fg="yellow") if one.passed is None else click.style("✗", fg="red")
        where = f"  {run.arms[one.arm].model}" if several else ""
        again = f" #{one.repeat}" if one.repeat > 1 else ""
        click.echo(f"\n{mark} {click.style(one_line(one.title or one.case, 80) + again, bold=True)}{where}")
        if one.error:
            print_wrapped(one_line(one.error, 300), 4)
        for verdict in one.verdicts:
            if not verdict["passed"] and not verdict["error"]:
                # A check may be a sentence, with a full stop of its own.
                said = [verdict["description"].removesuffix("."), verdict["evidence"]]
                print_wrapped(one_line(": ".join(said) if verdict["evidence"] else verdict["description"], 300), 4)
    if len(wrong) > _MAX_FAILED_CASES:
        click.echo(f"\n… and {len(wrong) - _MAX_FAILED_CASES} more; --json lists them all.")


def _with_range(interval: dict[str, float | None], *, percent: bool) -> str:
    mean, low, high = interval["mean"], interval["low"], interval["high"]
    if mean is None:
        return "-"
    show = "{:.0%}" if percent else "{:.2f}"
    around = "" if low is None or high is None else f" ({show.format(low)}-{show.format(high)})"
    return f"{show.format(mean)}{around}"
