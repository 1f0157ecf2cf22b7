"""`prowess skills`: list them, show one, and find those that nobody uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from prowess.interfaces.cli.commands.list import command as list_command
from prowess.interfaces.cli.commands.show import command as show_command
from prowess.interfaces.cli.groups import hand_down
from prowess.interfaces.cli.opening import common_options, patience, with_engine
from prowess.interfaces.cli.periods import Period

if TYPE_CHECKING:
    from prowess.delivery.uses import Use
    from prowess.skill.model import SkillCard


@click.group("skills", invoke_without_command=True)
@click.option("--dead", type=Period(), metavar="PERIOD", help="Those that were not used for so long, such as 30d.")
@click.option("--all", "system", is_flag=True, help="With --dead: also those that came with Prowess or a plugin.")
@common_options
@click.pass_context
def command(ctx: click.Context, dead: float | None, system: bool, workspace: str | None, as_json: bool) -> None:
    """List skills, show one, or find those that nobody uses.

    Without a command it lists them. --dead 30d shows the skills that were neither loaded nor let into a prompt for 30
    days: candidates for deprecation.
    """
    if hand_down(ctx, workspace, as_json=as_json):
        if dead is not None or system:
            raise click.UsageError(f"--dead and --all do not go with {ctx.invoked_subcommand!r}.")
        return
    if dead is None:
        if system:
            raise click.UsageError("--all goes with --dead.")
        ctx.invoke(list_command, workspace=workspace, as_json=as_json)
        return
    _show_dead(dead, system=system, workspace=workspace, as_json=as_json)


command.add_command(list_command)
command.add_command(show_command)


def _show_dead(days: float, *, system: bool, workspace: str | None, as_json: bool) -> None:
    from prowess.interfaces.cli.printing import print_json

    with patience("Reading skills …"):
        found = with_engine(workspace, lambda prowess: prowess.unused(days=days, system=system))
    if as_json:
        print_json([_as_object(card, use) for card, use in found])
    else:
        _print(found)


def _as_object(card: SkillCard, use: Use) -> dict[str, Any]:
    return {
        "slug": card.slug,
        "title": card.title,
        "scope": card.scope,
        "loads": use.loads,
        "last_loaded": use.last_loaded or None,
        "last_enabled": use.last_enabled or None,
    }


def _print(found: list[tuple[SkillCard, Use]]) -> None:
    from prowess.interfaces.cli.printing import one_line, print_table

    if not found:
        click.echo("No skill here was left unused for so long.")
        return
    rows = [
        (
            one_line(card.slug, 48),
            one_line(card.description),
            card.scope,
            f"{use.loads:,}",
            _moment(use.last_loaded),
            _moment(use.last_enabled),
        )
        for card, use in found
    ]
    head = ("slug", "description", "scope", "loads", "last load", "last in a prompt")
    print_table(head, rows, flexible=1)
    words = "skill was" if len(found) == 1 else "skills were"
    click.echo(f"\n{len(found)} {words} not used for so long.")


def _moment(at: str) -> str:
    return at[:16].replace("T", " ") if at else "never"
