"""Make sure that a person acts, before a command approves something or changes who may do what.

An agent with a shell can run every command of the person it works for. What makes a skill safer needs no proof; what
trusts more is done at a terminal, or with the approver's token.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """How it is known that a person acts: the channel, and the words that the audit keeps."""

    channel: str
    words: str


TYPED = Proof(channel="terminal", words="typed at a terminal")
_TOKEN = Proof(channel="cli", words="approver token")


def token_option(function: F) -> F:
    """Add `--token-file`, which every command takes that only a person may use."""
    return click.option(
        "--token-file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="The approver's token, where there is no terminal (or PROWESS_APPROVER_TOKEN).",
    )(function)


def at_terminal() -> bool:
    """Return True if a person can be asked: piped input must not answer, and a redirected question would not be seen."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def token_proof(token_file: Path | None) -> Proof | None:
    """Return the proof that a token gives; None if none was given. Raise `Refused` if it is not the approver's."""
    from prowess.interfaces.auth.approver import check_approver_token, read_token_file
    from prowess.settings import read_settings

    settings = read_settings()
    given = read_token_file(token_file) if token_file is not None else settings.approver_token
    if not given:
        return None
    check_approver_token(settings.home, given)
    return _TOKEN


def require_person(action: str, token_file: Path | None) -> Proof:
    """Return the proof that a person acts; raise `Refused` without a terminal and without the approver's token.

    `action` completes "Only a person can …".
    """
    from prowess.errors import Refused

    proof = token_proof(token_file)
    if proof is not None:
        return proof
    if at_terminal():
        return TYPED
    raise Refused(
        f"Only a person can {action}, and there is no terminal to ask one.",
        hint="Run the command at a terminal, or give the approver's token with --token-file FILE "
        "(`prowess approvals token` makes one).",
    )
