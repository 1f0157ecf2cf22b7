"""`prowess chat` and `conversations`: talk to an agent that finds, enables and uses skills, and list, show, rename, export and delete conversations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from prowess.client.problems import make_error
from prowess.errors import Conflict, NotFound
from prowess.interfaces.cli.approval_card import format_time
from prowess.interfaces.cli.engine import Cli, common_options, open_engine
from prowess.interfaces.cli.error_output import exit_code
from prowess.interfaces.cli.options import command, find_by_prefix, group, read_message
from prowess.interfaces.cli.output import clean, escape_path, format_cost, one_line, print_json
from prowess.interfaces.cli.person import at_terminal
from prowess.paths import expand_user

if TYPE_CHECKING:
    from prowess.agent.conversation import Conversation
    from prowess.agent.updates import TurnEnded
    from prowess.interfaces.cli.chat import Chat
    from prowess.open import Prowess


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
@click.option("--conversation", "-c", default="", metavar="ID", help="Continue this conversation.")
@click.option("--continue", "last", is_flag=True, help="Continue the last conversation.")
@click.option("--resume", is_flag=True, help="Resume the turn that is waiting for an approval.")
@common_options
def chat_command(
    words: tuple[str, ...], model: str, role: str, conversation: str, last: bool, resume: bool, cli: Cli
) -> None:
    """Talk to an agent that finds, enables and uses your skills.

    With a message, print the answer and exit. Without one, at a terminal, talk until you leave with Ctrl-D; `/help` lists
    what you can do there. At a terminal, you are asked for approvals. Without one, the turn waits, and the command prints
    how to answer and continue. With --json, each update of the turn is one line of JSON.
    """
    if conversation and last:
        raise click.UsageError("--conversation and --continue cannot be combined.")
    if role and (conversation or last):
        raise click.UsageError("--role is for a new conversation. An existing one keeps its role.")
    if resume and words:
        raise click.UsageError("--resume and a message cannot be combined.")
    if resume and not (conversation or last):
        raise click.UsageError("Choose the conversation to resume with --conversation ID or --continue.")
    from prowess.interfaces.cli.chat import Chat, print_opening, talk

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

    terminated: click.exceptions.Exit | None = None
    ended: TurnEnded | None = None
    try:
        ended = chat.send(message) if message else chat.resume()
    except click.exceptions.Exit as error:
        terminated = error
    if ended is None and chat.id:
        click.echo(f"Continue with: prowess chat --conversation {chat.id[:8]} --resume", err=True)
    if terminated is not None:
        raise terminated
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
    return exit_code(make_error(ended.error or {}))


async def find_conversation(prowess: Prowess, id: str) -> Conversation:
    """Return the conversation with this id or name, or whose id starts so; the last one if `id` is empty.

    Raise `Invalid` if several ids start so, and `NotFound` if none does.
    """
    if id:
        return find_by_prefix(await prowess.agent.list(), id, "conversations") or await prowess.agent.get(id)
    latest = await prowess.agent.list(limit=1)
    if not latest:
        raise NotFound("There is no conversation to continue.", hint="Start one with `prowess chat`.")
    return latest[0]


@group(
    "conversations",
    "prowess conversations",
    "prowess conversations show 3f2a91bc",
    "prowess conversations export 3f2a91bc --output chat.md",
    default="list",
)
def conversations_command() -> None:
    """List your conversations with the agent, last changed first, or show, rename, export or delete one."""


@conversations_command.subcommand("list", "prowess conversations list", "prowess conversations list --json")
@common_options
def list_conversations(cli: Cli) -> None:
    """List your conversations, last changed first."""
    rows = cli.call(lambda prowess: prowess.agent.list())
    has_table = cli.print_table(
        rows,
        ("id", "title", "state", "turns", "cost", "changed"),
        lambda row: (
            row.id[:8],
            one_line(row.title),
            row.state,
            str(row.turns),
            format_cost(row.cost_usd),
            format_time(row.updated_at),
        ),
        flexible=1,
        optional=("cost", "turns"),
        empty="No conversations yet. `prowess chat` starts one.",
    )
    if has_table and any(row.state == "waiting" for row in rows):
        click.echo("\nTo continue a waiting conversation, run `prowess chat --conversation ID` at a terminal.")


@conversations_command.subcommand(
    "show", "prowess conversations show 3f2a91bc", "prowess conversations show 3f2a91bc --json"
)
@click.argument("id")
@common_options
def show_conversation(id: str, cli: Cli) -> None:
    """Show what was said in a conversation, with each tool call on one line.

    ID is the id of the conversation, or its first four or more characters.
    """
    from prowess.interfaces.cli.conversation_output import print_conversation

    async def work(prowess: Prowess) -> Conversation:
        return await prowess.agent.get((await find_conversation(prowess, _require_id(id))).id)

    found = cli.call(work)
    if cli.as_json:
        print_json(found)
        return
    print_conversation(found)
    if found.state in ("waiting", "stopped", "failed"):
        click.echo(f"\nContinue with `prowess chat --conversation {found.id[:8]} --resume`.", err=True)


@conversations_command.subcommand(
    "rename",
    'prowess conversations rename 3f2a91bc "Slow queries"',
    "prowess conversations rename 3f2a91bc Invoices --json",
)
@click.argument("id")
@click.argument("title")
@common_options
def rename_conversation(id: str, title: str, cli: Cli) -> None:
    """Give a conversation another title. Later messages do not replace it."""

    async def work(prowess: Prowess) -> Conversation:
        return await prowess.agent.rename((await find_conversation(prowess, _require_id(id))).id, title)

    renamed = cli.call(work)
    cli.print({"id": renamed.id, "title": renamed.title}, f"Renamed {renamed.id[:8]}: {one_line(renamed.title, 80)}")


@conversations_command.subcommand(
    "export", "prowess conversations export 3f2a91bc > chat.md", "prowess conversations export 3f2a91bc -o chat.json"
)
@click.argument("id")
@click.option(
    "--output", "-o", metavar="FILE", help="File to write: JSON if its name ends in .json, otherwise markdown."
)
@common_options
def export_conversation(id: str, output: str | None, cli: Cli) -> None:
    """Write a conversation as markdown, or with --json everything that is stored about it."""
    is_json = cli.as_json or bool(output and output.endswith(".json"))

    async def work(prowess: Prowess) -> str:
        found = await find_conversation(prowess, _require_id(id))
        return await prowess.agent.export(found.id, format="json" if is_json else "markdown")

    text = cli.call(work)
    if output:
        write_export(output, text)
    else:
        click.echo(text if is_json else clean(text), nl=False)


@conversations_command.subcommand(
    "delete", "prowess conversations delete 3f2a91bc", "prowess conversations delete 3f2a91bc --json"
)
@click.argument("id")
@common_options
def delete_conversation(id: str, cli: Cli) -> None:
    """Delete a conversation with everything that was said in it, and disable its skills."""

    async def work(prowess: Prowess) -> Conversation:
        found = await find_conversation(prowess, _require_id(id))
        await prowess.agent.delete(found.id)
        return found

    deleted = cli.call(work)
    cli.print({"deleted": deleted.id}, f"Deleted {deleted.id[:8]}: {one_line(deleted.title, 80)}")


def _require_id(id: str) -> str:
    if not id.strip():
        raise click.UsageError("Missing id. `prowess conversations` lists them.")
    return id


def write_export(path: str, text: str) -> None:
    """Write an exported conversation to a new file, and say so. Raise `Conflict` if the file exists."""
    try:
        with expand_user(path).open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise Conflict(f"{escape_path(path)} already exists.", hint="Give the name of a new file.") from None
    click.echo(f"Wrote {escape_path(path)}.", err=True)
