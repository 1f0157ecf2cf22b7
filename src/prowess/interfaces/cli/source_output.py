"""Print what a sync of a source did, or would do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from prowess.interfaces.cli.error_output import print_findings
from prowess.interfaces.cli.output import clean, one_line
from prowess.interfaces.cli.server import chosen_server

if TYPE_CHECKING:
    from prowess.sources.sync_result import SkillChange, SyncResult

MAX_LISTED = 20
"""The most skills of one status that are listed by name."""


def print_result(result: SyncResult) -> None:
    """Print what a sync did, or would do: every skill that changes, with findings and what it asks for."""
    if result.unchanged:
        click.echo("Nothing has changed at the source.")
    shown = [change for change in result.changes if change.status != "unchanged"]
    for status in ("added", "updated", "removed", "conflict", "invalid", "refused"):
        some = [change for change in shown if change.status == status]
        for change in some[:MAX_LISTED]:
            _print_change(change)
        if len(some) > MAX_LISTED:
            click.echo(f"  … and {len(some) - MAX_LISTED} more {status}")
    for warning in result.warnings:
        click.secho(f"! {one_line(f'{warning.message} {warning.hint}')}".rstrip(), fg="yellow")
    click.echo(summarize(result))
    print_acceptance(result)


def print_acceptance(result: SyncResult) -> None:
    """Say how to accept the skills that a sync brought. On a server, an administrator or an approval does it."""
    brought = [change.slug for change in result.changes if change.status in ("added", "updated")]
    if brought and not result.preview and chosen_server() is None:
        which = brought[0] if len(brought) == 1 else "SLUG"
        click.echo(f"Accept what you want to use: prowess trust {which}")


_MARKS = {"added": ("+", "green"), "updated": ("~", "yellow"), "removed": ("-", "red")}


def _print_change(change: SkillChange) -> None:
    mark, color = _MARKS.get(change.status, ("!", "red"))
    name = change.slug or change.path
    about = change.message if change.status in ("conflict", "invalid", "refused") else change.description
    click.echo(f"{click.style(mark, fg=color)} {one_line(name, 80)}  {one_line(about, 300)}".rstrip())
    if change.hint:
        click.echo(f"    {one_line(change.hint, 300)}")
    for request in change.requests:
        click.echo(f"    asks for: {one_line(request, 200)}")
    print_findings(list(change.findings))
    for line in change.diff.splitlines():
        click.echo(f"    {clean(line)}")


def summarize(result: SyncResult) -> str:
    """Return one sentence about the result."""
    if result.error is not None:
        failed = "The source cannot be read" if result.preview else "The sync failed"
        return f"{failed}: {one_line(f'{result.error.message} {result.error.hint}')}".rstrip()
    counts = ", ".join(f"{many} {status}" for status, many in result.counts.items()) or "no skills"
    return f"{'Would be' if result.preview else 'Skills'}: {counts}."
