"""The slash commands of `prowess chat`: what a person can look at and change between two messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from prowess.interfaces.cli.chat_screen import format_pill
from prowess.interfaces.cli.conversation_output import format_usage, last_decision, print_decision
from prowess.interfaces.cli.output import clean, one_line
from prowess.suggestions import near_names

if TYPE_CHECKING:
    from prowess.interfaces.cli.chat import Chat


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
    """Run the command of a line that begins with a slash. Raise `Leave` for `/quit`."""
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
    click.echo("Ctrl-C stops the answer that is being written. At the prompt, it leaves, as Ctrl-D does.")


def _skills(chat: Chat, _rest: str) -> None:
    from prowess.interfaces.cli.commands.sessions import print_session

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
        click.echo("Nothing was decided here yet. `/why MESSAGE` explains what a message would lead to.")
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
    click.echo(f"From the next message on: {clean(rest)}.")


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
            click.echo("Nothing is remembered. `/memory remember TEXT` adds a fact.")


def _export(chat: Chat, rest: str) -> None:
    from prowess.interfaces.cli.commands.conversations import write_export

    if not chat.id:
        click.echo("Nothing to export: no message was sent yet.")
        return
    is_json = rest.endswith(".json")
    text = chat.run(lambda prowess: prowess.agent.export(chat.id, format="json" if is_json else "markdown"))
    if rest:
        write_export(rest, text)
    else:
        click.echo(clean(text), nl=False)


def _new(chat: Chat, _rest: str) -> None:
    chat.leave_conversation()
    click.echo("A new conversation begins with your next message.")


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
        arguments="[MESSAGE]", summary="Explain the last decision, or what a message leads to.", run=_why
    ),
    "cost": SlashCommand(arguments="", summary="Show the tokens and the cost of this conversation.", run=_cost),
    "model": SlashCommand(arguments="NAME", summary="Use another model from the next message on.", run=_model),
    "memory": SlashCommand(
        arguments="[remember TEXT|forget ID]", summary="List, add or delete remembered facts.", run=_memory
    ),
    "export": SlashCommand(arguments="[FILE]", summary="Print the conversation, or write it to a file.", run=_export),
    "new": SlashCommand(arguments="", summary="Begin a new conversation.", run=_new),
    "quit": SlashCommand(arguments="", summary="Leave. The conversation is kept.", run=_quit),
}

_ALIASES = {"exit": "quit", "q": "quit", "bye": "quit", "h": "help", "?": "help"}
"""Names that people try."""
