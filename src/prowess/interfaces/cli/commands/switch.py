"""`prowess switch`: switch skills on or off for the whole organization."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from prowess.interfaces.cli.engine import common_options, with_engine
from prowess.interfaces.cli.options import command
from prowess.interfaces.cli.output import one_line, print_json

if TYPE_CHECKING:
    from prowess.open import Prowess
    from prowess.policy.organization import OrgPolicy


@command("switch", "prowess switch off my-skill", "prowess switch on my-skill other-skill")
@click.argument("state", type=click.Choice(["on", "off"]))
@click.argument("slugs", nargs=-1, required=True, metavar="SLUG...")
@common_options
def switch_command(state: str, slugs: tuple[str, ...], workspace: str | None, as_json: bool) -> None:
    """Switch skills off for the whole organization, or on again.

    Nobody can find, enable, load or run a skill that is off, and it leaves every prompt. Its files stay where they are.
    Only an administrator can do this.
    """

    async def work(prowess: Prowess) -> OrgPolicy:
        return await prowess.policy.switch(*slugs, on=state == "on")

    policy = with_engine(workspace, work)
    off = list(policy.disabled_skills or ())
    if as_json:
        print_json({"disabled_skills": off})
        return
    click.echo(f"Switched {state}: {', '.join(one_line(slug, 48) for slug in slugs)}.")
    if state == "off":
        click.echo(f"To switch it on again, run `prowess switch on {one_line(slugs[0], 48)}`.")
