"""How traces are shown: a row of a list, a line of a tail, and one with everything."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from prowess.interfaces.cli.attempting import resuming
from prowess.interfaces.cli.cards import moment
from prowess.interfaces.cli.figures import NONE, count, money, taken
from prowess.interfaces.cli.printing import clean, one_line, print_table
from prowess.interfaces.cli.receipts import touched_by

if TYPE_CHECKING:
    from prowess.traces.trace import Trace

SHORT_ID = 8
SHOWN_CHARS = 20_000
"""So much of a text is worth showing."""
BRIEF_OMITS = ("detail", "inputs", "rendered_input", "raw_output")
"""What a list does not have."""

_HEAD = ("id", "when", "skill", "artifact", "status", "model", "tokens", "cost", "time", "checks")
_COLOURS = {"ok": "green", "running": "yellow"}


def print_traces(traces: Sequence[Trace]) -> None:
    """A table, a row each."""
    print_table(_HEAD, [_cells(trace) for trace in traces], flexible=5)


def print_trace_line(trace: Trace) -> None:
    """One line, for following."""
    click.echo("  ".join(cell for cell in _cells(trace) if cell != NONE))


def _cells(trace: Trace) -> tuple[str, ...]:
    return (
        trace.id[:SHORT_ID],
        moment(trace.started_at),
        one_line(trace.skill_slug, 32),
        one_line(trace.artifact_name, 24),
        trace.status,
        one_line(trace.model_id or NONE, 40),
        tokens(trace),
        money(trace.estimated_cost),
        taken(trace.duration_ms),
        f"{trace.assertions_passed}/{trace.assertions_run}" if trace.assertions_run else NONE,
    )


def tokens(trace: Trace) -> str:
    """What went in and what came out, in tokens."""
    if trace.input_tokens is None and trace.output_tokens is None:
        return NONE
    return f"{count(trace.input_tokens)} in, {count(trace.output_tokens)} out"


def as_brief(trace: Trace) -> dict[str, Any]:
    """A trace of a list as JSON."""
    from dataclasses import asdict

    return {name: value for name, value in asdict(trace).items() if name not in BRIEF_OMITS}


def show_trace(trace: Trace, *, resumable: bool = False) -> None:
    """Everything that a trace has: facts, verdicts, what went in, what came out; and how it goes on, where it can."""
    facts = _facts(trace)
    if resumable:
        facts["goes on with"] = resuming(trace.skill_slug, trace.id)
    for name, value in facts.items():
        if value and value != NONE:
            click.echo(f"{click.style(name.ljust(12), bold=True)}{value}")
    for verdict in trace.verdicts:
        _show_verdict(verdict)
    for line in touched_by(trace.detail.get("receipt", {})):
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
            click.echo(clean(text[:SHOWN_CHARS]).rstrip("\n"))
            if len(text) > SHOWN_CHARS:
                click.echo(f"… and {len(text) - SHOWN_CHARS:,} more characters; --json has them all")


def _facts(trace: Trace) -> dict[str, str]:
    error = f"{trace.error or ''} [{trace.error_code}]" if trace.error_code else trace.error or ""
    facts = {
        "trace": trace.id,
        "run": trace.run_id,
        "skill": f"{trace.skill_slug} ({trace.skill_digest[:12]})" if trace.skill_digest else trace.skill_slug,
        "artifact": f"{trace.artifact_name} ({trace.artifact_kind})",
        "in place of": trace.fallback_of or "",
        "by": trace.actor,
        "session": trace.session_id,
        "began": moment(trace.started_at),
        "took": taken(trace.duration_ms),
        "model": trace.model_id or "",
        "tokens": tokens(trace),
        "cost": money(trace.estimated_cost),
        "error": error.strip(),
    }
    status = click.style(trace.status, fg=_COLOURS.get(trace.status, "red"))
    return {"status": status, **{name: one_line(value) for name, value in facts.items()}}


def _show_verdict(verdict: dict[str, Any]) -> None:
    passed = bool(verdict.get("passed"))
    said = click.style("passed" if passed else "failed", fg="green" if passed else "red")
    about = one_line(str(verdict.get("description") or verdict.get("type", "")), 120)
    why = one_line(str(verdict.get("explanation", "")), 200)
    soft = " (soft)" if verdict.get("severity") == "soft" else ""
    click.echo(f"{click.style('check'.ljust(12), bold=True)}{said}: {about}{soft}{f': {why}' if why else ''}")
