"""`prowess sessions`, `enable` and `disable`: conversations and the skills enabled in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from prowess.errors import NotFound
from prowess.interfaces.cli.approval_card import ask_for_approval, format_time
from prowess.interfaces.cli.engine import Cli, common_options
from prowess.interfaces.cli.options import command, delegate_to_subcommand, group
from prowess.interfaces.cli.output import clean, one_line, print_table
from prowess.view import session_json

if TYPE_CHECKING:
    from prowess.open import Prowess
    from prowess.session.session import Session


F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_SESSION = "default"


def session_option(function: F) -> F:
    """Add `--session`, which names the conversation that the command works on."""
    return click.option(
        "--session",
        "-s",
        default=DEFAULT_SESSION,
        metavar="NAME",
        show_default=True,
        callback=_check_name,
        help="Conversation; created when a skill is enabled in it. Each folder has its own `default`.",
    )(function)


def _check_name(_context: click.Context, _parameter: click.Parameter, name: str) -> str:
    # An empty name would open a conversation with a random one, and comes from a shell variable that is not set.
    if not name.strip():
        raise click.BadParameter("The name is empty.")
    return name


async def find_session(prowess: Prowess, name: str) -> Session | None:
    """Return the session with that name or id, or None if there is none."""
    try:
        return await prowess.sessions.get(name)
    except NotFound:
        return None


def print_session(session: Session) -> None:
    """Print the enabled skills of a session, its budget, and its role, model and window."""
    if session.enabled:
        rows = [
            (one_line(skill.slug, 48), one_line(skill.title, 48), f"{skill.content_length:,}", skill.digest[:12])
            for skill in session.enabled
        ]
        print_table(("slug", "title", "characters", "digest"), rows, flexible=1)
        click.echo("")
    click.echo(format_budget(session))
    limits = {"role": session.role, "model": session.model, "window": session.window and f"{session.window:,} tokens"}
    text = ", ".join(f"{name} {one_line(str(value), 80)}" for name, value in limits.items() if value)
    if text:
        click.echo(f"Limits: {text}.")


def format_budget(session: Session) -> str:
    """Return how much of the prompt budget is in use, on one line."""
    count = len(session.enabled)
    return (
        f"{clean(session.name)}: {count} skill{'s' * (count != 1)} enabled, "
        f"{session.budget.used:,} of {session.budget.limit:,} characters (about {session.tokens:,} tokens)."
    )


@group("sessions", "prowess sessions", "prowess sessions open review --budget 40000", invoke_without_command=True)
@common_options
def sessions_command(cli: Cli) -> None:
    """List the open conversations, last changed first, or show, open or close one."""
    if delegate_to_subcommand(cli):
        return
    cli.print_table(
        cli.call(lambda prowess: prowess.sessions.list(), quick=True),
        ("conversation", "actor", "enabled", "characters", "changed"),
        lambda session: (
            one_line(session.conversation, 40),
            one_line(session.actor, 24),
            one_line(", ".join(skill.slug for skill in session.enabled)) or "none",
            f"{session.budget.used:,} / {session.budget.limit:,}",
            format_time(session.updated_at),
        ),
        flexible=2,
        empty="No open conversations. `prowess enable SLUG --session NAME` starts one.",
        view=session_json,
    )


@sessions_command.subcommand("show", "prowess sessions show default", "prowess sessions show review --json")
@click.argument("name")
@common_options
def show_session(name: str, cli: Cli) -> None:
    """Show one conversation: its enabled skills and its remaining budget."""
    session = cli.call(lambda prowess: prowess.sessions.get(name), quick=True)
    cli.print(session_json(session), lambda: print_session(session))


@sessions_command.subcommand(
    "open", "prowess sessions open review --budget 40000", "prowess sessions open review --role reviewer"
)
@click.argument("name")
@click.option("--role", default="", help="Role that limits what the conversation may do.")
@click.option("--model", default="", help="Model of the conversation.")
@click.option("--window", type=click.IntRange(min=1), help="Context window of the model, in tokens.")
@click.option("--budget", type=click.IntRange(min=0), help="Prompt budget, in characters.")
@common_options
def open_session(name: str, role: str, model: str, window: int | None, budget: int | None, cli: Cli) -> None:
    """Start a conversation, or change the model, window or budget of an existing one."""

    async def work(prowess: Prowess) -> Session:
        session = await prowess.sessions.open(name, role=role, model=model, window=window, budget=budget)
        return await prowess.sessions.change(session, budget=budget, model=model or None, window=window)

    session = cli.call(work)
    cli.print(session_json(session), format_budget(session))


@sessions_command.subcommand("close", "prowess sessions close review", "prowess sessions close review --json")
@click.argument("name")
@common_options
def close_session(name: str, cli: Cli) -> None:
    """Close a conversation and disable its skills."""
    cli.call(lambda prowess: prowess.sessions.close(name), quick=True)
    cli.print({"closed": name}, f"Closed {clean(name)}.")


@command("enable", "prowess enable my-skill", "prowess enable my-skill --session review")
@click.argument("slug")
@click.option("--reason", default="", help="Reason, shown to the approver.")
@session_option
@common_options
def enable_command(slug: str, reason: str, session: str, cli: Cli) -> None:
    """Add a skill to the prompt of a conversation, within its budget.

    `prowess prompt` prints the result and `prowess disable` removes the skill again. If the policy requires approval, the
    command asks for it at the terminal.
    """

    async def work(prowess: Prowess) -> tuple[Session, bool]:
        known = await find_session(prowess, session)
        if known is None:
            await prowess.skills.get(slug)  # raises for an unknown slug before a conversation is created
        before = await prowess.sessions.open(known.conversation if known else session)
        after = await prowess.enable(slug, session=before, reason=reason)
        return after, after.enabled != before.enabled

    changed, is_new = ask_for_approval(
        cli,
        lambda: cli.call(work, quick=True),
        question="Add exactly these bytes to the prompt?",
        refusal="Not enabled: you denied the request.",
    )
    done = f"Enabled {clean(slug)}." if is_new else f"{clean(slug)} is already enabled."
    cli.print(session_json(changed), f"{done} {format_budget(changed)}")


@command("disable", "prowess disable my-skill", "prowess disable my-skill --session review")
@click.argument("slug")
@session_option
@common_options
def disable_command(slug: str, session: str, cli: Cli) -> None:
    """Remove a skill from the prompt of a conversation, and free its part of the budget."""
    changed = cli.call(lambda prowess: prowess.disable(slug, session=session), quick=True)
    cli.print(session_json(changed), f"Disabled {clean(slug)}. {format_budget(changed)}")
