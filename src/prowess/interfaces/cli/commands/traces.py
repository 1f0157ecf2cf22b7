"""`prowess traces`: list, show, follow and export the traces of runs."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing, contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any, TypeVar

import click

from prowess.errors import Invalid, NotFound
from prowess.interfaces.cli.approval_card import format_time
from prowess.interfaces.cli.engine import Cli, common_options
from prowess.interfaces.cli.options import Number, Period, group, limit_option
from prowess.interfaces.cli.output import (
    MISSING,
    clean,
    escape_path,
    format_cost,
    format_count,
    format_duration,
    one_line,
    print_json_line,
)
from prowess.interfaces.cli.run_attempt import resume_command
from prowess.interfaces.cli.run_output import format_touched
from prowess.view import to_json, trace_json

if TYPE_CHECKING:
    from prowess.open import Prowess
    from prowess.storage.traces import Trace
    from prowess.traces.export import ExportFormat


WriteLine = Callable[[Any], None]


@contextmanager
def open_line_writer(path: Path | None) -> Generator[WriteLine]:
    """Yield a function that writes a value as one line of JSON, to the file or to stdout without `path`.

    The file is readable by its owner only, and replaced in one step: if the block raises, it stays as it was. Raise
    `NotFound` if its folder does not exist, and `Invalid` if the path is a folder.
    """
    if path is None:
        yield print_json_line
        return
    from prowess.storage.files.atomic_write import refuse_link

    refuse_link(path)
    if not path.parent.is_dir():
        raise NotFound(
            f"Folder {escape_path(path.parent)} not found.",
            hint="Create it first.",
        )
    if path.is_dir():
        raise Invalid(f"{escape_path(path)} is a folder.", hint="Give the path of a file.")
    # The temporary file must be in the same folder, because a rename is atomic only within one file system.
    with NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, prefix=".prowess-tmp-", delete=False) as file:
        try:
            yield lambda value: print(json.dumps(value, ensure_ascii=True), file=file)
            file.flush()
            os.fsync(file.fileno())  # before the rename, or a power failure may leave an empty file
            Path(file.name).replace(path)
        except BaseException:  # also after Ctrl-C
            Path(file.name).unlink(missing_ok=True)
            raise


SHORT_ID_CHARS = 8
MAX_TEXT_CHARS = 20_000
"""The most characters of an input, output or detail that are shown."""

_STATUS_COLOURS = {"ok": "green", "running": "yellow"}


def _trace_cells(trace: Trace) -> tuple[str, ...]:
    return (
        trace.id[:SHORT_ID_CHARS],
        format_time(trace.started_at),
        one_line(trace.skill_slug, 32),
        one_line(trace.artifact_name, 24),
        trace.status,
        one_line(trace.model_id or MISSING, 40),
        _format_tokens(trace),
        format_cost(trace.estimated_cost),
        format_duration(trace.duration_ms),
        f"{trace.assertions_passed}/{trace.assertions_run}" if trace.assertions_run else MISSING,
    )


def _format_tokens(trace: Trace) -> str:
    """Format the numbers of input and output tokens."""
    if trace.input_tokens is None and trace.output_tokens is None:
        return MISSING
    return f"{format_count(trace.input_tokens)} in, {format_count(trace.output_tokens)} out"


def _print_trace(trace: Trace, *, resumable: bool = False) -> None:
    """Print everything in a trace: facts, assertions, inputs and output, and how to resume the run if it can be."""
    facts = _trace_facts(trace)
    if resumable:
        facts["resume"] = resume_command(trace.skill_slug, trace.id)
    for name, value in facts.items():
        if value and value != MISSING:
            click.echo(f"{click.style(name.ljust(12), bold=True)}{value}")
    for verdict in trace.verdicts:
        _print_verdict(verdict)
    for line in format_touched(trace.detail.get("receipt", {})):
        what, _, rest = line.partition(": ")
        click.echo(f"{click.style(what.ljust(12), bold=True)}{rest}")
    texts = {
        "Inputs": json.dumps(trace.inputs, ensure_ascii=False, indent=2) if trace.inputs else "",
        "Sent": trace.rendered_input or "",
        "Output": trace.raw_output or "",
        "Detail": json.dumps(trace.detail, ensure_ascii=False, indent=2) if trace.detail else "",
    }
    for title, text in texts.items():
        if text:
            click.secho(f"\n{title}", bold=True)
            click.echo(clean(text[:MAX_TEXT_CHARS]).rstrip("\n"))
            if len(text) > MAX_TEXT_CHARS:
                click.echo(f"… and {len(text) - MAX_TEXT_CHARS:,} more characters; --json has all")


def _trace_facts(trace: Trace) -> dict[str, str]:
    error = f"{trace.error or ''} [{trace.error_code}]" if trace.error_code else trace.error or ""
    facts = {
        "trace": trace.id,
        "run": trace.run_id,
        "skill": f"{trace.skill_slug} ({trace.skill_digest[:12]})" if trace.skill_digest else trace.skill_slug,
        "artifact": f"{trace.artifact_name} ({trace.artifact_kind})",
        "fallback of": trace.fallback_of or "",
        "by": trace.actor,
        "session": trace.session_id,
        "started": format_time(trace.started_at),
        "duration": format_duration(trace.duration_ms),
        "model": trace.model_id or "",
        "tokens": _format_tokens(trace),
        "cost": format_cost(trace.estimated_cost),
        "error": error.strip(),
    }
    status = click.style(trace.status, fg=_STATUS_COLOURS.get(trace.status, "red"))
    return {"status": status, **{name: one_line(value) for name, value in facts.items()}}


def _print_verdict(verdict: dict[str, Any]) -> None:
    passed = bool(verdict.get("passed"))
    outcome = click.style("passed" if passed else "failed", fg="green" if passed else "red")
    about = one_line(str(verdict.get("description") or verdict.get("type", "")), 120)
    why = one_line(str(verdict.get("explanation", "")), 200)
    soft = " (soft)" if verdict.get("severity") == "soft" else ""
    click.echo(f"{click.style('check'.ljust(12), bold=True)}{outcome}: {about}{soft}{f': {why}' if why else ''}")


F = TypeVar("F", bound=Callable[..., Any])

TRACE_STATUSES = ("running", "ok", "failed", "refused", "unavailable", "timed_out", "cancelled", "interrupted")
EXPORT_FORMATS = ("jsonl", "dspy")


def _filter_options(function: F) -> F:
    """Add `--skill`, `--artifact` and `--status`."""
    for option in (
        click.option("--status", type=click.Choice(TRACE_STATUSES), default=None, help="Only runs with this status."),
        click.option("--artifact", default="", metavar="NAME", help="Only runs of this artifact."),
        click.option("--skill", default="", metavar="SLUG", help="Only runs of this skill."),
    ):
        function = option(function)
    return function


_since_option = click.option(
    "--since", type=Period(), metavar="PERIOD", help="Only runs of this period, for example 7d or 12h."
)


@group("traces", "prowess traces", "prowess traces show 3f2a", "prowess traces tail", default="list")
def traces_command() -> None:
    """List, show, follow and export the traces of runs.

    Every run of an artifact is recorded, whether it succeeds or fails.
    """


@traces_command.subcommand(
    "list", "prowess traces list --skill my-skill", "prowess traces list --status failed --since 7d"
)
@_filter_options
@click.option("--session", default="", metavar="ID", help="Only runs in this conversation.")
@click.option("--run", default="", metavar="ID", help="Only artifacts of this run.")
@_since_option
@limit_option("traces")
@common_options
def list_traces(
    skill: str, artifact: str, status: str | None, session: str, run: str, since: float | None, limit: int, cli: Cli
) -> None:
    """List the latest runs, newest first."""
    found = cli.call(
        lambda prowess: prowess.traces.list(
            skill=skill, artifact=artifact, status=status or "", session=session, run=run, days=since, limit=limit
        ),
        quick=True,
    )
    is_filtered = any((skill, artifact, status, session, run, since))
    has_table = cli.print_table(
        found,
        ("id", "when", "skill", "artifact", "status", "model", "tokens", "cost", "time", "checks"),
        _trace_cells,
        flexible=5,
        optional=("tokens", "model", "checks", "cost", "artifact"),
        empty="No matching runs." if is_filtered else "No runs yet. `prowess run SLUG` runs a skill.",
        view=trace_json,
    )
    if has_table and len(found) == limit:
        click.echo(f"These are the newest {limit:,}. `--limit N` lists more.", err=True)


@traces_command.subcommand("show", "prowess traces show 3f2a", "prowess traces show 3f2a --json")
@click.argument("id")
@common_options
def show_trace(id: str, cli: Cli) -> None:
    """Show one run in full: its inputs, its output and the result of each assertion.

    ID is the id of the trace, or its first four or more characters.
    """

    async def work(prowess: Prowess) -> tuple[Trace, bool]:
        found = await prowess.traces.get(id)
        is_interrupted = found.status not in ("ok", "running")
        return found, is_interrupted and await prowess.runs.can_resume(found.id)

    trace, resumable = cli.call(work)
    cli.print({**to_json(trace), "resumable": resumable}, lambda: _print_trace(trace, resumable=resumable))


@traces_command.subcommand("tail", "prowess traces tail", "prowess traces tail --status failed --json")
@_filter_options
@click.option("--session", default="", metavar="ID", help="Only runs in this conversation.")
@click.option(
    "--every",
    type=Number(0.05, 3600),
    default=1.0,
    metavar="SECONDS",
    show_default=True,
    help="Polling interval.",
)
@common_options
def follow_traces(skill: str, artifact: str, status: str | None, session: str, every: float, cli: Cli) -> None:
    """Print every run when it ends, in this and other processes, until interrupted.

    With --json, prints one JSON object per line.
    """
    import asyncio

    async def follow(prowess: Prowess) -> None:
        found = prowess.traces.follow(
            skill=skill,
            artifact=artifact,
            status=status or "",
            session=session,
            pause=lambda: asyncio.sleep(every),
        )
        await _print_followed(found, cli)

    if not cli.as_json:
        click.echo("Waiting for runs. Press Ctrl-C to stop.", err=True)
    try:
        cli.call(follow)
    except KeyboardInterrupt:
        raise click.exceptions.Exit(130) from None


async def _print_followed(traces: AsyncGenerator[Trace], cli: Cli) -> None:
    async with aclosing(traces):
        async for trace in traces:
            if cli.as_json:
                print_json_line(trace_json(trace))
            else:
                click.echo("  ".join(cell for cell in _trace_cells(trace) if cell != MISSING))


@traces_command.subcommand(
    "export", "prowess traces export --out traces.jsonl", "prowess traces export --format dspy --skill my-skill"
)
@click.option(
    "--format",
    type=click.Choice(EXPORT_FORMATS),
    default="jsonl",
    show_default=True,
    help="All columns of each trace, or examples for DSPy.",
)
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write to this file, atomically.")
@_filter_options
@_since_option
@common_options
def export_traces(
    format: ExportFormat, out: Path | None, skill: str, artifact: str, status: str | None, since: float | None, cli: Cli
) -> None:
    """Export runs as JSON lines, oldest first.

    The format `dspy` is an evaluation data set: the inputs, the output, and whether each assertion passed.
    """

    async def work(prowess: Prowess) -> int:
        written = 0
        with open_line_writer(out) as write:
            rows = prowess.traces.export(format, skill=skill, artifact=artifact, status=status or "", days=since)
            async with aclosing(rows):
                async for row in rows:
                    write(row)
                    written += 1
        return written

    written = cli.call(work)
    if out is None:
        return
    cli.print(
        {"path": str(out), "format": format, "rows": written},
        f"Wrote {written:,} line{'s' * (written != 1)} to {escape_path(out)}.",
    )
