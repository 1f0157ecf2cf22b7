"""`prowess remove`, `outdated` and `verify`: skills that were installed from a source."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from prowess.errors import Conflict, Unavailable
from prowess.interfaces.cli.engine import Cli, common_options, progress_bar
from prowess.interfaces.cli.error_output import EXIT_CODES
from prowess.interfaces.cli.options import command
from prowess.interfaces.cli.output import escape_path, one_line, print_json
from prowess.interfaces.cli.person import at_terminal
from prowess.interfaces.cli.skill_scores import read_skill_scores
from prowess.sources.signature import ExpectedSigner

if TYPE_CHECKING:
    from prowess.engine.installs import RemovedSkill
    from prowess.open import Prowess
    from prowess.sources.verification import VerifiedSkill
    from prowess.storage.scores import SkillScore

OUTDATED = 1
"""The exit code of `prowess outdated` if a skill has an update or its source no longer has it."""

_global_option = click.option(
    "--global", "-g", "is_global", is_flag=True, help="Use the skills installed for all of your projects."
)


@command("remove", "prowess remove pdf", "prowess remove pdf --agent claude-code", "prowess remove pdf --global --yes")
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("--agent", "-a", "agents", multiple=True, metavar="IDS", help="Only from these agents.")
@_global_option
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--discard-changes", is_flag=True, help="Remove files even if they were edited here.")
@common_options
def remove_command(
    names: tuple[str, ...], agents: tuple[str, ...], is_global: bool, yes: bool, discard_changes: bool, cli: Cli
) -> None:
    """Remove installed skills from all agents, including links and empty folders.

    Edited files are kept, unless --discard-changes is given. Skills that were imported or created are removed with
    `prowess delete`.
    """
    is_asked = not yes and at_terminal() and not cli.as_json
    if is_asked and not click.confirm(f"Remove {', '.join(map(one_line, names))}?", default=True):
        click.echo("Nothing was changed.")
        raise click.exceptions.Exit(1)

    async def work(prowess: Prowess) -> list[RemovedSkill]:
        return await prowess.installs.remove(names, agents=agents, user=is_global, discard_changes=discard_changes)

    removed = cli.call(work)
    if cli.as_json:
        print_json(removed)
        return
    for skill in removed:
        paths = ", ".join(escape_path(path) for path in skill.paths) or "its files were gone already"
        click.echo(f"Removed {one_line(skill.name)} ({paths}).")


@command("outdated", "prowess outdated", "prowess outdated --global --json")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@_global_option
@common_options
def outdated_command(names: tuple[str, ...], is_global: bool, cli: Cli) -> None:
    """List how installed skills compare with their sources, and with registries. Changes nothing.

    The exit code is 1 if a skill has an update or its source no longer has it, and 7 if a source cannot be reached.
    """
    with progress_bar("Fetching") as show:
        found = cli.call(lambda prowess: prowess.installs.outdated(names, user=is_global, step=show))
    has_table = cli.print_table(
        found,
        ("skill", "status", "installed", "latest", "source"),
        lambda row: (
            one_line(row.name, 40),
            row.status,
            row.installed[:12],
            row.latest[:12],
            one_line(row.problem or row.source),
        ),
        flexible=4,
        empty="No skills are installed from a source here. Add some with `prowess add SOURCE`.",
    )
    states = {row.status for row in found}
    outdated = {row.registry for row in found if row.status == "outdated"} if has_table else set[bool]()
    if False in outdated:
        click.echo("Run `prowess update` to see what changed, and to update.")
    if True in outdated:
        click.echo("Run `prowess registry install SOURCE` to review and replace a skill from a registry.")
    if states & {"outdated", "gone"}:
        raise click.exceptions.Exit(OUTDATED)
    if "unknown" in states:
        raise click.exceptions.Exit(EXIT_CODES[Unavailable])


@command(
    "verify",
    "prowess verify",
    "prowess verify pdf",
    "prowess verify --frozen",
    "prowess verify pdf --signer ann@example.com --issuer https://id.example.com",
)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--frozen", is_flag=True, help="Fail on any difference, including skills that are in no lock file. For CI."
)
@click.option("--signer", default="", metavar="ID", help="Required signer: a public key or a Sigstore identity.")
@click.option("--issuer", default="", metavar="URL", help="Issuer of the Sigstore identity.")
@click.option(
    "--trusted-root",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Sigstore's roots of trust (default: those of its public service).",
)
@_global_option
@common_options
def verify_command(
    names: tuple[str, ...], frozen: bool, signer: str, issuer: str, trusted_root: Path | None, is_global: bool, cli: Cli
) -> None:
    """Compare installed files with the lock files, and check signatures. Changes nothing.

    The exit code is 6 if a file is changed, missing or added. Edits of skills from a local folder, and skills that are in
    no lock file, are only reported, unless --frozen is given. With --signer, a skill with another signature, or none,
    counts as different. A Sigstore bundle proves who signed only if you name the identity that you expect, and its issuer.
    """
    is_key = signer.startswith("ed25519:")
    if bool(signer and not is_key) != bool(issuer) or (trusted_root and not issuer):
        raise click.UsageError("A Sigstore identity needs both --signer and --issuer, and a public key only --signer.")

    async def work(prowess: Prowess) -> tuple[list[VerifiedSkill], dict[str, SkillScore]]:
        expected = ExpectedSigner(identity=signer, issuer=issuer, trusted_root=trusted_root) if signer else None
        verified = await prowess.installs.verify(names, user=is_global, signer=expected)
        return verified, await _read_scores(prowess)

    found, scores = cli.call(work)
    bad = [skill for skill in found if not skill.ok or (frozen and skill.differences)]
    cli.print(
        [{**skill.as_json(), "score": scores.get(skill.name)} for skill in found],
        lambda: _print_verified(found, scores, bad),
    )
    if bad:
        raise click.exceptions.Exit(EXIT_CODES[Conflict])


async def _read_scores(prowess: Prowess) -> dict[str, SkillScore]:
    """Return the scores of the skills in reach, by slug: those of the bytes that they have now."""
    scores = await read_skill_scores(prowess)
    cards = await prowess.skills.cards() if scores else []
    return {card.slug: scores[card.slug, card.digest] for card in cards if (card.slug, card.digest) in scores}


def _print_verified(
    found: list[VerifiedSkill], scores: Mapping[str, SkillScore], bad: Collection[VerifiedSkill]
) -> None:
    for skill in found:
        mark = click.style("✗", fg="red") if skill in bad else click.style("✓", fg="green")
        signed = "" if skill.signature == "absent" else f"  signed by {one_line(skill.signature)}"
        scored = f"  score {scores[skill.name].text}" if skill.name in scores else ""
        click.echo(f"{mark} {one_line(skill.name)}{signed}{scored}")
        for difference in skill.differences:
            path = f"{escape_path(difference.path)}: " if difference.path else ""
            click.echo(f"    {difference.kind}: {path}{one_line(difference.message)}")
    unsigned = sum(skill.signature == "absent" for skill in found)
    count = f"{len(found)} skill{'s' * (len(found) != 1)} checked"
    verdict = f"{len(bad)} with differences" if bad else "no differences"
    click.echo(f"{count}, {verdict}." + (f" {unsigned} not signed." if unsigned else ""))
