"""`prowess sessions`, `enable` and `disable`: conversations and the skills enabled in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from prowess.interfaces.cli.approval_card import ask_for_approval
from prowess.interfaces.cli.engine import common_options, with_engine
from prowess.interfaces.cli.options import delegate_to_subcommand
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
        help="The conversation; enabling a skill in it begins it. Each folder has its own `default`.",
    )(function)


async def find_session(prowess: Prowess, name: str) -> Session | None:
    """Return the session with that name or id, or None if there is none."""
    from prowess.errors import NotFound

    try:
        return await prowess.sessions.get(name)
    except NotFound:
        return None


def print_session(session: Session) -> None:
    """Print the enabled skills of a session, its budget, and its role, model and window."""
    from prowess.interfaces.cli.output import one_line, print_table

    if session.enabled:
        rows = [
            (one_line(skill.slug, 48), one_line(skill.title, 48), f"{skill.content_length:,}", skill.digest[:12])
            for skill in session.enabled
        ]
        print_table(("slug", "title", "characters", "digest"), rows, flexible=1)
        click.echo("")
    click.echo(format_budget(session))
    limits = {"role": session.role, "model": session.model, "window": session.window and f"{session.window:,} tokens"}
    told = ", ".join(f"{name} {one_line(str(value), 80)}" for name, value in limits.items() if value)
    if told:
        click.echo(f"It has the {told}.")


def format_budget(session: Session) -> str:
    """Return how much of the prompt budget is in use, on one line."""
    from prowess.interfaces.cli.output import clean

    count = len(session.enabled)
    return (
        f"{clean(session.name)}: {count} skill{'s' * (count != 1)} enabled, "
        f"{session.budget.used:,} of {session.budget.limit:,} characters (about {session.tokens:,} tokens)."
    )


@click.group("sessions", invoke_without_command=True)
@common_options
@click.pass_context
def sessions_command(ctx: click.Context, workspace: str | None, as_json: bool) -> None:
    """List the open conversations, the last changed first; or look at one."""
    if delegate_to_subcommand(ctx, workspace, as_json=as_json):
        return
    from prowess.interfaces.cli.approval_card import format_time
    from prowess.interfaces.cli.output import one_line, print_json, print_table

    found = with_engine(workspace, lambda prowess: prowess.sessions.list())
    if as_json:
        print_json([session_json(session) for session in found])
        return
    if not found:
        click.echo("There are no open conversations. `prowess enable SLUG --session NAME` begins one.")
        return
    rows = [
        (
            one_line(session.conversation, 40),
            one_line(session.actor, 24),
            one_line(", ".join(skill.slug for skill in session.enabled)) or "none",
            f"{session.budget.used:,} / {session.budget.limit:,}",
            format_time(session.updated_at),
        )
        for session in found
    ]
    print_table(("conversation", "actor", "enabled", "characters", "changed"), rows, flexible=2)


@sessions_command.command("show")
@click.argument("name")
@common_options
def show_session(name: str, workspace: str | None, as_json: bool) -> None:
    """Show one conversation: what is enabled in it, and the room that is left."""
    from prowess.interfaces.cli.output import print_json

    session = with_engine(workspace, lambda prowess: prowess.sessions.get(name))
    if as_json:
        print_json(session_json(session))
    else:
        print_session(session)


@sessions_command.command("open")
@click.argument("name")
@click.option("--role", default="", help="The role that limits what may be done in it.")
@click.option("--model", default="", help="The model that it is with.")
@click.option("--window", type=click.IntRange(min=1), help="The model's context window, in tokens.")
@click.option("--budget", type=click.IntRange(min=0), help="Its prompt budget, in characters.")
@common_options
def open_session(
    name: str, role: str, model: str, window: int | None, budget: int | None, workspace: str | None, as_json: bool
) -> None:
    """Begin a conversation, or change the model, window and budget of one that there is."""
    from prowess.interfaces.cli.output import print_json

    async def work(prowess: Prowess) -> Session:
        session = await prowess.sessions.open(name, role=role, model=model, window=window, budget=budget)
        return await prowess.sessions.change(session, budget=budget, model=model or None, window=window)

    session = with_engine(workspace, work)
    if as_json:
        print_json(session_json(session))
    else:
        click.echo(format_budget(session))


@sessions_command.command("close")
@click.argument("name")
@common_options
def close_session(name: str, workspace: str | None, as_json: bool) -> None:
    """End a conversation: nothing is enabled in it any more."""
    from prowess.interfaces.cli.output import clean, print_json

    with_engine(workspace, lambda prowess: prowess.sessions.close(name))
    if as_json:
        print_json({"closed": name})
    else:
        click.echo(f"Closed {clean(name)}.")


@click.command("enable")
@click.argument("slug")
@click.option("--reason", default="", help="Why; whoever is asked to approve reads it.")
@session_option
@common_options
def enable_command(slug: str, reason: str, session: str, workspace: str | None, as_json: bool) -> None:
    """Let a skill into the prompt of a conversation, within its budget and under the policy.

    `prowess prompt` then prints it; `prowess disable` takes it out again. Where the policy has a person asked, a terminal
    asks at once.
    """
    from prowess.interfaces.cli.output import clean, print_json

    async def work(prowess: Prowess) -> tuple[Session, bool]:
        known = await find_session(prowess, session)
        if known is None:
            await prowess.skills.get(slug)  # raises for an unknown slug before a conversation is created
        before = await prowess.sessions.open(known.conversation if known else session)
        after = await prowess.enable(slug, session=before, reason=reason)
        return after, after.enabled != before.enabled

    held, is_new = ask_for_approval(
        lambda: with_engine(workspace, work),
        workspace=workspace,
        question="Let exactly these bytes into the prompt?",
        as_json=as_json,
        refusal="You said no, so it was not enabled.",
    )
    if as_json:
        print_json(session_json(held))
    else:
        done = f"Enabled {clean(slug)}." if is_new else f"{clean(slug)} is enabled already."
        click.echo(f"{done} {format_budget(held)}")


@click.command("disable")
@click.argument("slug")
@session_option
@common_options
def disable_command(slug: str, session: str, workspace: str | None, as_json: bool) -> None:
    """Take a skill out of the prompt of a conversation; its room is free again."""
    from prowess.interfaces.cli.output import clean, print_json

    changed = with_engine(workspace, lambda prowess: prowess.disable(slug, session=session))
    if as_json:
        print_json(session_json(changed))
    else:
        click.echo(f"Disabled {clean(slug)}. {format_budget(changed)}")
