"""`prowess jobs` and `prowess worker`: list, show, cancel and retry durable jobs, and do them."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, cast

import click

from prowess.interfaces.cli.approval_card import format_time
from prowess.interfaces.cli.engine import Cli, common_options, workspace_option
from prowess.interfaces.cli.job_runs import follow_job, write_results
from prowess.interfaces.cli.options import Number, command, group
from prowess.interfaces.cli.output import one_line, print_facts

if TYPE_CHECKING:
    from prowess.jobs.job import Job
    from prowess.open import Prowess

STATES = ("queued", "running", "waiting", "succeeded", "failed", "stopped", "cancelled")

_state_option = click.option(
    "--state", "states", multiple=True, type=click.Choice(STATES), help="Only in this state (repeatable)."
)
_limit_option = click.option(
    "--limit", type=click.IntRange(1, 1000), default=50, metavar="N", help="Maximum number to show (default: 50)."
)


@group(
    "jobs",
    "prowess jobs",
    "prowess jobs show nightly",
    "prowess jobs retry nightly --max-spend 5",
    default="list",
)
@_state_option
@_limit_option
def jobs_command() -> None:
    """List durable runs and batches, newest first, or show, cancel or retry one."""


@jobs_command.subcommand("list", "prowess jobs list", "prowess jobs list --state failed --json")
@_state_option
@_limit_option
@common_options
def list_jobs(states: tuple[str, ...], limit: int, cli: Cli) -> None:
    """List jobs, newest first."""
    found = cli.call(lambda prowess: prowess.jobs.list(states=cast("Any", states), limit=limit))
    has_table = cli.print_table(
        found,
        ("name", "kind", "skill", "state", "done", "created"),
        lambda job: (
            one_line(job.name, 40),
            job.kind,
            one_line(job.skill, 40),
            job.state,
            f"{job.done + job.failed}/{job.total}",
            format_time(job.created_at)[:16],
        ),
        flexible=2,
        empty="No jobs. `prowess run SLUG --durable` or `--batch FILE` starts one.",
    )
    if has_table and any(job.is_open and not job.workers for job in found):
        click.echo("\nNo worker is running. Start one with `prowess worker`.")


@jobs_command.subcommand("show", "prowess jobs show nightly", "prowess jobs show nightly --results out.jsonl")
@click.argument("job")
@click.option(
    "--results",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the results of a batch to this file, one JSON object per line.",
)
@common_options
def show(job: str, results: Path | None, cli: Cli) -> None:
    """Show one job. JOB is its name, its id, or the first four or more characters of its id."""

    async def read(prowess: Prowess) -> Job:
        found = await prowess.jobs.get(job)
        if results is not None:
            await write_results(prowess.jobs.all_results(found.id), results)
        return found

    found = cli.call(read)
    cli.print(found, lambda: _print_job(found))


def _print_job(job: Job) -> None:
    """Print a job for a person, with what to do next."""
    unit = {"batch": "items", "run": "artifacts", "task": "steps"}[job.kind]
    facts = (
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
    )
    print_facts(facts)
    if job.is_open and not job.workers:
        click.echo(
            f"\nNo worker is running. Continue here with `prowess jobs retry {job.name}`, or run `prowess worker`."
        )


@jobs_command.subcommand("cancel", "prowess jobs cancel nightly", "prowess jobs cancel 3f2a --json")
@click.argument("job")
@common_options
def cancel(job: str, cli: Cli) -> None:
    """Cancel a job. Results so far are kept."""
    ended = cli.call(lambda prowess: prowess.jobs.cancel(job))
    cli.print(ended, f"Cancelled {ended.name}: {ended.done:,} of {ended.total:,} done.")


@jobs_command.subcommand("retry", "prowess jobs retry nightly", "prowess jobs retry nightly --max-spend 5")
@click.argument("job")
@click.option(
    "--concurrency", type=click.IntRange(1, 256), metavar="N", help="Items to run in parallel on each worker."
)
@click.option("--max-spend", type=Number(min=0, min_open=True), metavar="USD", help="New spending limit for a batch.")
@click.option(
    "--out",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the results of a batch to this file (default: stdout).",
)
@common_options
def retry(job: str, concurrency: int | None, max_spend: float | None, out: Path | None, cli: Cli) -> None:
    """Continue a job that failed, stopped, was cancelled or interrupted, and wait for it.

    Results are kept: a run continues with the artifact that failed, a batch with the items that failed or have no result.
    """
    follow_job(
        lambda prowess: prowess.jobs.retry(job, concurrency=concurrency, max_spend=max_spend),
        cli,
        out=out,
    )


@command("worker", "prowess worker", "prowess worker --workspace ~/notes")
@workspace_option
def worker_command(cli: Cli) -> None:
    """Run durable jobs until stopped, and take over the jobs of workers that died.

    Any number of workers can share a PostgreSQL database. They run jobs whose skills are in that database. Jobs of a
    workspace run on workers of the same workspace on the same machine.
    """

    async def work(prowess: Prowess) -> None:
        import asyncio

        await prowess.jobs.work(scheduled=True)
        click.echo("Waiting for jobs. Press Ctrl+C to stop.", err=True)
        await asyncio.Event().wait()

    cli.call(work, channel="worker")
