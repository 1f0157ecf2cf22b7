"""`prowess sessions`: conversations, what is enabled in them, and their budgets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from prowess.interfaces.cli.groups import hand_down
from prowess.interfaces.cli.opening import common_options, with_engine
from prowess.interfaces.cli.sessions import as_object, show, used

if TYPE_CHECKING:
    from prowess.build.opening import Prowess
    from prowess.session.session import Session


@click.group("sessions", invoke_without_command=True)
@common_options
@click.pass_context
def command(ctx: click.Context, workspace: str | None, as_json: bool) -> None:
    """List the open conversations, the last changed first; or look at one."""
    if hand_down(ctx, workspace, as_json=as_json):
        return
    from prowess.interfaces.cli.cards import moment
    from prowess.interfaces.cli.printing import one_line, print_json, print_table

    found = with_engine(workspace, lambda prowess: prowess.sessions())
    if as_json:
        print_json([as_object(session) for session in found])
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
            moment(session.updated_at),
        )
        for session in found
    ]
    print_table(("conversation", "actor", "enabled", "characters", "changed"), rows, flexible=2)


@command.command("show")
@click.argument("name")
@common_options
def show_one(name: str, workspace: str | None, as_json: bool) -> None:
    """Show one conversation: what is enabled in it, and the room that is left."""
    from prowess.interfaces.cli.printing import print_json

    session = with_engine(workspace, lambda prowess: prowess.get_session(name))
    if as_json:
        print_json(as_object(session))
    else:
        show(session)


@command.command("open")
@click.argument("name")
@click.option("--role", default="", help="The role that limits what may be done in it.")
@click.option("--model", default="", help="The model that it is with.")
@click.option("--window", type=click.IntRange(min=1), help="The model's context window, in tokens.")
@click.option("--budget", type=click.IntRange(min=0), help="Its prompt budget, in characters.")
@common_options
def open_one(
    name: str, role: str, model: str, window: int | None, budget: int | None, workspace: str | None, as_json: bool
) -> None:
    """Begin a conversation, or change the model, window and budget of one that there is."""
    from prowess.interfaces.cli.printing import print_json

    async def work(prowess: Prowess) -> Session:
        session = await prowess.session(name, role=role, model=model, window=window, budget=budget)
        return await prowess.change_session(session, budget=budget, model=model or None, window=window)

    session = with_engine(workspace, work)
    if as_json:
        print_json(as_object(session))
    else:
        click.echo(used(session))


@command.command("close")
@click.argument("name")
@common_options
def close_one(name: str, workspace: str | None, as_json: bool) -> None:
    """End a conversation: nothing is enabled in it any more."""
    from prowess.interfaces.cli.printing import clean, print_json

    with_engine(workspace, lambda prowess: prowess.close_session(name))
    if as_json:
        print_json({"closed": name})
    else:
        click.echo(f"Closed {clean(name)}.")
