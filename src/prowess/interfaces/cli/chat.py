"""A conversation at the terminal: slash commands, turns, approvals that a person answers, and the loop that reads messages."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import click

from prowess.errors import ApprovalRequired, NoModel, NotFound, ProwessError
from prowess.interfaces.cli.approval_card import ask_person
from prowess.interfaces.cli.commands.chat import write_export
from prowess.interfaces.cli.commands.sessions import print_session
from prowess.interfaces.cli.conversation_output import (
    ChatScreen,
    JsonScreen,
    format_pill,
    format_usage,
    last_decision,
    print_decision,
)
from prowess.interfaces.cli.error_output import report_error
from prowess.interfaces.cli.output import clean, one_line
from prowess.suggestions import near_names

if TYPE_CHECKING:
    from prowess.agent.conversation import Conversation
    from prowess.agent.updates import TurnEnded, Update
    from prowess.interfaces.cli.engine import Cli, OpenEngine
    from prowess.open import Prowess
    from prowess.session.session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class SlashCommand:
    """One command: what it takes, what it does, and the function that does it with the text after its name."""

    arguments: str
    summary: str
    run: Callable[[Chat, str], None]


_NO_SKILLS = "No skill is enabled yet. `/enable SLUG` adds one to the prompt."


class Leave(Exception):
    """The person wants to leave the conversation."""


def run_slash_command(chat: Chat, line: str) -> None:
    """Run the command of a line that starts with a slash. Raise `Leave` for `/quit`."""
    name, _, rest = line.removeprefix("/").strip().partition(" ")
    command = SLASH_COMMANDS.get(name.lower()) or SLASH_COMMANDS.get(_ALIASES.get(name.lower(), ""))
    if command is None:
        near = near_names(name, (*SLASH_COMMANDS, *_ALIASES), count=1)
        meant = f"Did you mean /{near[0]}?" if near else "/help lists the commands."
        click.echo(f"Unknown command {one_line(f'/{name}', 40)}. {meant}", err=True)
        return
    command.run(chat, rest.strip())


def _help(_chat: Chat, _rest: str) -> None:
    width = max(len(f"/{name} {command.arguments}".rstrip()) for name, command in SLASH_COMMANDS.items())
    for name, command in SLASH_COMMANDS.items():
        click.echo(f"{f'/{name} {command.arguments}'.ljust(width)}  {command.summary}")
    click.echo("Ctrl-C stops the current answer. At the prompt, Ctrl-C and Ctrl-D leave the chat.")


def _skills(chat: Chat, _rest: str) -> None:
    if chat.id:
        print_session(chat.read_session())
    else:
        click.echo(_NO_SKILLS)


def _enable(chat: Chat, rest: str) -> None:
    slug = _one_argument(rest, "/enable SLUG", "`prowess list` shows the skills.")
    session = chat.enable(slug)
    click.echo(f"Enabled {clean(slug)}. {format_pill(session.state)}")


def _disable(chat: Chat, rest: str) -> None:
    slug = _one_argument(rest, "/disable SLUG", "/skills shows what is enabled.")
    if not chat.id:
        click.echo(_NO_SKILLS)
        return
    session = chat.run(lambda prowess: prowess.disable(slug, session=chat.id))
    chat.pill = format_pill(session.state)
    click.echo(f"Disabled {clean(slug)}. {chat.pill}")


def _why(chat: Chat, rest: str) -> None:
    if rest:
        from prowess.interfaces.cli.commands.why import print_account

        print_account(chat.run(lambda prowess: prowess.why(rest, session=chat.id)), explain=False)
        return
    conversation = chat.read()
    detail = last_decision(conversation) if conversation else None
    if detail is None:
        click.echo("No decision yet. `/why MESSAGE` explains what Prowess would decide about a message.")
    else:
        print_decision(detail)


def _cost(chat: Chat, _rest: str) -> None:
    conversation = chat.read()
    if conversation is None:
        click.echo("Nothing was sent yet.")
    else:
        click.echo(format_usage(conversation))


def _model(chat: Chat, rest: str) -> None:
    if not rest:
        click.echo(f"Model: {clean(chat.model) or 'the default (PROWESS_MODEL)'}. `/model NAME` changes it.")
        return
    chat.model = rest
    click.echo(f"Model from the next message on: {clean(rest)}.")


def _memory(chat: Chat, rest: str) -> None:
    word, _, more = rest.partition(" ")
    more = more.strip()
    if word == "remember" and more:
        fact = chat.run(lambda prowess: prowess.agent.remember(more))
        click.echo(f"Remembered as {fact.id[:8]}.")
    elif word == "forget" and more:
        chat.run(lambda prowess: prowess.agent.forget(more))
        click.echo(f"Forgot {clean(more)}.")
    elif rest:
        click.echo("Use /memory, /memory remember TEXT or /memory forget ID.", err=True)
    else:
        facts = chat.run(lambda prowess: prowess.agent.memories())
        for fact in facts:
            click.echo(f"{fact.id[:8]}  {one_line(fact.text)}")
        if not facts:
            click.echo("No remembered facts. `/memory remember TEXT` adds one.")


def _export(chat: Chat, rest: str) -> None:
    if chat.read() is None:
        click.echo("Nothing to export: you have not sent a message yet.")
        return
    is_json = rest.endswith(".json")
    text = chat.run(lambda prowess: prowess.agent.export(chat.id, format="json" if is_json else "markdown"))
    if rest:
        write_export(rest, text)
    else:
        click.echo(clean(text), nl=False)


def _new(chat: Chat, _rest: str) -> None:
    chat.leave_conversation()
    click.echo("Your next message starts a new conversation.")


def _quit(_chat: Chat, _rest: str) -> None:
    raise Leave


def _one_argument(rest: str, usage: str, hint: str) -> str:
    if not rest or " " in rest:
        raise click.UsageError(f"Use {usage}. {hint}")
    return rest


SLASH_COMMANDS: dict[str, SlashCommand] = {
    "help": SlashCommand(arguments="", summary="Show this list.", run=_help),
    "skills": SlashCommand(arguments="", summary="Show the enabled skills and the prompt budget.", run=_skills),
    "enable": SlashCommand(arguments="SLUG", summary="Add a skill to the prompt.", run=_enable),
    "disable": SlashCommand(arguments="SLUG", summary="Remove a skill from the prompt.", run=_disable),
    "why": SlashCommand(
        arguments="[MESSAGE]", summary="Explain the last decision, or the decision about a message.", run=_why
    ),
    "cost": SlashCommand(arguments="", summary="Show the tokens and the cost of this conversation.", run=_cost),
    "model": SlashCommand(arguments="NAME", summary="Use another model from the next message on.", run=_model),
    "memory": SlashCommand(
        arguments="[remember TEXT|forget ID]", summary="List, add or delete remembered facts.", run=_memory
    ),
    "export": SlashCommand(arguments="[FILE]", summary="Print the conversation, or write it to a file.", run=_export),
    "new": SlashCommand(arguments="", summary="Start a new conversation.", run=_new),
    "quit": SlashCommand(arguments="", summary="Leave the chat. The conversation is kept.", run=_quit),
}

_ALIASES = {"exit": "quit", "q": "quit", "bye": "quit", "h": "help", "?": "help"}
"""Names that people try."""


T = TypeVar("T")
Turn = Callable[["Prowess", str], AsyncGenerator["Update"]]
"""What starts a turn in the conversation with this id."""

PROMPT = "> "
APPROVE_QUESTION = "Approve exactly this?"


class Chat:
    """One conversation with the agent, for the person at this terminal.

    It is created with the first message, so that looking around leaves nothing behind.
    """

    def __init__(
        self,
        engine: OpenEngine,
        cli: Cli,
        *,
        conversation: str = "",
        model: str = "",
        role: str = "",
    ) -> None:
        self._engine = engine
        self._cli = cli
        self._role = role
        self.id = conversation
        """The id of the conversation; empty before its first message."""
        self.model = model
        self.pill = ""
        """The prompt budget as it was last seen."""
        self.turns = 0
        """How many turns were taken here."""

    def run(self, work: Callable[[Prowess], Awaitable[T]]) -> T:
        """Await work with the engine and return its result."""
        return self._engine.run(work)

    def start(self) -> str:
        """Return the id of the conversation, which is created if there is none yet."""
        if not self.id:
            self.id = self.run(lambda prowess: prowess.agent.start(model=self.model, role=self._role)).id
        return self.id

    def read_session(self) -> Session:
        """Return the session of the conversation: its enabled skills and its budget."""
        own = self.start()
        session = self.run(lambda prowess: prowess.sessions.get(own))
        self.pill = format_pill(session.state)
        return session

    def read(self) -> Conversation | None:
        """Return the conversation with its messages; None before the first one."""
        if not self.id:
            return None
        try:
            return self.run(lambda prowess: prowess.agent.get(self.id))
        except NotFound:
            if self.turns:
                raise
            return None  # on a server, a conversation starts with its first message

    def leave_conversation(self) -> None:
        """Let the next message start a new conversation."""
        self.id, self.pill, self.turns = "", "", 0

    def enable(self, slug: str) -> Session:
        """Enable a skill, as the person at the terminal. If that needs an approval, ask for it."""
        own = self.start()
        try:
            session = self.run(lambda prowess: prowess.enable(slug, session=own))
        except ApprovalRequired as required:
            if not ask_person(required.approval_id, self._cli, APPROVE_QUESTION):
                raise
            session = self.run(lambda prowess: prowess.enable(slug, session=own))
        self.pill = format_pill(session.state)
        return session

    def send(self, message: str) -> TurnEnded | None:
        """Send a message and show the turn. Return how it ended, or None if the person stopped it."""
        return self._play(lambda prowess, own: prowess.agent.send(own, message, model=self.model))

    def resume(self) -> TurnEnded | None:
        """Go on with a turn that waits for approvals, and show it."""
        return self._play(lambda prowess, own: prowess.agent.resume(own, model=self.model))

    def _play(self, turn: Turn) -> TurnEnded | None:
        """Show a turn. Ctrl-C stops it and keeps the conversation; a second one, before it has stopped, is raised."""
        is_new, own = not self.id, self.start()
        self.turns += 1
        if not self.pill:
            self.read_session()
        screen = JsonScreen(own) if self._cli.as_json else ChatScreen(self.pill)
        has_stopped = False

        async def play(prowess: Prowess) -> None:
            nonlocal has_stopped
            try:
                async with aclosing(turn(prowess, own)) as updates:
                    async for update in updates:
                        screen.show(update)
            finally:
                has_stopped = True

        try:
            with screen:
                self.run(play)
        except KeyboardInterrupt:
            if not has_stopped:
                raise
            click.echo("Stopped. The conversation is kept.", err=True)
        self.pill = screen.pill
        if is_new and screen.ended is not None and (screen.ended.error or {}).get("code") == NoModel.code:
            # Nobody was asked anything, so there is nothing to continue with.
            self.run(lambda prowess: prowess.agent.delete(own))
            self.leave_conversation()
        return screen.ended

    def answer_approvals(self, ended: TurnEnded | None) -> TurnEnded | None:
        """Ask the person about each approval that a turn waits for, and continue. Return how the turn ended at last."""
        while ended is not None and ended.state == "waiting":
            for approval_id in ended.approvals:
                row = self.run(lambda prowess, pending=approval_id: prowess.approvals.get(pending))
                # Someone else may have answered in the meantime.
                if row.state == "pending":
                    click.echo("", err=True)
                    ask_person(approval_id, self._cli, APPROVE_QUESTION)
            ended = self.resume()
        return ended


def print_waiting(conversation: str, approvals: tuple[str, ...]) -> None:
    """Print what a turn waits for, and the commands that answer it and continue."""
    commands = " and ".join(f"`prowess approvals show {approval[:8]}`" for approval in approvals)
    click.echo(f"The turn is waiting for an approval. See {commands}, and answer at a terminal.", err=True)
    click.echo(f"Then continue with `prowess chat --conversation {conversation[:8]} --resume`.", err=True)


def talk(chat: Chat, *, resume: bool) -> None:
    """Read messages and slash commands until the person leaves. With `resume`, start with the turn that waits."""
    _prepare_line_editing()
    if resume:
        _attempt(lambda: _take_turn(chat, chat.resume))
    with suppress(Leave):
        while (line := _read_line()) is not None:
            if line.startswith("/"):
                _attempt(lambda typed=line: run_slash_command(chat, typed))
            elif line:
                _attempt(lambda typed=line: _take_turn(chat, lambda: chat.send(typed)))
    if chat.turns:
        click.echo(f"The conversation is kept. Continue it with `prowess chat --conversation {chat.id[:8]}`.", err=True)


def _read_line() -> str | None:
    """Return the next line that the person types; None if they leave."""
    try:
        return input(PROMPT).strip()
    except (EOFError, KeyboardInterrupt):
        click.echo("")
        return None


def _attempt(action: Callable[[], None]) -> None:
    """Do what the person typed. An error is printed, and the conversation continues."""
    try:
        action()
    except (ProwessError, click.ClickException, OSError) as error:
        report_error(error)
    except click.Abort:
        click.echo("\nNot answered.", err=True)


def _take_turn(chat: Chat, turn: Callable[[], TurnEnded | None]) -> None:
    ended = turn()
    try:
        chat.answer_approvals(ended)
    except click.Abort:
        click.echo("\nNot answered. The turn is still waiting.", err=True)
        if ended is not None:
            print_waiting(chat.id, ended.approvals)


def _prepare_line_editing() -> None:
    """Let the person edit lines, recall earlier ones, and complete slash commands, where Python has readline."""
    with suppress(ImportError):
        import readline

        names = [f"/{name}" for name in SLASH_COMMANDS]

        def complete(text: str, state: int) -> str | None:
            found = [name for name in names if text.startswith("/") and name.startswith(text)]
            return found[state] if state < len(found) else None

        readline.set_completer(complete)
        readline.set_completer_delims(" ")
        readline.parse_and_bind("tab: complete")


def print_opening(chat: Chat, title: str) -> None:
    """Print what a person should know before the first message."""
    name = f"Conversation {chat.id[:8]}: {one_line(title, 60)}" if chat.id else "New conversation"
    model = f" · {one_line(chat.model, 60)}" if chat.model else ""
    click.secho(f"{name}{model} · /help lists the commands, Ctrl-D leaves", dim=True, err=True)
