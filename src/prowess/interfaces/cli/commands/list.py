"""`prowess list`: the cards of all skills in reach."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from prowess.interfaces.cli.opening import common_options, patience, with_engine

if TYPE_CHECKING:
    from prowess.build.opening import Prowess
    from prowess.catalog.store import Fault
    from prowess.skill.model import SkillCard


SCOPES = ("session", "workspace", "user", "org", "account", "system")


@click.command("list")
@click.option("--tag", "tags", multiple=True, help="Only skills with this tag (may be given again).")
@click.option("--scope", type=click.Choice(SCOPES), help="Only skills of this scope.")
@common_options
def command(tags: tuple[str, ...], scope: str | None, workspace: str | None, as_json: bool) -> None:
    """Show the skills that are in reach, nearest scope first where two share a slug."""
    from prowess.interfaces.cli.printing import print_json

    async def work(prowess: Prowess) -> tuple[list[SkillCard], list[Fault]]:
        return await prowess.look()

    with patience("Reading skills …"):
        cards, faults = with_engine(workspace, work)
    chosen = [card for card in cards if set(tags) <= set(card.tags) and scope in (None, card.scope)]
    if as_json:
        print_json([card.model_dump(mode="json") for card in chosen])
    else:
        _show(chosen, len(cards))
    _mention_faults(len(faults))


def _show(cards: list[SkillCard], total: int) -> None:
    from prowess.interfaces.cli.printing import one_line, print_table

    if not cards and total:
        click.echo("The one skill here does not fit." if total == 1 else f"None of the {total} skills here fits.")
        return
    if not cards:
        click.echo(EMPTY)
        return
    rows = [
        (one_line(card.slug, 48), one_line(card.description), one_line(card.version, 16), _scope(card))
        for card in cards
    ]
    print_table(("slug", "description", "version", "scope"), rows, flexible=1)
    click.echo(f"\n{len(cards)} skill{'s' if len(cards) != 1 else ''}. `prowess show SLUG` shows one.")


def _scope(card: SkillCard) -> str:
    hidden = ", ".join(other.scope for other in card.hides)
    return f"{card.scope} (hides {hidden})" if hidden else card.scope


def _mention_faults(count: int) -> None:
    if count:
        things = "1 thing here is" if count == 1 else f"{count} things here are"
        click.echo(f"{things} not served; `prowess doctor` says why.", err=True)


EMPTY = """There are no skills here yet. You can:
  prowess import PATH     keep skills from a folder, a file or a .skill archive
  mkdir -p .agents/skills/my-skill && $EDITOR .agents/skills/my-skill/SKILL.md
                          write one; it is seen at once
  prowess -w DIR list     look in another workspace
Skills in .agents/skills, .claude/skills and the folders of other agents are found by themselves."""
