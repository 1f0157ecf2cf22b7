"""`prowess history`, `diff`, `rollback`, `delete` and `fork`: the versions of a skill, and a copy in the workspace."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from prowess.errors import NotFound, ProwessError, Refused
from prowess.interfaces.cli.approval_card import ask_for_approval, format_time
from prowess.interfaces.cli.engine import Cli, common_options, spinner
from prowess.interfaces.cli.options import Failure, choose_skills, command, for_each, report_failures
from prowess.interfaces.cli.output import clean, one_line, print_json
from prowess.interfaces.cli.person import at_terminal

if TYPE_CHECKING:
    from prowess.open import Prowess
    from prowess.skill.model import Skill, SkillCard, Version


@command("history", "prowess history my-skill", "prowess history my-skill --json")
@click.argument("slug")
@common_options
def history_command(slug: str, cli: Cli) -> None:
    """List the versions of a skill, oldest first, even if it was deleted."""
    cli.print_table(
        cli.call(lambda prowess: prowess.skills.history(slug), quick=True),
        ("version", "change", "when", "files", "digest", "note"),
        lambda version: (
            str(version.number),
            version.change,
            format_time(version.created_at) + (f" by {one_line(version.actor)}" if version.actor else ""),
            str(len(version.manifest)),
            version.digest[:12],
            one_line(version.note),
        ),
        flexible=5,
        empty="No versions.",
    )


_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@command("diff", "prowess diff my-skill", "prowess diff my-skill 2 5")
@click.argument("slug")
@click.argument("before", type=click.IntRange(min=1), required=False)
@click.argument("after", type=click.IntRange(min=1), required=False)
@common_options
def diff_command(slug: str, before: int | None, after: int | None, cli: Cli) -> None:
    """Show the changes from version BEFORE to version AFTER.

    Without AFTER, compares with the current files. Without both, shows the last change.
    """
    found = cli.call(lambda prowess: prowess.skills.diff(slug, before, after), quick=True)
    if cli.as_json:
        print_json({"slug": found.slug, "before": found.before, "after": found.after, "changes": found.changes})
        return
    old = f"version {found.before}" if found.before else "nothing"
    new = f"version {found.after}" if found.after else "now"
    click.echo(f"{found.slug}: {old} → {new}" + ("" if found.changes else ": no difference"))
    for change in found.changes:
        click.echo(click.style(f"\n{change.change} {clean(change.path)}", bold=True))
        for line in change.text.split("\n"):
            click.echo(click.style(clean(line), fg=_COLOURS.get(line[:1])))


@command(
    "rollback",
    "prowess rollback my-skill",
    'prowess rollback my-skill 2 --note "the new text was worse"',
)
@click.argument("slug")
@click.argument("version", type=click.IntRange(min=1), required=False)
@click.option("--note", default="", help="Note to store with the new version.")
@common_options
def rollback_command(slug: str, version: int | None, note: str, cli: Cli) -> None:
    """Restore VERSION of a skill as a new version. Also restores a deleted skill.

    The default is the newest version whose files differ from the current ones.
    """

    async def work(prowess: Prowess) -> tuple[int, Skill]:
        number = version or await _find_earlier(prowess, slug)
        return number, await prowess.skills.rollback(slug, number, note=note)

    number, skill = cli.call(work)
    cli.print(
        skill.card, f"Restored version {number} of {skill.slug}. `prowess history {skill.slug}` lists all versions."
    )


async def _find_earlier(prowess: Prowess, slug: str) -> int:
    versions = await prowess.skills.history(slug)
    try:
        now = (await prowess.skills.get(slug)).digest
    except NotFound:  # it was deleted
        now = ""
    found = next((version.number for version in reversed(versions) if version.digest != now), None)
    if found is None:
        raise NotFound(f"{slug[:80]!r} has no version with other files.", hint=f"See `prowess history {slug[:80]}`.")
    return found


@command(
    "delete", "prowess delete my-skill", "prowess delete old-skill older-skill", "prowess delete --tag draft --yes"
)
@click.argument("slugs", nargs=-1, metavar="[SLUG]...")
@click.option("--all", "every", is_flag=True, help="Delete all skills here, after confirmation.")
@click.option("--tag", "tags", multiple=True, help="Delete all skills with this tag (repeatable), after confirmation.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@click.option("--stored", is_flag=True, help="Delete only the copy in the database, and leave the skill in its folder.")
@click.option("--note", default="", help="Note to store with the version.")
@common_options
def delete_command(
    slugs: tuple[str, ...], every: bool, tags: tuple[str, ...], yes: bool, stored: bool, note: str, cli: Cli
) -> None:
    """Delete skills. Their versions are kept, so `prowess rollback` restores them.

    --all and --tag ask for confirmation; without a terminal, they need --yes. If a skill is in a folder and was imported
    too, --stored deletes only what was imported.
    """
    if stored and not slugs:
        raise click.UsageError("--stored needs SLUGs.")
    chosen = cli.call(lambda prowess: choose_skills(prowess, slugs, every=every, tags=tags, writable=True))
    if (every or tags) and not yes:
        _confirm(chosen, cli)

    async def work(prowess: Prowess) -> tuple[list[Version], list[Failure], str]:
        scope = await _find_scope(prowess, chosen[0]) if len(chosen) == 1 else ""
        delete = partial(prowess.skills.delete, note=note, **({"stored": True} if stored else {}))
        deleted, failed = await for_each(chosen, delete)
        # Another scope may have the slug too. Then the slug alone now means that skill, and not the deleted one.
        hidden = scope and await _find_scope(prowess, deleted[0].slug)
        return deleted, failed, f"{scope}:" if hidden else ""

    with spinner("Deleting …"):
        deleted, failed, prefix = cli.call(work)
    if cli.as_json:
        rows = [{"slug": row.slug, "version": row.number, "digest": row.digest} for row in deleted]
        print_json(rows[0] if len(slugs) == 1 and len(rows) == 1 else rows)
    elif stored:
        for version in deleted:
            click.echo(f"Deleted the stored copy of {clean(version.slug)}.")
    elif len(deleted) == 1:
        back = f"prowess rollback {prefix}{clean(deleted[0].slug)} {deleted[0].number}"
        click.echo(f"Deleted {clean(deleted[0].slug)}. To restore it, run `{back}`.")
    elif deleted:
        click.echo(f"Deleted {len(deleted)} skills: {', '.join(clean(row.slug) for row in deleted[:_NAMED])}")
        click.echo("To restore one, run `prowess history SLUG`, then `prowess rollback SLUG VERSION`.")
    report_failures(failed)


async def _find_scope(prowess: Prowess, slug: str) -> str:
    """Return the scope of the skill with this slug, or an empty string if no such skill can be read."""
    try:
        return (await prowess.skills.get(slug)).scope
    except ProwessError:
        return ""


def _confirm(slugs: list[str], cli: Cli) -> None:
    """Ask whether to delete these skills. Raise `Refused` without a terminal, and click's `Abort` if the answer is no."""
    if not at_terminal():
        raise Refused(
            f"Deleting {len(slugs)} skills needs confirmation, and this is not a terminal.", hint="Add --yes."
        )
    more = f" and {len(slugs) - _NAMED} more" if len(slugs) > _NAMED else ""
    click.echo(f"{one_line(', '.join(slugs[:_NAMED]))}{more}")
    where = f" in {cli.workspace}" if cli.workspace else ""
    click.confirm(f"Delete {'this skill' if len(slugs) == 1 else f'these {len(slugs)} skills'}{where}?", abort=True)


