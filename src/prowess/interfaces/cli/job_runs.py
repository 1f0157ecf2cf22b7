"""Run skills as jobs from the command line: durable runs and batches, with their progress and results."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar, cast

import click

from prowess.errors import Invalid, NotFound, ProwessError
from prowess.interfaces.cli.approval_card import ask_for_approval
from prowess.interfaces.cli.engine import Cli, progress_bar
from prowess.interfaces.cli.output import escape_path, print_json, print_json_line
from prowess.interfaces.cli.person import at_terminal
from prowess.interfaces.cli.run_attempt import read_inputs
from prowess.interfaces.cli.server import chosen_server
from prowess.lazy_dataclass import dataclass
from prowess.paths import expand_user
from prowess.skill.json_values import parse_json

if TYPE_CHECKING:
    from prowess.jobs.job import Job
    from prowess.open import Prowess
    from prowess.run.request import RunRequest
    from prowess.skill.model import Skill

T = TypeVar("T")

MAX_LINE_CHARS = 4_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """The options of `prowess run` that make it a job."""

    durable: bool = False
    batch: str = ""
    name: str = ""
    concurrency: int | None = None
    max_spend: float | None = None
    out: Path | None = None

    @property
    def is_job(self) -> bool:
        """True if the run is a job."""
        return self.durable or bool(self.batch)

    def check(self) -> None:
        """Raise click's `UsageError` for options that do not go together."""
        if not self.is_job and self.name:
            raise click.UsageError("--name requires --durable or --batch FILE.")
        if not self.batch and (self.concurrency is not None or self.max_spend is not None or self.out):
            raise click.UsageError("--concurrency, --max-spend and --out require --batch FILE.")


def run_job(request: RunRequest, words: Sequence[str], options: JobOptions, cli: Cli) -> None:
    """Run a skill as a job, show its progress and print its results. Raise the error of a job that failed."""
    items: list[dict[str, Any]] = []
    if options.batch:
        common = read_inputs(words)
        items = [{**common, **item} for item in read_items(options.batch)]
        request = replace(request, inputs=items[0] if items else {})
    else:

        def read(skill: Skill) -> Mapping[str, Any]:
            return read_inputs(words, skill.parameters)

        request = replace(request, inputs=read)
    request = ask_for_approval(
        cli,
        lambda: _prepare(request, cli),
        question="Run exactly these bytes?",
        refusal="Not run: you denied the request.",
    )

    async def start(prowess: Prowess) -> Job:
        if options.batch:
            from prowess.jobs.job import DEFAULT_CONCURRENCY

            concurrency = options.concurrency or DEFAULT_CONCURRENCY
            return await prowess.jobs.start_batch(
                request, items, name=options.name, concurrency=concurrency, max_spend=options.max_spend
            )
        return await prowess.jobs.start_run(request, name=options.name)

    follow_job(start, cli, out=options.out)


def _prepare(request: RunRequest, cli: Cli) -> RunRequest:
    """Return the request with its inputs. At a terminal, pass the gate first, so that the person is asked at once.

    Elsewhere the job itself waits for the approval.
    """

    async def prepare(prowess: Prowess) -> RunRequest:
        inputs = request.inputs
        if callable(inputs):
            inputs = inputs(await prowess.skills.get(request.slug))
        plain = replace(request, inputs=inputs)
        if chosen_server() is None and at_terminal():
            await prowess.runs.admit(plain)
        return plain

    return cli.call(prepare)


def follow_job(start: Callable[[Prowess], Any], cli: Cli, *, out: Path | None = None) -> None:
    """Start a job, do it in this process, show its progress and print what came out. Raise its error if it failed."""

    async def finish(prowess: Prowess, ended: Job) -> Job:
        if ended.kind == "batch":
            results = prowess.jobs.all_results(ended.id)
            if out is not None:
                await write_results(results, out)
            elif not cli.as_json:
                async for result in results:
                    print_json_line(result)
        return ended

    _report(watch_job(start, finish, cli), cli, out)


def watch_job(start: Callable[[Prowess], Any], finish: Callable[[Prowess, Job], Awaitable[T]], cli: Cli) -> T:
    """Start a job, do it in this process, show its progress, and return what `finish` makes of it when it has ended."""
    started: list[Job] = []

    async def work(prowess: Prowess) -> T:
        job: Job = await start(prowess)
        started.append(job)
        with _progress(job, cli) as show:
            ended = await prowess.jobs.wait(job.id, on_change=show)
        return await finish(prowess, ended)

    try:
        return cli.call(work)
    except (KeyboardInterrupt, click.exceptions.Exit):
        if started:
            click.echo(
                f"Finished work is kept. Continue with: prowess jobs retry {started[0].name}\n"
                f"Cancel it with: prowess jobs cancel {started[0].name}",
                err=True,
            )
        raise


