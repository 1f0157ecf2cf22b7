"""What the commands about sessions share: the option, and how a session is shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from prowess.build.opening import Prowess
    from prowess.session.session import Session

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT = "default"


def session_option(function: F) -> F:
    """`--session`: the conversation that the command is about."""
    return click.option(
        "--session",
        "-s",
        default=DEFAULT,
        metavar="NAME",
        show_default=True,
        help="The conversation; enabling a skill in it begins it.",
    )(function)


async def session_named(prowess: Prowess, name: str) -> Session | None:
    """The session of that name or id, if there is one."""
    from prowess.errors import NotFound

    try:
        return await prowess.get_session(name)
    except NotFound:
        return None


def as_object(session: Session) -> dict[str, Any]:
    """A session as JSON."""
    return {
        "id": session.id,
        "conversation": session.conversation,
        "actor": session.actor,
        "role": session.role,
        "model": session.model,
        "window": session.window,
        **session.state,
        "budget_used_tokens": session.tokens,
        "created_at": session.created_at,
        "updated_at": session.updated_at,
    }


def show(session: Session) -> None:
    """The enabled skills, and the room that is left."""
    from prowess.interfaces.cli.printing import one_line, print_table

    if session.enabled:
        rows = [
            (one_line(skill.slug, 48), one_line(skill.title, 48), f"{skill.content_length:,}", skill.digest[:12])
            for skill in session.enabled
        ]
        print_table(("slug", "title", "characters", "digest"), rows, flexible=1)
        click.echo("")
    click.echo(used(session))
    limits = {"role": session.role, "model": session.model, "window": session.window and f"{session.window:,} tokens"}
    told = ", ".join(f"{name} {one_line(str(value), 80)}" for name, value in limits.items() if value)
    if told:
        click.echo(f"It has the {told}.")


def used(session: Session) -> str:
    """How much of the prompt budget is in use, in one line."""
    from prowess.interfaces.cli.printing import clean

    count = len(session.enabled)
    return (
        f"{clean(session.conversation)}: {count} skill{'s' * (count != 1)} enabled, "
        f"{session.budget.used:,} of {session.budget.limit:,} characters (about {session.tokens:,} tokens)."
    )
