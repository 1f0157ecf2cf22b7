"""`prowess lint`: find skills that compete for the same messages."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from prowess.interfaces.cli.messages import Share
from prowess.interfaces.cli.opening import common_options, matching, patience, progress, with_engine
from prowess.match.collisions import MINIMUM, find_collisions

if TYPE_CHECKING:
    from prowess.build.opening import Prowess
    from prowess.catalog.document import Document
    from prowess.match.collisions import Collision


@click.command("lint")
@click.argument("targets", nargs=-1, metavar="[SLUG|PATH]...")
@click.option("--collisions", is_flag=True, help="Only look for pairs that compete (today the one check there is).")
@click.option(
    "--min",
    "minimum",
    type=Share(),
    default=MINIMUM,
    show_default=True,
    metavar="SIMILARITY",
    help="Report pairs from here on, between 0 and 1.",
)
@common_options
def command(
    targets: tuple[str, ...],
    collisions: bool,  # noqa: ARG001
    minimum: float,
    workspace: str | None,
    as_json: bool,
) -> None:
    """Find pairs of skills that compete for the same messages, and say how to tell them apart.

    SLUG or PATH narrows it to pairs with one of these skills; those at a PATH join the ones in reach for this run.
    """
    from prowess.catalog.intake import Progress
    from prowess.interfaces.cli.printing import print_json

    with patience("Reading skills …"):
        documents, joining, among = with_engine(workspace, lambda prowess: _documents(prowess, targets))
    with matching(workspace) as matcher, progress("Comparing") as watch:
        found = find_collisions(
            matcher.with_documents(joining),
            documents,
            among=among,
            minimum=minimum,
            watch=lambda done, total: watch(Progress(done=done, total=total)),
        )
    if as_json:
        print_json({"ok": not found, "skills": len(documents), "collisions": [asdict(one) for one in found]})
    else:
        _show(found, len(documents))
    if found:
        raise click.exceptions.Exit(1)


async def _documents(
    prowess: Prowess, targets: tuple[str, ...]
) -> tuple[list[Document], list[Document], set[str] | None]:
    """All skills that are compared, those of them that join for this run, and the slugs that were asked about."""
    from prowess.catalog.document import Document
    from prowess.interfaces.cli.subjects import skills_of

    documents = {document.slug: document for document in await prowess.documents()}
    subjects = [subject for target in targets for subject in await skills_of(prowess, target)]
    joining = {subject.skill.slug: Document.of(subject.skill) for subject in subjects if subject.joins}
    among = {subject.skill.slug for subject in subjects} if targets else None
    return list({**documents, **joining}.values()), list(joining.values()), among


def _show(found: list[Collision], total: int) -> None:
    from prowess.interfaces.cli.printing import one_line, print_wrapped

    for one in found:
        first, second = (click.style(slug, bold=True) for slug in one.slugs)
        click.echo(f"{click.style('!', fg='yellow')} {first} and {second}  {one.similarity:.2f}")
        if one.words:
            print_wrapped(f"Both are found by: {', '.join(one_line(word, 40) for word in one.words)}.", 4)
        for advice in one.advice:
            print_wrapped(one_line(advice), 4)
    skills = f"{total} skill{'s' if total != 1 else ''} compared"
    pairs = f"{len(found)} pair{'s' if len(found) != 1 else ''} compete{'s' if len(found) == 1 else ''}"
    click.echo(f"{skills}: {pairs if found else 'no two compete'} for the same messages.")
