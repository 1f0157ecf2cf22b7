"""`prowess fork`: copy a skill to the workspace, where the copy overrides it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from prowess.interfaces.cli.approval_card import ask_for_approval
from prowess.interfaces.cli.engine import common_options, with_engine
from prowess.interfaces.cli.options import command
from prowess.interfaces.cli.output import one_line, print_json

if TYPE_CHECKING:
    from prowess.open import Prowess
    from prowess.skill.model import Skill, SkillCard


@command("fork", "prowess fork reviewer", "prowess fork account:my-skill --json")
@click.argument("slug")
@common_options
def fork_command(slug: str, workspace: str | None, as_json: bool) -> None:
    """Copy a skill that ships with Prowess, or of your account, to this workspace, where the copy overrides it.

    The files are copied byte for byte; change the copy as you like. `prowess history SLUG` says what it was copied from.
    Deleting the copy brings the original back.
    """

    async def work(prowess: Prowess) -> tuple[Skill, SkillCard | None]:
        copy = await prowess.skills.fork(slug)
        cards = await prowess.skills.cards()
        return copy, next((card for card in cards if (card.slug, card.scope) == (copy.slug, copy.scope)), None)

    copy, card = ask_for_approval(
        lambda: with_engine(workspace, work),
        workspace=workspace,
        question="Copy exactly these bytes to the workspace?",
        as_json=as_json,
        refusal="Not copied.",
    )
    hidden = [{"scope": other.scope, "digest": other.digest} for other in (card.hides if card else ())]
    if as_json:
        print_json({"slug": copy.slug, "scope": copy.scope, "digest": copy.digest, "overrides": hidden})
        return
    name = one_line(copy.slug, 48)
    overridden = ", ".join(f"{other['scope']}:{name} (sha256:{other['digest'][:12]})" for other in hidden)
    click.echo(f"Copied {name} to the {copy.scope}. It overrides {overridden or 'nothing'}.")
    click.echo(f"To change it, run `prowess export {name} --to DIR`, edit the files, and run")
    click.echo(f"`prowess import DIR/{name} --replace`. `prowess delete {name}` ends the override.")
