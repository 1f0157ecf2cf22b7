"""`prowess eval triggers`: whether a skill is chosen for the messages that it is for, and for no others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prowess.interfaces.cli.messages import Limit, Share
from prowess.interfaces.cli.opening import common_options, matching, patience, with_engine

if TYPE_CHECKING:
    from prowess.build.opening import Prowess
    from prowess.interfaces.cli.subjects import Subject
    from prowess.match.triggers import TriggerReport

SHARE = 0.8


@click.group("eval")
def command() -> None:
    """Measure whether skills are found when they should be."""


@command.command("triggers")
@click.argument("target", metavar="SLUG|PATH")
@click.option("--skill", metavar="SLUG", help="The skill that an eval file is about, or one of a folder's skills.")
@click.option(
    "--at",
    type=click.Choice(["offer", "maybe"]),
    default="maybe",
    show_default=True,
    help="The least decision that counts as triggered.",
)
@click.option("--limit", type=Limit(), default=5, metavar="N", show_default=True, help="It must be among the first N.")
@click.option("--min-precision", type=Share(), default=SHARE, show_default=True, help="Fail below this precision.")
@click.option("--min-recall", type=Share(), default=SHARE, show_default=True, help="Fail below this recall.")
@click.option("--junit", metavar="FILE", help="Write JUnit XML to this file as well.")
@common_options
def triggers(
    target: str,
    skill: str | None,
    at: Any,
    limit: int,
    min_precision: float,
    min_recall: float,
    junit: str | None,
    workspace: str | None,
    as_json: bool,
) -> None:
    """Run the should-trigger and should-not-trigger queries that a skill ships.

    SLUG is a skill in reach. PATH is a skill, a folder with skills, or an eval file; a skill that is not in reach is
    matched together with those that are.
    """
    from prowess.interfaces.cli.evaluations import Evaluation, as_object, show_evaluation
    from prowess.interfaces.cli.printing import print_json

    with patience("Reading skills …"):
        subjects = with_engine(workspace, lambda prowess: _subjects(prowess, target, skill))
    done = [
        Evaluation(report=report, evals=subject.evals, min_precision=min_precision, min_recall=min_recall)
        for report, subject in zip(_evaluate(subjects, workspace, limit, at), subjects, strict=True)
    ]
    if junit is not None:
        from prowess.interfaces.cli.junit import junit_xml

        Path(junit).write_bytes(junit_xml(done))
    low = sum(not evaluation.ok for evaluation in done)
    if as_json:
        wanted = {"at": at, "limit": limit, "min_precision": min_precision, "min_recall": min_recall}
        print_json({"ok": not low, **wanted, "skills": [as_object(evaluation) for evaluation in done]})
    else:
        for evaluation in done:
            show_evaluation(evaluation)
        _print_verdict(len(done), low, min_precision, min_recall)
    if low:
        raise click.exceptions.Exit(1)


async def _subjects(prowess: Prowess, target: str, skill: str | None) -> list[Subject]:
    """The skills of the target that have evals; an error that shows how to write some where none has a query."""
    from prowess.errors import Invalid, NotFound
    from prowess.interfaces.cli.subjects import find_subjects

    found = await find_subjects(prowess, target, about=skill)
    if any(subject.evals.cases for subject in found):
        return [subject for subject in found if subject.evals.cases or subject.evals.problems]
    problems = [problem for subject in found for problem in subject.evals.problems]
    if problems:
        raise Invalid(f"The evals of {target!r} cannot be used.", hint=HOW, problems=problems)
    whose = repr(found[0].skill.slug) if len(found) == 1 else f"None of the {len(found)} skills in {target!r}"
    raise NotFound(f"{whose} has {'no ' if len(found) == 1 else ''}trigger queries.", hint=HOW)


def _evaluate(subjects: list[Subject], workspace: str | None, limit: int, at: Any) -> list[TriggerReport]:
    from prowess.catalog.document import Document
    from prowess.match.triggers import evaluate

    documents = [Document.of(subject.skill) for subject in subjects]
    with matching(workspace) as matcher, patience("Asking …"):
        joining = [document for document, subject in zip(documents, subjects, strict=True) if subject.joins]
        ranker = matcher.with_documents(joining)
        return [
            evaluate(ranker, document, subject.evals.cases, limit=limit, at=at)
            for document, subject in zip(documents, subjects, strict=True)
        ]


def _print_verdict(total: int, low: int, min_precision: float, min_recall: float) -> None:
    skills = f"{total} skill{'s' if total != 1 else ''} evaluated"
    wanted = f"precision {min_precision:.2f} and recall {min_recall:.2f}"
    click.echo(f"{skills}: {f'{low} below' if low else 'all reach'} {wanted}.")


HOW = """Write evals/triggers.json beside SKILL.md:
  [{"query": "what a user says who needs it", "should_trigger": true},
   {"query": "what only sounds like it", "should_trigger": false}]"""
