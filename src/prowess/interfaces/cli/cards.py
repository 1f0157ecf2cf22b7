"""The card of an approval: everything that a person needs to see before they answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from prowess.interfaces.cli.printing import clean, one_line

if TYPE_CHECKING:
    from prowess.storage.approvals import ApprovalRow

FILES = 20
"""So many files are worth a line each."""


def show_card(row: ApprovalRow) -> None:
    """Who asks for what, where the skill is from, its files, what it asks for, and what changed."""
    card: dict[str, Any] = row.detail
    facts = {
        "approval": f"{row.id}, {row.state}",
        "asked by": f"{row.requester}, to {row.action}" + (f": {row.reason}" if row.reason else ""),
        "why asked": str(card.get("why", "")),
        "until": moment(row.expires_at),
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
    show_list("It asks for", [str(request) for request in card.get("requests", [])])
    show_list(
        "Files", [f"{file['path']}  {file['size']:,} bytes  {file['sha256'][:12]}" for file in card.get("files", [])]
    )
    before: dict[str, Any] = card.get("previous", {})
    show_list(
        "Changed since it was approved",
        [f"{how}: {path}" for how in ("added", "removed", "changed") for path in before.get(how, [])],
    )
    if card.get("diff"):
        click.echo(clean(str(card["diff"])))
        if card.get("diff_cut"):
            click.echo("… the rest of the difference is left out; look at the files.")


def show_list(title: str, lines: list[str]) -> None:
    """A heading and its lines, the first of many; nothing where there are none."""
    if lines:
        click.secho(title, bold=True)
    for line in lines[:FILES]:
        click.echo(f"  {one_line(line)}")
    if len(lines) > FILES:
        click.echo(f"  … and {len(lines) - FILES} more; --json lists them all")


def moment(at: str) -> str:
    """A moment for people, to the second, in UTC."""
    return at[:19].replace("T", " ")
