"""Asking the person at the terminal, where something needs an approval."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

import click

from prowess.interfaces.cli.opening import with_engine

T = TypeVar("T")


def with_consent(work: Callable[[], T], *, workspace: str | None, question: str, as_json: bool, refusal: str) -> T:
    """What the work gives; where it waits for an approval, a person at a terminal answers at once and it is done again.

    Elsewhere `ApprovalRequired` is raised as it came, and after a no `ApprovalDenied` with the words of the refusal.
    """
    from prowess.errors import ApprovalRequired

    try:
        return work()
    except ApprovalRequired as asked:
        if as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise
        _ask(asked.approval_id, workspace, question, refusal)
        return work()


def _ask(approval_id: str, workspace: str | None, question: str, refusal: str) -> None:
    from prowess.errors import ApprovalDenied
    from prowess.interfaces.cli.cards import show_card

    show_card(with_engine(workspace, lambda prowess: prowess.approval(approval_id)))
    click.echo("")
    yes = click.confirm(question, default=False)
    with_engine(workspace, lambda prowess: prowess.resolve(approval_id, approved=yes))
    if not yes:
        raise ApprovalDenied(refusal, hint="Call it again to be asked again.")
