"""Show an approval request, and ask the person at the terminal to approve or deny it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from prowess.interfaces.cli.engine import with_engine
from prowess.interfaces.cli.output import clean, one_line

if TYPE_CHECKING:
    from prowess.storage.approvals import ApprovalRow


MAX_LINES = 20
"""The most entries of a list that are printed; the rest is only counted."""


def print_approval_card(row: ApprovalRow) -> None:
    """Print an approval request: requester, action, origin of the skill, its files, permissions and changes."""
    card: dict[str, Any] = row.detail
    facts = {
        "approval": f"{row.id}, {row.state}",
        "asked by": f"{row.requester}, to {row.action}" + (f": {row.reason}" if row.reason else ""),
        "why asked": str(card.get("why", "")),
        "until": format_time(row.expires_at),
        "skill": f"{card.get('title') or row.slug} ({row.slug})",
        "about": str(card.get("description", "")),
        "origin": str(card.get("origin", "")),
        "written by": str(card.get("written_by", "")),
        "digest": row.digest,
        "characters": f"{card['chars']:,}" if card.get("chars") else "",
        "answered": f"by {row.resolver or 'nobody'}" + (f": {row.note}" if row.note else "") if row.resolved_at else "",
    }
    for name, value in facts.items():
        if value:
            click.echo(f"{click.style(name.ljust(12), bold=True)}{one_line(value)}")
    print_list("It asks for", [str(request) for request in card.get("requests", [])])
    print_list(
        "Files", [f"{file['path']}  {file['size']:,} bytes  {file['sha256'][:12]}" for file in card.get("files", [])]
    )
    before: dict[str, Any] = card.get("previous", {})
    print_list(
        "Changed since it was approved",
        [f"{how}: {path}" for how in ("added", "removed", "changed") for path in before.get(how, [])],
    )
    if card.get("diff"):
        click.echo(clean(str(card["diff"])))
        if card.get("diff_cut"):
            click.echo("… the rest of the difference is left out; look at the files.")


def print_list(title: str, lines: list[str]) -> None:
    """Print a heading and at most `MAX_LINES` lines below it. Print nothing if there are no lines."""
    if lines:
        click.secho(title, bold=True)
    for line in lines[:MAX_LINES]:
        click.echo(f"  {one_line(line)}")
    if len(lines) > MAX_LINES:
        click.echo(f"  … and {len(lines) - MAX_LINES} more; --json lists them all")


def format_time(at: str) -> str:
    """Return an ISO timestamp in a readable form, to the second. The time stays in UTC."""
    return at[:19].replace("T", " ")


T = TypeVar("T")


def ask_for_approval(work: Callable[[], T], *, workspace: str | None, question: str, as_json: bool, refusal: str) -> T:
    """Call `work` and return its result. If it needs an approval, ask the person at the terminal and call it again.

    Raise `ApprovalRequired` unchanged with `--json` or without a terminal, and `ApprovalDenied` with the text
    `refusal` if the person says no.
    """
    from prowess.errors import ApprovalRequired

    try:
        return work()
    except ApprovalRequired as asked:
        # Both ends must be a terminal: piped input must not answer, and a redirected question would not be seen.
        if as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise
        _ask_person(asked.approval_id, workspace, question, refusal)
        return work()


def _ask_person(approval_id: str, workspace: str | None, question: str, refusal: str) -> None:
    from prowess.errors import ApprovalDenied

    print_approval_card(with_engine(workspace, lambda prowess: prowess.approvals.get(approval_id)))
    click.echo("")
    yes = click.confirm(question, default=False)
    with_engine(workspace, lambda prowess: prowess.approvals.resolve(approval_id, approved=yes))
    if not yes:
        raise ApprovalDenied(refusal, hint="Call it again to be asked again.")