@contextmanager
def _progress(job: Job, cli: Cli) -> Generator[Callable[[Job], None]]:
    """Yield a function that shows how far a job is, and once for each approval that it waits for one."""
    was_waiting = False
    if not cli.as_json:
        click.echo(f"Job {job.name}: {job.state}.", err=True)
    with progress_bar(job.name) as advance:

        def show(now: Job) -> None:
            nonlocal was_waiting
            is_waiting = now.state == "waiting"
            if is_waiting and not was_waiting:
                approval = (now.approval_id or "")[:8]
                click.echo(f"Waiting for an approval: prowess approvals approve {approval}", err=True)
            was_waiting = is_waiting
            advance(now.done + now.failed, now.total)

        yield show


def _report(job: Job, cli: Cli, out: Path | None) -> None:
    from prowess.run.decoding import decode_result, revive_error

    if job.kind == "batch":
        if cli.as_json:
            print_json(job)
        else:
            cost = "" if job.cost_usd is None else f", ${job.cost_usd:.4f}"
            where = f" Results: {escape_path(out)}." if out else ""
            click.echo(f"{job.done:,} of {job.total:,} items done, {job.failed:,} failed{cost}.{where}", err=True)
    elif job.kind == "task":
        print_json(job if cli.as_json else job.result)
    elif job.result is not None:
        from prowess.interfaces.cli.run_output import RunScreen

        result = decode_result(job.result, revive_error)
        if cli.as_json:
            print_json(result)
        with RunScreen(named=len(result.parts) != 1, quiet=cli.as_json) as screen:
            for part in result.parts:
                screen.part(part)
    raise_failure(job)


def raise_failure(job: Job) -> None:
    """Raise the error of a job that failed or was cancelled."""
    from prowess.run.decoding import revive_error

    if job.error is not None:
        raise revive_error({"code": job.error.code, "message": job.error.message, "hint": job.error.hint})
    if job.state == "cancelled":
        raise ProwessError("The job was cancelled.", hint=f"`prowess jobs retry {job.name}` starts it again.")


async def write_results(results: AsyncIterator[Mapping[str, Any]], out: Path) -> None:
    """Write results to a file, one JSON object per line. The file appears when it is complete."""
    part = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        with part.open("w", encoding="utf-8") as file:
            async for result in results:
                file.write(json.dumps(result, ensure_ascii=True) + "\n")
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)


def read_items(path: str) -> list[dict[str, Any]]:
    """Return the items of a file with one JSON object per line, or of stdin for `-`. Empty lines are ignored.

    Raise `Invalid` with the number of the line that is not one.
    """
    name = "stdin" if path == "-" else escape_path(path)
    try:
        with _open_items(path) as file:
            items = [_read_item(line, name, number) for number, line in enumerate(file, 1) if line.strip()]
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFound(f"File {name} not found.", hint="Give a file with one JSON object per line.") from error
    except IsADirectoryError as error:
        raise Invalid(f"{name} is a folder, not a file.", hint="Give a file with one JSON object per line.") from error
    if not items:
        raise Invalid(f"{name} has no items.", hint="Give one JSON object per line: the inputs of one run.")
    return items


def _open_items(path: str) -> IO[bytes]:
    import sys

    return sys.stdin.buffer if path == "-" else expand_user(path).open("rb")


def _read_item(line: bytes, name: str, number: int) -> dict[str, Any]:
    hint = "Each line is one JSON object: the inputs of one run."
    if len(line) > MAX_LINE_CHARS:
        raise Invalid(f"Line {number} of {name} is longer than {MAX_LINE_CHARS:,} bytes.", hint=hint)
    try:
        value = parse_json(line.decode("utf-8-sig" if number == 1 else "utf-8").strip())
    except (ValueError, RecursionError) as error:
        raise Invalid(f"Line {number} of {name} is not valid JSON: {error}.", hint=hint) from error
    if not isinstance(value, dict):
        raise Invalid(f"Line {number} of {name} is not a JSON object.", hint=hint)
    return cast("dict[str, Any]", value)
