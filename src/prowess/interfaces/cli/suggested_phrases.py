"""Print the trigger phrases that would help a skill, with the YAML to paste, and add them to the skill."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from prowess.errors import Refused
from prowess.interfaces.cli.engine import Cli
from prowess.interfaces.cli.output import clean, one_line, print_table, print_wrapped
from prowess.interfaces.cli.person import TYPED, Proof
from prowess.skill.filenames import SIDECAR, is_skill_md
from prowess.skill.text.yaml_writer import dump

if TYPE_CHECKING:
    from prowess.match.trigger_eval import TriggerReport
    from prowess.match.trigger_phrases import Suggestion
    from prowess.open import Prowess
    from prowess.skill.model import Skill

_MESSAGE = 60


def harmless_phrases(suggestions: Sequence[Suggestion]) -> list[str]:
    """Return the phrases that do not take messages from other skills."""
    return [row.phrase for row in suggestions if not row.taken]


def print_suggestions(skill: Skill, report: TriggerReport, suggestions: Sequence[Suggestion]) -> None:
    """Print a table of phrases with what each changes, a warning where one takes messages, and the YAML to paste."""
    positives = report.hits + len(report.missed)
    rows = [
        (
            f"  {'!' if row.taken else ' '} {one_line(row.phrase, 40)}",
            f"{row.before.found} → {row.after.found} of {positives}",
            f"{row.before.offered} → {row.after.offered}",
            f"{_quote(row.caught[0])}{f' and {len(row.caught) - 1} more' if len(row.caught) > 1 else ''}",
        )
        for row in suggestions
    ]
    print_wrapped("These trigger phrases would help. Each figure includes the phrases above it.", 4)
    print_table(("    phrase", "matched", "offered", "message"), rows, flexible=3)
    for row in suggestions:
        for taken in row.taken:
            what = f'"{one_line(row.phrase)}" takes a message from {one_line(taken.slug, 48)}: {_quote(taken.message)}'
            print_wrapped(f"{click.style('!', fg='yellow')} {what}. Not included below.", 4)
    phrases = harmless_phrases(suggestions)
    if phrases:
        print_wrapped(f"Add this to {_file_of(skill)}, or run the command again with --apply:", 4)
        for line in clean(dump({"triggers": [*skill.trigger_phrases, *phrases]})).splitlines():
            click.echo(f"      {line}")


def _file_of(skill: Skill) -> str:
    """Return the file for trigger phrases: the sidecar of a folder takes precedence over its SKILL.md."""
    return SIDECAR if any(is_skill_md(entry.path) for entry in skill.manifest) else "its frontmatter"


def _quote(message: str) -> str:
    return f'"{one_line(message, _MESSAGE)}"'


def apply_phrases(skill: Skill, phrases: Sequence[str], cli: Cli, proof: Proof) -> None:
    """Add phrases to a skill as a new version, after asking the person at the terminal."""
    count = f"{len(phrases)} trigger phrase{'s' if len(phrases) != 1 else ''}"
    if proof is TYPED and not click.confirm(f"Add {count} to {skill.slug}?", default=False):
        click.echo(f"{skill.slug} not changed.")
        return
    cli.call(lambda prowess: _add_phrases(prowess, skill, phrases), channel=proof.channel)
    click.echo(f"Added {count} to {skill.slug}. `prowess diff {skill.slug}` shows the change.")


async def _add_phrases(prowess: Prowess, skill: Skill, phrases: Sequence[str]) -> Skill:
    """Change the available skill, if it still has exactly the bytes that were evaluated."""
    card = next((card for card in await prowess.skills.cards() if card.slug == skill.slug), None)
    if card is None or card.digest != skill.digest:
        raise Refused(
            f"{skill.slug!r} not changed: it is not an available skill, or its files have changed since.",
            hint="Add the lines to its files yourself, or import it and run the command with its slug.",
        )
    # A change by a person accepts the whole skill, so it must not be the first that the person sees of it.
    if card.trust != "local":
        raise Refused(
            f"{skill.slug!r} not changed: nobody has accepted it yet.",
            hint=f"Run `prowess trust {skill.slug}` first.",
        )
    current = await prowess.skills.get(skill.slug)
    changed = current.model_copy(update={"trigger_phrases": (*current.trigger_phrases, *phrases)})
    return await prowess.skills.update(changed, note="Add trigger phrases that `prowess eval triggers` suggested")
