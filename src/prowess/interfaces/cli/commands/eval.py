"""`prowess eval`: measure whether skills match the right messages, and how good the answers with them are.

The commands that run cases are in `eval_runs`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import click

from prowess.errors import Invalid, NotFound, Problem, ProwessError
from prowess.interfaces.cli.commands import eval_runs
from prowess.interfaces.cli.engine import Cli, common_options, open_matcher, progress_bar, spinner
from prowess.interfaces.cli.error_output import print_problems
from prowess.interfaces.cli.options import Fraction, Limit, group
from prowess.interfaces.cli.output import one_line, print_json, print_wrapped
from prowess.interfaces.cli.person import require_person, token_option
from prowess.view import evaluation_json

if TYPE_CHECKING:
    from prowess.catalog.store import SearchDocument
    from prowess.interfaces.cli.targets import SkillTarget
    from prowess.match.matcher import Matcher
    from prowess.match.trigger_eval import TriggerReport
    from prowess.match.trigger_phrases import Suggestion
    from prowess.open import Prowess


MAX_FAILED_QUERIES = 20
"""The most failed queries of a skill that are printed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The results of one skill's queries, the phrases that would help, and the precision and recall it must reach."""

    subject: SkillTarget
    report: TriggerReport
    suggestions: Sequence[Suggestion] = ()
    min_precision: float
    min_recall: float

    @property
    def ok(self) -> bool:
        """True if precision and recall reach their minimum and every query could be read."""
        readable = all(problem.severity != "error" for problem in self.subject.evals.problems)
        return readable and self.report.precision >= self.min_precision and self.report.recall >= self.min_recall


def _print_evaluation(evaluation: Evaluation) -> None:
    """Print precision and recall, the failed queries, the skills chosen instead, and advice on wording."""
    report = evaluation.report
    mark = click.style("✓", fg="green") if evaluation.ok else click.style("✗", fg="red")
    figures = f"precision {report.precision:.2f}  recall {report.recall:.2f}  F1 {report.f1:.2f}"
    click.echo(f"{mark} {click.style(report.slug, bold=True)}  {figures}")
    print_wrapped(_format_counts(report), 4)
    print_problems(evaluation.subject.evals.problems)
    failed = [*report.missed, *report.false_triggers]
    for outcome in failed[:MAX_FAILED_QUERIES]:
        print_wrapped(f'"{one_line(outcome.case.query, 100)}"', 4)
        print_wrapped(one_line(outcome.verdict), 6)
    if len(failed) > MAX_FAILED_QUERIES:
        click.echo(f"    … and {len(failed) - MAX_FAILED_QUERIES} more; --json lists them all.")
    _print_advice(report)
    if evaluation.suggestions:
        from prowess.interfaces.cli.suggested_phrases import print_suggestions

        print_suggestions(evaluation.subject.skill, report, evaluation.suggestions)
    elif report.add:
        words = _format_words(report.add)
        print_wrapped(
            f"Missed queries use words that the skill never mentions: {words}. Add them to its description.", 4
        )


def _format_counts(report: TriggerReport) -> str:
    positives = report.hits + len(report.missed)
    others = len(report.outcomes) - positives
    return f"{report.hits} of {positives} matched, {len(report.false_triggers)} of {others} matched by mistake"


def _print_advice(report: TriggerReport) -> None:
    if report.confusions:
        taken = ", ".join(f"{slug} ({count})" for slug, count in report.confusions.items())
        print_wrapped(f"Confused with: {taken}.", 4)
    if report.drop:
        print_wrapped(
            f"Matched by mistake because of: {_format_words(report.drop)}. "
            'Say what the skill is not for ("Not for …"), or remove these words from its description.',
            4,
        )


def _format_words(counted: Sequence[tuple[str, int]]) -> str:
    return ", ".join(one_line(word, 40) + (f" ({count})" if count > 1 else "") for word, count in counted)


_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(evaluations: Sequence[Evaluation]) -> bytes:
    """Return a JUnit XML document. It has no timestamps, so the same evaluations give the same bytes."""
    root = ET.Element("testsuites", {"name": "prowess eval triggers", **_suite_counts(evaluations)})
    for evaluation in evaluations:
        slug = evaluation.report.slug
        suite = ET.SubElement(root, "testsuite", {"name": slug, **_suite_counts([evaluation])})
        for outcome in evaluation.report.outcomes:
            case = ET.SubElement(suite, "testcase", classname=slug, name=_xml_text(outcome.case.query))
            if not outcome.ok:
                kind = "missed" if outcome.case.should_trigger else "false-trigger"
                ET.SubElement(case, "failure", type=kind, message=_xml_text(outcome.verdict))
        for problem in _evaluation_errors(evaluation):
            case = ET.SubElement(suite, "testcase", classname=slug, name=_xml_text(problem.field or "evals"))
            ET.SubElement(case, "error", type=problem.code, message=_xml_text(problem.message))
    ET.indent(root)
    return ET.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


