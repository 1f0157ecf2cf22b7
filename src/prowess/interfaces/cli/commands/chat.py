"""`prowess chat`: talk to an agent that finds, enables and uses skills."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from prowess.interfaces.cli.engine import Cli, common_options, open_engine
from prowess.interfaces.cli.error_output import exit_code
from prowess.interfaces.cli.options import command, read_message
from prowess.interfaces.cli.person import at_terminal

if TYPE_CHECKING:
    from prowess.agent.updates import TurnEnded
    from prowess.interfaces.cli.chat import Chat


@command(
    "chat",
    "prowess chat",
    'prowess chat "the prod Postgres is responding slowly, can you triage it?"',
    'prowess chat --continue "and the replicas?"',
    "prowess chat --conversation 3f2a91bc --resume --json",
)
@click.argument("words", nargs=-1, metavar="[MESSAGE]")
@click.option("--model", "-m", default="", metavar="M", help="Model that answers (default: PROWESS_MODEL).")
@click.option("--role", default="", help="Role that limits what a new conversation may do.")
@click.option("--conversation", "-c", default="", metavar="ID", help="Go on with this conversation.")
@click.option("--continue", "last", is_flag=True, help="Go on with the last conversation.")
@click.option("--resume", is_flag=True, help="Go on with the turn that waits for an approval.")
@common_options
def chat_command(
    words: tuple[str, ...], model: str, role: str, conversation: str, last: bool, resume: bool, cli: Cli
) -> None:
    """Talk to an agent that finds, enables and uses your skills.

    With a message, print the answer and exit. Without one, at a terminal, talk until you leave with Ctrl-D; `/help` lists
    what you can do there. What needs an approval is asked at the terminal. Without one, the turn waits, and the command
    prints how to answer and go on. With --json, each update of the turn is one line of JSON.
    """
    if conversation and last:
        raise click.UsageError("--conversation and --continue cannot be combined.")
    if role and (conversation or last):
        raise click.UsageError("--role is for a new conversation. An existing one keeps its role.")
    if resume and words:
        raise click.UsageError("--resume and a message cannot be combined.")
    if resume and not (conversation or last):
        raise click.UsageError("Say which conversation to resume, with --conversation ID or --continue.")
    from prowess.interfaces.cli.chat import Chat, print_opening, talk
    from prowess.interfaces.cli.commands.conversations import find_conversation

    is_loop = not words and not resume and not cli.as_json and at_terminal()
    message = "" if is_loop or resume else read_message(words)
    with open_engine(cli) as engine:
        # Without an id, it is the last one.
        is_known = bool(conversation) or last
        found = engine.run(lambda prowess: find_conversation(prowess, conversation)) if is_known else None
        chat = Chat(
            engine,
            cli,
            conversation=found.id if found else "",
            model=model or (found.model if found else ""),
            role=role,
        )
        if is_loop:
            print_opening(chat, found.title if found else "")
            talk(chat, resume=found is not None and found.state == "waiting")
        else:
            _take_one_turn(chat, message, cli)


def _take_one_turn(chat: Chat, message: str, cli: Cli) -> None:
    """Send one message, or resume without one, and end the command with the exit code of the turn."""
    from prowess.interfaces.cli.chat import print_waiting

    ended = chat.send(message) if message else chat.resume()
    if not cli.as_json and at_terminal():
        ended = chat.answer_approvals(ended)
    elif ended is not None and ended.state == "waiting":
        print_waiting(chat.id, ended.approvals)
    code = _exit_code(ended)
    if code:
        raise click.exceptions.Exit(code)


def _exit_code(ended: TurnEnded | None) -> int:
    """Return 0 for an answer, 5 for a turn that waits, 130 for one that was interrupted, or the code of its error."""
    if ended is None:
        return 130
    if ended.state in ("done", "waiting"):
        return 5 if ended.state == "waiting" else 0
    from prowess.client.problems import make_error

    return exit_code(make_error(ended.error or {}))