_NAMED = 20
"""The most deleted skills that are listed by name."""


@command("fork", "prowess fork reviewer", "prowess fork account:my-skill --json")
@click.argument("slug")
@common_options
def fork_command(slug: str, cli: Cli) -> None:
    """Copy a skill that ships with Prowess, or is in your account, to this workspace, where the copy overrides it.

    The files are copied byte for byte; change the copy as you like. `prowess history SLUG` says what it was copied from.
    Deleting the copy brings the original back.
    """

    async def work(prowess: Prowess) -> tuple[Skill, SkillCard | None]:
        copy = await prowess.skills.fork(slug)
        cards = await prowess.skills.cards()
        return copy, next((card for card in cards if (card.slug, card.scope) == (copy.slug, copy.scope)), None)

    copy, card = ask_for_approval(
        cli, lambda: cli.call(work), question="Copy exactly these bytes to the workspace?", refusal="Not copied."
    )
    hidden = [{"scope": other.scope, "digest": other.digest} for other in (card.hides if card else ())]
    if cli.as_json:
        print_json({"slug": copy.slug, "scope": copy.scope, "digest": copy.digest, "overrides": hidden})
        return
    name = one_line(copy.slug, 48)
    overridden = ", ".join(f"{other['scope']}:{name} (sha256:{other['digest'][:12]})" for other in hidden)
    click.echo(f"Copied {name} to the {copy.scope}. It overrides {overridden or 'nothing'}.")
    click.echo(f"To change it, run `prowess export {name} --to DIR`, edit the files, and run")
    click.echo(f"`prowess import DIR/{name} --replace`. `prowess delete {name}` removes the override.")
