"""Trigger reports, for people and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import click

from prowess.interfaces.cli.failures import print_problems
from prowess.interfaces.cli.printing import one_line, print_wrapped

if TYPE_CHECKING:
    from prowess.match.triggers import Outcome, TriggerReport
    from prowess.skill.evals import TriggerSet

MANY = 20
"""How many failed queries of a skill are worth printing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What the queries of one skill gave, and what is asked of it."""

    report: TriggerReport
    evals: TriggerSet
    min_precision: float
    min_recall: float

    @property
    def ok(self) -> bool:
        """Whether it is good enough; queries that could not be read are not."""
        readable = all(problem.severity != "error" for problem in self.evals.problems)
        return readable and self.report.precision >= self.min_precision and self.report.recall >= self.min_recall


def as_object(evaluation: Evaluation) -> dict[str, Any]:
    """The shape that scripts rely on."""
    report = evaluation.report
    wanted = sum(outcome.case.should_trigger for outcome in report.outcomes)
    return {
        "slug": report.slug,
        "ok": evaluation.ok,
        "precision": round(report.precision, 4),
        "recall": round(report.recall, 4),
        "f1": round(report.f1, 4),
        "counts": {
            "queries": len(report.outcomes),
            "should_trigger": wanted,
            "should_not_trigger": len(report.outcomes) - wanted,
            "hits": report.hits,
            "missed": len(report.missed),
            "false_triggers": len(report.false_triggers),
        },
        "queries": [_outcome(outcome) for outcome in report.outcomes],
        "confusions": report.confusions,
        "add_words": [word for word, _ in report.add],
        "drop_words": [word for word, _ in report.drop],
        "problems": [asdict(problem) for problem in evaluation.evals.problems],
    }


def _outcome(outcome: Outcome) -> dict[str, Any]:
    result = outcome.result
    return {
        "query": outcome.case.query,
        "should_trigger": outcome.case.should_trigger,
        "triggered": outcome.triggered,
        "ok": outcome.ok,
        "place": outcome.place,
        "score": result.score if result else None,
        "decision": result.decision if result else "no",
        "instead": list(outcome.instead),
        "file": outcome.case.file,
    }


def show_evaluation(evaluation: Evaluation) -> None:
    """Figures, the queries that failed, who took them, and what wording would help."""
    report = evaluation.report
    mark = click.style("✓", fg="green") if evaluation.ok else click.style("✗", fg="red")
    figures = f"precision {report.precision:.2f}  recall {report.recall:.2f}  F1 {report.f1:.2f}"
    click.echo(f"{mark} {click.style(report.slug, bold=True)}  {figures}  ({_counts(report)})")
    print_problems(evaluation.evals.problems)
    failed = [*report.missed, *report.false_triggers]
    for outcome in failed[:MANY]:
        print_wrapped(f'"{one_line(outcome.case.query, 100)}"', 4)
        print_wrapped(one_line(outcome.verdict), 6)
    if len(failed) > MANY:
        click.echo(f"    … and {len(failed) - MANY} more; --json lists them all.")
    _show_advice(report)


def _counts(report: TriggerReport) -> str:
    wanted = report.hits + len(report.missed)
    others = len(report.outcomes) - wanted
    return f"{report.hits} of {wanted} found, {len(report.false_triggers)} of {others} drawn in wrongly"


def _show_advice(report: TriggerReport) -> None:
    if report.confusions:
        taken = ", ".join(f"{slug} ({count})" for slug, count in report.confusions.items())
        print_wrapped(f"Confused with: {taken}.", 4)
    if report.add:
        print_wrapped(
            f"Missed queries have words that it never says: {_words(report.add)}. "
            "Add them to the description, or as trigger phrases.",
            4,
        )
    elif report.missed:
        print_wrapped("It says every word of the missed queries; give it trigger phrases that are worded like them.", 4)
    if report.drop:
        print_wrapped(
            f"Drawn in wrongly by: {_words(report.drop)}. "
            'Say what it is not for ("Not for …"), or drop these words from its description.',
            4,
        )


def _words(counted: Sequence[tuple[str, int]]) -> str:
    return ", ".join(one_line(word, 40) + (f" ({count})" if count > 1 else "") for word, count in counted)
