"""Make sure that a person acts before a command approves something or extends trust.

An agent with a shell can run every command of the person it works for. Commands that restrict skills need no proof;
commands that trust more need a terminal or the approver token.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from prowess.errors import Refused
from prowess.interfaces.cli.server import ServerOptions, chosen_server
from prowess.lazy_dataclass import dataclass

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """How it is known that a person acts: the channel, and the text for the audit log."""

    channel: str
    words: str


TYPED = Proof(channel="terminal", words="typed at a terminal")
_TOKEN = Proof(channel="cli", words="approver token")
_SERVER_TOKEN = Proof(channel="http", words="a person's token for the server")


def token_option(function: F) -> F:
    """Add `--token-file`, for commands that only a person may use."""
    return click.option(
        "--token-file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="File with the approver token, for use without a terminal (or PROWESS_APPROVER_TOKEN).",
    )(function)


def at_terminal() -> bool:
    """Return True if stdin and stdout are a terminal: piped input must not answer, and nobody sees a redirected question."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def token_proof(token_file: Path | None) -> Proof | None:
    """Return the proof that the approver token gives, or None without a token. Raise `Refused` if the token is wrong."""
    from prowess.interfaces.auth.approver import check_approver_token
    from prowess.settings import read_settings
    from prowess.storage.secret_file import read_token_file

    settings = read_settings()
    given = read_token_file(token_file) if token_file is not None else settings.approver_token
    if not given and token_file is None:
        return None
    check_approver_token(settings.home, given)
    return _TOKEN


def require_person(action: str, token_file: Path | None) -> Proof:
    """Return the proof that a person acts. Raise `Refused` without a terminal and without the approver token.

    `action` completes "Only a person can …".
    """
    if (server := chosen_server()) is not None:
        return _require_person_at_server(action, token_file, server)
    proof = token_proof(token_file)
    if proof is not None:
        return proof
    if at_terminal():
        return TYPED
    raise Refused(
        f"Only a person can {action}, and this is not a terminal.",
        hint="Run the command at a terminal, or pass the approver token with --token-file FILE "
        "(create one with `prowess approvals token`).",
    )


def _require_person_at_server(action: str, token_file: Path | None, server: ServerOptions) -> Proof:
    """Return the proof for a command on a server, which itself accepts only the token of a person.

    A token that was found on this machine, and not given, proves nothing: an agent with a shell finds it, too.
    """
    if token_file is not None:
        raise click.UsageError(
            "--token-file after the command is this machine's approver token. Give it before `approvals`."
        )
    if at_terminal():
        return TYPED
    if server.token_file is not None or os.environ.get("PROWESS_TOKEN"):
        return _SERVER_TOKEN
    raise Refused(
        f"Only a person can {action}, and this is not a terminal.",
        hint="Run the command at a terminal, or give a person's token with PROWESS_TOKEN or --token-file FILE.",
    )