def _evaluation_errors(evaluation: Evaluation) -> list[Problem]:
    return [problem for problem in evaluation.subject.evals.problems if problem.severity == "error"]


def _suite_counts(evaluations: Sequence[Evaluation]) -> dict[str, str]:
    outcomes = [outcome for evaluation in evaluations for outcome in evaluation.report.outcomes]
    failures = sum(not outcome.ok for outcome in outcomes)
    errors = sum(len(_evaluation_errors(evaluation)) for evaluation in evaluations)
    return {"tests": str(len(outcomes) + errors), "failures": str(failures), "errors": str(errors)}


def _xml_text(text: str) -> str:
    """Replace the characters that XML 1.0 does not allow, even as escapes."""
    return _NOT_IN_XML.sub("\ufffd", text)


DEFAULT_MINIMUM = 0.8
DEFAULT_LIMIT = 5


@group(
    "eval",
    "prowess eval run my-skill --without",
    "prowess eval report my-skill --html report.html",
    "prowess eval triggers my-skill",
)
def eval_command() -> None:
    """Measure how good the answers with a skill are, and whether it matches the right messages."""


for _command in (eval_runs.run_cases, eval_runs.resume, eval_runs.compare, eval_runs.report, eval_runs.list_runs):
    eval_command.add_command(_command)


@eval_command.subcommand(
    "triggers",
    "prowess eval triggers my-skill",
    "prowess eval triggers .agents/skills --min-recall 0.9 --junit report.xml",
    "prowess eval triggers queries.json --skill my-skill",
)
@click.argument("target", metavar="SLUG|PATH")
@click.option("--skill", metavar="SLUG", help="Skill that an eval file tests, or one of the skills in a folder.")
@click.option(
    "--at",
    type=click.Choice(["offer", "maybe"]),
    default="maybe",
    show_default=True,
    help="Lowest decision that counts as a match.",
)
@click.option(
    "--limit",
    type=Limit(),
    default=DEFAULT_LIMIT,
    metavar="N",
    show_default=True,
    help="The skill must be among the first N results.",
)
@click.option(
    "--min-precision", type=Fraction(), default=DEFAULT_MINIMUM, show_default=True, help="Fail below this precision."
)
@click.option(
    "--min-recall", type=Fraction(), default=DEFAULT_MINIMUM, show_default=True, help="Fail below this recall."
)
@click.option("--junit", metavar="FILE", help="Also write JUnit XML to this file.")
@click.option(
    "--no-suggest", "suggest", flag_value=False, default=True, type=bool, help="Do not suggest trigger phrases."
)
@click.option("--apply", "applies", is_flag=True, help="Add the suggested phrases to the skills, after confirmation.")
@token_option
@common_options
def triggers(
    target: str,
    skill: str | None,
    at: Any,
    limit: int,
    min_precision: float,
    min_recall: float,
    junit: str | None,
    suggest: bool,
    applies: bool,
    token_file: Path | None,
    cli: Cli,
) -> None:
    """Test a skill with its own queries: some must match it, others must not.

    SLUG is an available skill. PATH is a skill, a folder of skills, or an eval file; skills at a PATH are added to the
    available ones for this run.

    If a query does not match, or only as `maybe`, the command suggests trigger phrases that help. Exits with 0 if every
    skill reaches --min-precision and --min-recall, and 1 if one does not.
    """
    if applies and (cli.as_json or not suggest):
        raise click.UsageError("--apply cannot be combined with --json or --no-suggest.")
    proof = require_person("change skills", token_file) if applies else None
    with spinner("Reading skills …"):
        subjects = cli.call(lambda prowess: _find_targets(prowess, target, skill))
    done = [
        Evaluation(
            subject=subject,
            report=report,
            suggestions=suggestions,
            min_precision=min_precision,
            min_recall=min_recall,
        )
        for subject, report, suggestions in _evaluate(subjects, cli, limit, at, suggest=suggest)
    ]
    # Other settings or queries than the skill's own measure something else than its score.
    if limit == DEFAULT_LIMIT and at == "maybe" and not Path(target).is_file():
        _store_scores(done, cli)
    if junit is not None:
        Path(junit).write_bytes(junit_xml(done))
    low = sum(not evaluation.ok for evaluation in done)
    if cli.as_json:
        options = {"at": at, "limit": limit, "min_precision": min_precision, "min_recall": min_recall}
        skills = [evaluation_json(row.report, row.subject.evals, row.suggestions, ok=row.ok) for row in done]
        print_json({"ok": not low, **options, "skills": skills})
    else:
        for evaluation in done:
            _print_evaluation(evaluation)
        _print_verdict(len(done), low, min_precision, min_recall)
    if proof is not None:
        from prowess.interfaces.cli.suggested_phrases import apply_phrases, harmless_phrases

        for evaluation in done:
            if phrases := harmless_phrases(evaluation.suggestions):
                apply_phrases(evaluation.subject.skill, phrases, cli, proof)
    if low:
        raise click.exceptions.Exit(1)


