"""`prowess jobs` and `prowess worker`: list, show, cancel and retry durable jobs, and do them."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, cast

import click

from prowess.interfaces.cli.approval_card import format_time
from prowess.interfaces.cli.engine import common_options, with_engine
from prowess.interfaces.cli.options import command, delegate_to_subcommand, group
from prowess.interfaces.cli.output import one_line, print_json, print_table

if TYPE_CHECKING:
    from prowess.jobs.job import Job
    from prowess.open import Prowess

STATES = ("queued", "running", "waiting", "succeeded", "failed", "stopped", "cancelled")


@group(
    "jobs",
    "prowess jobs",
    "prowess jobs show nightly",
    "prowess jobs retry nightly --max-spend 5",
    invoke_without_command=True,
)
@click.option("--state", "states", multiple=True, type=click.Choice(STATES), help="Only in this state (repeatable).")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, metavar="N", help="How many to show (default: 50).")
@common_options
@click.pass_context
def jobs_command(ctx: click.Context, states: tuple[str, ...], limit: int, workspace: str | None, as_json: bool) -> None:
    """List durable runs and batches, newest first, or show, cancel or retry one."""
    if delegate_to_subcommand(ctx, workspace, as_json=as_json):
        return
    _list(states, limit, workspace, as_json=as_json)


@jobs_command.command("list", examples=("prowess jobs list", "prowess jobs list --state failed --json"))
@click.option("--state", "states", multiple=True, type=click.Choice(STATES), help="Only in this state (repeatable).")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, metavar="N", help="How many to show (default: 50).")
@common_options
def list_jobs(states: tuple[str, ...], limit: int, workspace: str | None, as_json: bool) -> None:
    """List jobs, newest first."""
    _list(states, limit, workspace, as_json=as_json)


def _list(states: tuple[str, ...], limit: int, workspace: str | None, *, as_json: bool) -> None:
    found = with_engine(workspace, lambda prowess: prowess.jobs.list(states=cast("Any", states), limit=limit))
    if as_json:
        print_json(found)
        return
    if not found:
        click.echo("No jobs. `prowess run SLUG --durable` or `--batch FILE` starts one.")
        return
    rows = [
        (
            one_line(job.name, 40),
            job.kind,
            one_line(job.skill, 40),
            job.state,
            f"{job.done + job.failed}/{job.total}",
            format_time(job.created_at)[:16],
        )
        for job in found
    ]
    print_table(("name", "kind", "skill", "state", "done", "created"), rows, flexible=2)
    if any(job.is_open and not job.workers for job in found):
        click.echo("\nNo worker is running. Start one with `prowess worker`.")


@jobs_command.command("show", examples=("prowess jobs show nightly", "prowess jobs show nightly --results out.jsonl"))
@click.argument("job")
@click.option(
    "--results",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the results of a batch to this file, one JSON object per line.",
)
@common_options
def show(job: str, results: Path | None, workspace: str | None, as_json: bool) -> None:
    """Show one job. JOB is its name, its id, or the first four or more characters of its id."""
    from prowess.interfaces.cli.job_runs import write_results

    async def read(prowess: Prowess) -> Job:
        found = await prowess.jobs.get(job)
        if results is not None:
            await write_results(prowess.jobs.all_results(found.id), results)
        return found

    found = with_engine(workspace, read)
    if as_json:
        print_json(found)
        return
    print_job(found)


def print_job(job: Job) -> None:
    """Print a job for a person, with what to do next."""
    unit = {"batch": "items", "run": "artifacts", "task": "steps"}[job.kind]
    facts = [
        ("Job", f"{job.name} ({job.id})"),
        ("Skill", job.skill),
        ("State", job.state + (f", attempt {job.attempt}" if job.attempt > 1 else "")),
        ("Done", f"{job.done:,} of {job.total:,} {unit}" + (f", {job.failed:,} failed" if job.failed else "")),
        ("Cost", "" if job.cost_usd is None else f"${job.cost_usd:.4f}"),
        ("Created", format_time(job.created_at)),
        ("Ended", format_time(job.finished_at) if job.finished_at else ""),
        ("Results", f"prowess jobs show {quote(job.name)} --results FILE" if job.kind == "batch" else ""),
        ("Error", f"{job.error.message} {job.error.hint}" if job.error else ""),
        ("Approval", f"prowess approvals approve {job.approval_id[:8]}" if job.approval_id else ""),
    ]
    for label, text in facts:
        if text:
            click.echo(f"{click.style(label.ljust(10), bold=True)}{one_line(text)}")
    if job.is_open and not job.workers:
        click.echo(f"\nNo worker is running. Go on here with `prowess jobs retry {job.name}`, or run `prowess worker`.")


@jobs_command.command("cancel", examples=("prowess jobs cancel nightly", "prowess jobs cancel 3f2a --json"))
@click.argument("job")
@common_options
def cancel(job: str, workspace: str | None, as_json: bool) -> None:
    """Cancel a job. Results so far are kept."""
    ended = with_engine(workspace, lambda prowess: prowess.jobs.cancel(job))
    if as_json:
        print_json(ended)
        return
    click.echo(f"Cancelled {ended.name}: {ended.done:,} of {ended.total:,} done.")


@jobs_command.command("retry", examples=("prowess jobs retry nightly", "prowess jobs retry nightly --max-spend 5"))
@click.argument("job")
@click.option("--concurrency", type=click.IntRange(1, 256), metavar="N", help="Items at once on each worker.")
@click.option(
    "--max-spend", type=click.FloatRange(min=0, min_open=True), metavar="USD", help="New spending limit of a batch."
)
@click.option(
    "--out",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the results of a batch to this file (default: stdout).",
)
@common_options
def retry(
    job: str,
    concurrency: int | None,
    max_spend: float | None,
    out: Path | None,
    workspace: str | None,
    as_json: bool,
) -> None:
    """Go on with a job that failed, stopped, was cancelled or interrupted, and wait for it.

    What succeeded is kept: a run goes on with the artifact that failed, a batch with the items that have no result or
    failed.
    """
    from prowess.interfaces.cli.job_runs import follow_job

    follow_job(
        lambda prowess: prowess.jobs.retry(job, concurrency=concurrency, max_spend=max_spend),
        workspace=workspace,
        as_json=as_json,
        out=out,
    )


@command("worker", "prowess worker", "prowess worker --workspace ~/notes")
@click.option("--workspace", "-w", metavar="DIR", help="Workspace folder (default: here).")
def worker_command(workspace: str | None) -> None:
    """Do durable jobs until it is stopped, and take over those of workers that died.

    Any number of workers can share a PostgreSQL database. They do jobs whose skills are in that database; those of a
    workspace are done by workers of the same workspace on the same machine.
    """

    async def work(prowess: Prowess) -> None:
        import asyncio

        await prowess.jobs.work(scheduled=True)
        click.echo("Waiting for jobs. Press Ctrl+C to stop.", err=True)
        await asyncio.Event().wait()

    with_engine(workspace, work, channel="worker")
