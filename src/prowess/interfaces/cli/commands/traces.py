"""`prowess traces`: what was run, and what came of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from prowess.interfaces.cli.groups import hand_down
from prowess.interfaces.cli.opening import common_options, with_engine
from prowess.interfaces.cli.periods import Period

if TYPE_CHECKING:
    from prowess.build.opening import Prowess
    from prowess.traces.export import ExportFormat
    from prowess.traces.trace import Trace

F = TypeVar("F", bound=Callable[..., Any])

STATUSES = ("running", "ok", "failed", "refused", "unavailable", "timed_out", "cancelled", "interrupted")
FORMATS = ("jsonl", "dspy")


def _filters(function: F) -> F:
    """`--skill`, `--artifact` and `--status`."""
    for option in (
        click.option("--status", type=click.Choice(STATUSES), default=None, help="Only runs that ended so."),
        click.option("--artifact", default="", metavar="NAME", help="Only runs of this artifact."),
        click.option("--skill", default="", metavar="SLUG", help="Only runs of this skill."),
    ):
        function = option(function)
    return function


_SINCE = click.option("--since", type=Period(), metavar="PERIOD", help="Only runs of the last time, such as 7d or 12h.")


@click.group("traces", invoke_without_command=True)
@common_options
@click.pass_context
def command(ctx: click.Context, workspace: str | None, as_json: bool) -> None:
    """Show what was run lately, and what came of it: every run of an artifact leaves a trace, however it ends."""
    if not hand_down(ctx, workspace, as_json=as_json):
        ctx.invoke(list_them, workspace=workspace, as_json=as_json)


@command.command("list")
@_filters
@click.option("--session", default="", metavar="ID", help="Only runs in the conversation of this id.")
@click.option("--run", default="", metavar="ID", help="Only the artifacts of this run.")
@_SINCE
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=50, metavar="N", show_default=True, help="The most runs."
)
@common_options
def list_them(
    skill: str,
    artifact: str,
    status: str | None,
    session: str,
    run: str,
    since: float | None,
    limit: int,
    workspace: str | None,
    as_json: bool,
) -> None:
    """List the runs that began last, the last first."""
    from prowess.interfaces.cli.printing import print_json
    from prowess.interfaces.cli.traces import as_brief, print_traces

    found = with_engine(
        workspace,
        lambda prowess: prowess.traces(
            skill=skill, artifact=artifact, status=status or "", session=session, run=run, days=since, limit=limit
        ),
    )
    if as_json:
        print_json([as_brief(trace) for trace in found])
    elif found:
        print_traces(found)
    elif any((skill, artifact, status, session, run, since)):
        click.echo("No run of the kind is on record.")
    else:
        click.echo("No run is on record. `prowess run SLUG` runs a skill.")


@command.command("show")
@click.argument("id")
@common_options
def show_one(id: str, workspace: str | None, as_json: bool) -> None:
    """Show one run with everything: what it was given, what it answered, and what each check said.

    ID is the id of its trace, or the first four or more characters of it.
    """
    from prowess.interfaces.cli.printing import print_json
    from prowess.interfaces.cli.traces import show_trace

    async def work(prowess: Prowess) -> tuple[Trace, bool]:
        found = await prowess.trace(id)
        over = found.status not in ("ok", "running")
        return found, over and await prowess.can_resume(found.id)

    trace, resumable = with_engine(workspace, work)
    if as_json:
        from dataclasses import asdict

        print_json({**asdict(trace), "resumable": resumable})
    else:
        show_trace(trace, resumable=resumable)


@command.command("tail")
@_filters
@click.option("--session", default="", metavar="ID", help="Only runs in the conversation of this id.")
@click.option(
    "--every",
    type=click.FloatRange(0.05, 3600),
    default=1.0,
    metavar="SECONDS",
    show_default=True,
    help="How often to look.",
)
@common_options
def tail(
    skill: str, artifact: str, status: str | None, session: str, every: float, workspace: str | None, as_json: bool
) -> None:
    """Tell of each run when it is over, until interrupted; of other processes too.

    With --json, one JSON object a line.
    """
    import asyncio

    async def follow(prowess: Prowess) -> None:
        found = prowess.follow_traces(
            skill=skill,
            artifact=artifact,
            status=status or "",
            session=session,
            pause=lambda: asyncio.sleep(every),
        )
        await _tell(found, as_json=as_json)

    if not as_json:
        click.echo("Waiting for runs; Ctrl-C ends it.", err=True)
    try:
        with_engine(workspace, follow)
    except KeyboardInterrupt:
        raise click.exceptions.Exit(130) from None


async def _tell(traces: AsyncGenerator[Trace], *, as_json: bool) -> None:
    from prowess.interfaces.cli.printing import print_json_line
    from prowess.interfaces.cli.traces import as_brief, print_trace_line

    async with aclosing(traces):
        async for trace in traces:
            if as_json:
                print_json_line(as_brief(trace))
            else:
                print_trace_line(trace)


@command.command("export")
@click.option(
    "--format",
    type=click.Choice(FORMATS),
    default="jsonl",
    show_default=True,
    help="Every column of each trace, or examples for DSPy.",
)
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write this file, in one step.")
@_filters
@_SINCE
@common_options
def export(
    format: ExportFormat,
    out: Path | None,
    skill: str,
    artifact: str,
    status: str | None,
    since: float | None,
    workspace: str | None,
    as_json: bool,
) -> None:
    """Write runs for other programs, one JSON object a line, the oldest first.

    The format dspy gives an evaluation data set: the inputs, the output, and pass or fail of each assertion.
    """
    from prowess.interfaces.cli.lines import line_writer
    from prowess.interfaces.cli.printing import print_json, shown_path

    async def work(prowess: Prowess) -> int:
        written = 0
        with line_writer(out) as write:
            rows = prowess.export_traces(format, skill=skill, artifact=artifact, status=status or "", days=since)
            async with aclosing(rows):
                async for row in rows:
                    write(row)
                    written += 1
        return written

    written = with_engine(workspace, work)
    if out is None:
        return
    if as_json:
        print_json({"path": str(out), "format": format, "rows": written})
    else:
        click.echo(f"Wrote {written:,} line{'s' * (written != 1)} to {shown_path(out)}.")
