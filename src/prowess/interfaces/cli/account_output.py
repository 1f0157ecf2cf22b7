"""Print who accepted which bytes of a skill, and where they are used."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import click

from prowess.interfaces.cli.approval_card import format_time
from prowess.interfaces.cli.output import clean, one_line

if TYPE_CHECKING:
    from prowess.policy.account import Answer, SkillAccount, SkillBytes

_SHOWN_USES = 5
"""The most prompts and runs that are listed for one digest; `--json` has all."""


def print_account(account: SkillAccount) -> None:
    """Print an account, the current bytes first."""
    click.secho(one_line(account.slug), bold=True)
    for label, text in (("location", account.location), ("trust", account.trust), ("standing", account.standing)):
        if text:
            click.echo(f"{label.ljust(10)}{one_line(text)}")
    for content in account.contents:
        _print_content(content)
    if not any(content.answers for content in account.contents):
        click.echo("\nNo decisions about this skill yet.")


def _print_content(content: SkillBytes) -> None:
    click.echo("")
    click.secho(f"sha256 {content.digest[:16]}{' (current)' if content.current else ''}", bold=True)
    for answer in content.answers:
        _print_answer(answer)
    for use in content.prompts[:_SHOWN_USES]:
        # Every folder has its own default conversation, which the records tell apart by its path.
        name = use.conversation.replace("default:", "default in ", 1)
        click.echo(f"  in prompt   {one_line(name, 200)}, enabled by {one_line(use.by)}, {format_time(use.at)}")
    for run in content.runs[:_SHOWN_USES]:
        click.echo(
            f"  run         {run.trace_id[:8]}, {one_line(run.artifact, 40)} by {one_line(run.by)}, "
            f"{format_time(run.at)}, {run.status}"
        )
    left = len(content.prompts[_SHOWN_USES:]) + len(content.runs[_SHOWN_USES:])
    if left:
        click.echo(f"  … and {left} more prompts and runs; --json lists all")


def _print_answer(answer: Answer) -> None:
    way = f" through {answer.channel}" if answer.channel else ""
    proof = f" ({answer.proof})" if answer.proof else ""
    click.echo(one_line(f"{answer.how} by {answer.by}, {format_time(answer.at)}{way}{proof}: {answer.state}"))
    if answer.requester:
        asked = f" through {answer.asked_through}" if answer.asked_through else ""
        click.echo(f"  requester   {one_line(f'{answer.requester} to {answer.action}{asked}')}")
    if answer.note:
        click.echo(f"  note        {one_line(answer.note)}")
    if answer.shown_ok is None:
        click.echo("  shown       no text was recorded")
        return
    whole = "the text below" if answer.shown_ok else "WARNING: the stored text is not the one that was shown"
    click.echo(f"  shown       {whole}")
    click.echo(textwrap.indent(clean(answer.shown), "    | "))
