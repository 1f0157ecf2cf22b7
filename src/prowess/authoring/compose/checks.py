"""Check a draft: its files as an import checks them, its code in the sandbox, its queries against the catalog."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from prowess.authoring.compose.draft import Draft
from prowess.authoring.compose.dry_run import DRY_RUN_CODES, DryRun, try_code
from prowess.catalog.store import SearchDocument
from prowess.errors import Problem
from prowess.match.trigger_eval import TriggerReport, evaluate_triggers
from prowess.scan import scan_package
from prowess.skill.evals import find_eval_paths, read_trigger_set
from prowess.skill.kinds import CodeTemplate, JsonObject
from prowess.skill.limits import Limits
from prowess.skill.model import Skill
from prowess.skill.package import Package
from prowess.skill.validate import validate
from prowess.threads import offload

if TYPE_CHECKING:
    from prowess.match.matcher import Matcher
    from prowess.sandbox.protocol import Sandbox

COMPOSE_CODES = {
    **DRY_RUN_CODES,
    "slug-taken": "Another skill has the slug of a draft.",
    "triggers-collide": "Most queries of a draft are answered by one other skill.",
    "triggers-weak": "A draft is not found for its own queries, or is found for others.",
    "scan-danger": "The security scan found a danger in the files of a draft.",
}
"""The codes of problems that only drafts have, with their meaning in one line."""

MIN_SHARE = 0.8
"""The precision and recall below which a warning is given, as `prowess eval triggers` has it."""
_COLLISION_SHARE = 0.5
_ORDER = ("error", "warning", "info")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checks:
    """Everything that was found about one round."""

    problems: tuple[Problem, ...] = ()
    findings: tuple[JsonObject, ...] = ()
    dry_run: JsonObject | None = None
    """None if the draft has no code."""
    triggers: JsonObject | None = None
    """None if the draft has no queries, or cannot be read."""

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems because of which the draft cannot be saved."""
        return tuple(problem for problem in self.problems if problem.severity == "error")

    @property
    def ok(self) -> bool:
        """True if a person can approve the draft."""
        return not self.errors

    def as_json(self) -> JsonObject:
        """Return everything as plain JSON."""
        return {
            "ok": self.ok,
            "problems": [asdict(problem) for problem in self.problems],
            "findings": list(self.findings),
            "dry_run": self.dry_run,
            "triggers": self.triggers,
        }

    @classmethod
    def from_json(cls, value: JsonObject) -> Checks:
        """Return stored checks."""
        return cls(
            problems=tuple(Problem(**one) for one in value["problems"]),
            findings=tuple(value["findings"]),
            dry_run=value["dry_run"],
            triggers=value["triggers"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The skills and files that a draft is checked against: the slugs of other skills, and in `base` the files that it changes."""

    matcher: Matcher
    sandbox: Sandbox
    limits: Limits
    taken: frozenset[str] = frozenset()
    base: Package | None = None


async def check_draft(package: Package, draft: Draft, around: Surroundings) -> Checks:
    """Return everything that is found about the files of a draft. Bad content never raises."""
    report = await offload(validate, package, "prowess", around.limits)
    problems = list(report.problems)
    findings = [finding.as_json() for finding in await offload(scan_package, package)]
    known = [finding.as_json() for finding in await offload(scan_package, around.base)] if around.base else []
    problems += _report_dangers(findings, known)
    skill = report.reading.skill
    if skill is None:
        return Checks(problems=tuple(problems), findings=tuple(findings))
    if skill.slug in around.taken:
        problems.append(_slug_taken(skill.slug))
    dry_run = await _try_all(skill, draft, around.sandbox) if report.ok else None
    problems += dry_run.problems if dry_run else ()
    triggers, weak = await offload(_evaluate, skill, package, around.matcher)
    return Checks(
        problems=tuple(sorted([*problems, *weak], key=lambda one: _ORDER.index(one.severity))),
        findings=tuple(findings),
        dry_run=dry_run.as_json() if dry_run else None,
        triggers=triggers,
    )


async def _try_all(skill: Skill, draft: Draft, sandbox: Sandbox) -> DryRun | None:
    """Run the first code template of a skill, which is the one that a draft has."""
    code = next(
        (artifact for artifact in skill.artifacts if isinstance(artifact, CodeTemplate) and artifact.variant is None),
        None,
    )
    if code is None:
        return None
    return await try_code(code.content, draft.example_inputs, sandbox, field=code.path or code.name)


def _evaluate(skill: Skill, package: Package, matcher: Matcher) -> tuple[JsonObject | None, list[Problem]]:
    """Try the queries of a skill among all available ones. Blocking."""
    files = {path: file.content for path in find_eval_paths(package.paths) if (file := package.get(path))}
    read = read_trigger_set(files)
    if not read.cases:
        return None, list(read.problems)
    document = SearchDocument.of(skill)
    report = evaluate_triggers(matcher.with_documents([document]), document, read.cases)
    found: JsonObject = {
        "precision": round(report.precision, 4),
        "recall": round(report.recall, 4),
        "queries": len(report.outcomes),
        "missed": [{"query": outcome.case.query, "instead": list(outcome.instead)} for outcome in report.missed],
        "false_triggers": [outcome.case.query for outcome in report.false_triggers],
        "collides_with": _find_collision(report),
    }
    return found, [*read.problems, *_judge(report, found["collides_with"])]


def _find_collision(report: TriggerReport) -> str:
    """Return the skill that takes most of the queries that should trigger this one; '' if there is none."""
    expected = [outcome for outcome in report.outcomes if outcome.case.should_trigger]
    first = Counter(
        outcome.top[0] for outcome in expected if outcome.top and outcome.top[0] != report.slug and outcome.instead
    )
    for slug, count in first.most_common(1):
        if count > _COLLISION_SHARE * len(expected):
            return slug
    return ""


def _judge(report: TriggerReport, collision: str) -> list[Problem]:
    if collision:
        return [
            Problem(
                code="triggers-collide",
                severity="error",
                message=f"Most queries of this skill are answered by {collision!r}.",
                hint=f"Change that skill instead (`prowess compose --skill {collision} …`), or tell the two apart.",
                field="triggers",
            )
        ]
    if report.precision >= MIN_SHARE and report.recall >= MIN_SHARE:
        return []
    words = f"precision {report.precision:.2f}, recall {report.recall:.2f}"
    return [
        Problem(
            code="triggers-weak",
            severity="warning",
            message=f"Its own queries find this skill badly: {words}.",
            hint="Make the description and the trigger phrases more specific.",
            field="triggers",
        )
    ]


def _report_dangers(findings: Sequence[JsonObject], known: Sequence[JsonObject]) -> list[Problem]:
    """Return an error for each danger. Those of an existing skill are known: a person accepted it with them."""
    before = {(finding["kind"], finding["path"], finding["message"]) for finding in known}
    return [
        Problem(
            code="scan-danger",
            severity="error",
            message=str(finding["message"]),
            hint="Remove it, or write this part by hand.",
            field=str(finding["path"]),
            line=finding["line"],
        )
        for finding in findings
        if finding["severity"] == "danger" and (finding["kind"], finding["path"], finding["message"]) not in before
    ]


def _slug_taken(slug: str) -> Problem:
    return Problem(
        code="slug-taken",
        severity="error",
        message=f"A skill {slug!r} exists already.",
        hint=f"Ask for another slug, or change that skill: `prowess compose --skill {slug} …`.",
        field="slug",
    )
