"""`prowess lint`: find skills that compete for the same messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from prowess.interfaces.cli.engine import Cli, common_options, open_matcher, progress_bar, spinner
from prowess.interfaces.cli.options import Fraction, command
from prowess.interfaces.cli.output import one_line, print_wrapped
from prowess.match.collisions import MIN_SIMILARITY, Collision, find_collisions

if TYPE_CHECKING:
    from prowess.catalog.store import SearchDocument
    from prowess.open import Prowess


@command("lint", "prowess lint", "prowess lint .agents/skills/my-skill", "prowess lint my-skill --min 0.6")
@click.argument("targets", nargs=-1, metavar="[SLUG|PATH]...")
@click.option("--collisions", is_flag=True, help="Only look for competing skills (currently the only check).")
@click.option(
    "--min",
    "minimum",
    type=Fraction(),
    default=MIN_SIMILARITY,
    show_default=True,
    metavar="SIMILARITY",
    help="Minimum similarity to report, between 0 and 1.",
)
@common_options
def lint_command(
    targets: tuple[str, ...],
    collisions: bool,  # noqa: ARG001
    minimum: float,
    cli: Cli,
) -> None:
    """Find pairs of skills that compete for the same messages, and suggest how to separate them.

    With a SLUG or PATH, reports only pairs with one of these skills. Skills at a PATH are added to the available ones for
    this run.
    """
    with spinner("Reading skills …"):
        documents, joining, among = cli.call(lambda prowess: _documents(prowess, targets))
    with open_matcher(cli, complete=True) as matcher, progress_bar("Comparing") as show:
        found = find_collisions(
            matcher.with_documents(joining),
            documents,
            among=among,
            minimum=minimum,
            watch=show,
        )
    cli.print(
        {"ok": not found, "skills": len(documents), "collisions": found},
        lambda: _print_collisions(found, len(documents)),
    )
    if found:
        raise click.exceptions.Exit(1)


async def _documents(
    prowess: Prowess, targets: tuple[str, ...]
) -> tuple[list[SearchDocument], list[SearchDocument], set[str] | None]:
    """Return the skills to compare, those of them that are added for this run only, and the slugs of the targets.

    The slugs are None without targets: then every pair is reported.
    """
    from prowess.catalog.store import SearchDocument
    from prowess.interfaces.cli.commands.skills import is_role_pack
    from prowess.interfaces.cli.targets import find_skills

    # Role packs are not matched, so they compete with nothing.
    documents = {document.slug: document for document in await prowess.skills.documents() if not is_role_pack(document)}
    subjects = [subject for target in targets for subject in await find_skills(prowess, target)]
    joining = {subject.skill.slug: SearchDocument.of(subject.skill) for subject in subjects if subject.joins}
    among = {subject.skill.slug for subject in subjects} if targets else None
    return list({**documents, **joining}.values()), list(joining.values()), among


def _print_collisions(found: list[Collision], total: int) -> None:
    for pair in found:
        first, second = (click.style(slug, bold=True) for slug in pair.slugs)
        click.echo(f"{click.style('!', fg='yellow')} {first} and {second}  {pair.similarity:.2f}")
        if pair.words:
            print_wrapped(f"Both match: {', '.join(one_line(word, 40) for word in pair.words)}.", 4)
        for advice in pair.advice:
            print_wrapped(one_line(advice), 4)
    skills = f"{total} skill{'s' if total != 1 else ''} compared"
    pairs = f"{len(found)} pair{'s' if len(found) != 1 else ''} compete{'s' if len(found) == 1 else ''}"
    click.echo(f"{skills}: {pairs if found else 'none compete'} for the same messages.")