def _store_scores(done: Sequence[Evaluation], cli: Cli) -> None:
    """Store how well the catalog's skills are found by their own queries, as part of their scores."""
    measured = {
        (row.subject.skill.slug, row.subject.skill.digest): row.report.f1
        for row in done
        if not row.subject.joins and row.report.outcomes
    }
    if measured:
        # The figures are printed anyway; a database that cannot be written to must not fail a test in CI.
        with suppress(ProwessError):
            cli.call(lambda prowess: prowess.evals.score_triggers(measured))


async def _find_targets(prowess: Prowess, target: str, skill: str | None) -> list[SkillTarget]:
    """Return the skills of the target that have evals.

    If none has a query, raise `Invalid` (the eval files are broken) or `NotFound` (there are none), with an example.
    """
    from prowess.interfaces.cli.targets import find_targets

    found = await find_targets(prowess, target, about=skill)
    if any(subject.evals.cases for subject in found):
        return [subject for subject in found if subject.evals.cases or subject.evals.problems]
    problems = [problem for subject in found for problem in subject.evals.problems]
    if problems:
        raise Invalid(f"The evals of {target!r} are invalid.", problems=problems)
    whose = (
        f"The skill {found[0].skill.slug!r} has" if len(found) == 1 else f"The {len(found)} skills in {target!r} have"
    )
    raise NotFound(f"{whose} no trigger queries.", hint=EVALS_HELP)


def _evaluate(
    subjects: list[SkillTarget], cli: Cli, limit: int, at: Any, *, suggest: bool
) -> Iterator[tuple[SkillTarget, TriggerReport, Sequence[Suggestion]]]:
    """Yield each skill with its results and the phrases that would help."""
    from prowess.catalog.store import SearchDocument
    from prowess.match.trigger_eval import evaluate_triggers
    from prowess.match.trigger_phrases import suggest_phrases

    documents = [SearchDocument.of(subject.skill) for subject in subjects]
    with open_matcher(cli, complete=True) as matcher:
        joining = [document for document, subject in zip(documents, subjects, strict=True) if subject.joins]
        ranker = matcher.with_documents(joining)
        with spinner("Matching …"):
            reports = [
                evaluate_triggers(ranker, document, subject.evals.cases, limit=limit, at=at)
                for document, subject in zip(documents, subjects, strict=True)
            ]
        messages = _read_neighbours(ranker, documents, reports, subjects, cli) if suggest else {}
        with progress_bar("Trying phrases") as show:
            for done, (subject, document, report) in enumerate(zip(subjects, documents, reports, strict=True)):
                near = messages.get(document.slug)
                found = [] if near is None else suggest_phrases(ranker, document, report, near, limit=limit, at=at)
                show(done + 1, len(subjects))
                yield subject, report, found


def _read_neighbours(
    ranker: Matcher,
    documents: Sequence[SearchDocument],
    reports: Sequence[TriggerReport],
    subjects: Sequence[SkillTarget],
    cli: Cli,
) -> dict[str, dict[str, list[str]]]:
    """Return the messages of each neighbour, by slug, for every skill that phrases could help."""
    from prowess.interfaces.cli.targets import read_messages
    from prowess.match.trigger_phrases import find_neighbours, needs_phrases

    near = {
        document.slug: find_neighbours(ranker, document, report)
        for document, report in zip(documents, reports, strict=True)
        if needs_phrases(report)
    }
    if not near:
        return {}
    slugs = sorted({slug for found in near.values() for slug in found})
    with spinner("Reading neighbours …"):
        messages = cli.call(lambda prowess: read_messages(prowess, slugs, subjects))
    return {slug: {other: messages[other] for other in found if other in messages} for slug, found in near.items()}


def _print_verdict(total: int, low: int, min_precision: float, min_recall: float) -> None:
    skills = f"{total} skill{'s' if total != 1 else ''} evaluated"
    minimum = f"precision {min_precision:.2f} and recall {min_recall:.2f}"
    click.echo(f"{skills}: {f'{low} below' if low else 'all at or above'} {minimum}.")


EVALS_HELP = """Create evals/triggers.json next to SKILL.md:
  [{"query": "a message that needs this skill", "should_trigger": true},
   {"query": "a message that only sounds similar", "should_trigger": false}]"""
