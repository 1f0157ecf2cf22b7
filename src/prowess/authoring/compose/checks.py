"""Check a draft: its files as an import checks them, its code in the sandbox, its queries against the catalog.

The code runs once, with example inputs. Its host functions are answered by a stand-in that touches nothing: no page, no model
and no other skill. It takes the same arguments as the real functions and answers in the same shapes, so that code which would
fail on them fails here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, cast

from prowess.authoring.compose.draft import Draft
from prowess.catalog.store import SearchDocument
from prowess.errors import Invalid, Problem, Unavailable
from prowess.handlers.host_functions import HOST_FUNCTION_NAMES, Refusals, expose_methods
from prowess.handlers.sandbox_failures import CodeLabel, explain_failure
from prowess.match.trigger_eval import TriggerReport, evaluate_triggers
from prowess.sandbox.protocol import Sandbox, SandboxLimits
from prowess.sandbox.script import script_from_template
from prowess.scan import scan_package
from prowess.skill.evals import find_eval_paths, read_trigger_set
from prowess.skill.forms.form import error, warning
from prowess.skill.json_values import json_object
from prowess.skill.kinds import CodeTemplate, JsonObject
from prowess.skill.limits import Limits
from prowess.skill.model import Skill
from prowess.skill.package import Package
from prowess.skill.schema import compile_schema
from prowess.skill.validate import validate
from prowess.threads import offload

if TYPE_CHECKING:
    from prowess.match.matcher import Matcher


DRY_RUN_LIMITS = SandboxLimits(fuel=5_000_000_000, seconds=5.0, calls=50)
"""About a second of CPU: drafts are tried while a person waits."""

DRY_RUN_CODES = {
    "dry-run-failed": "The code failed in the dry run, or hit a limit of the sandbox.",
    "dry-run-skipped": "The code was not run, because the sandbox is not available here.",
}
_SHOWN = 2_000
_PAGE: JsonObject = {
    "slug": "example-page",
    "title": "Example page",
    "type": "note",
    "tags": ["example"],
    "path": "example-page.md",
}
_TEXT = "An example page. It links to [[other-page]]."


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """How a dry run ended, which host functions it called, and what it submitted or printed, cut."""

    ok: bool
    problems: tuple[Problem, ...] = ()
    calls: tuple[str, ...] = ()
    output: str = ""

    def as_json(self) -> JsonObject:
        """Return it as JSON, without the problems, which stand with the others."""
        return {"ok": self.ok, "calls": list(self.calls), "output": self.output}


async def try_code(code: str, inputs: Mapping[str, Any], sandbox: Sandbox, *, field: str) -> DryRun:
    """Run a code template in the sandbox. Never raises for what the code does; `field` names it in problems."""
    stand_in, refusals = StandIn(), Refusals()
    # In a run of the whole skill, the answer to the prompt is among the inputs.
    values = {"previous": "An example answer.", "prompt": "An example answer.", **inputs}
    try:
        script = script_from_template(code, values)
        functions = expose_methods(stand_in, HOST_FUNCTION_NAMES, refusals)
        ran = await sandbox.run(script, functions, DRY_RUN_LIMITS)
    except Invalid as fault:
        return DryRun(ok=False, problems=fault.problems or (_failed(fault.message, fault.hint, field),))
    except Unavailable as fault:
        skipped = warning("dry-run-skipped", f"The code was not run: {fault.message}", fault.hint, field=field)
        return DryRun(ok=True, problems=(skipped,))
    calls = tuple(dict.fromkeys(stand_in.calls))
    if ran.ended != "done":
        fault = explain_failure(CodeLabel(called="the code"), ran, DRY_RUN_LIMITS, refusals)
        line = ran.error.line if ran.error else None
        return DryRun(ok=False, problems=(_failed(fault.message, fault.hint, field, line),), calls=calls)
    output = str(ran.result) if ran.submitted else ran.stdout
    return DryRun(ok=True, calls=calls, output=output[:_SHOWN])


def _failed(message: str, hint: str, field: str, line: int | None = None) -> Problem:
    return error("dry-run-failed", f"Dry run: {message}", hint, field=field, line=line)


class StandIn:
    """Answers the host functions of a script with examples. The signatures are those of `HostFunctions`."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def workspace_search(self, query: str, limit: int = 20) -> Any:
        """Return an example page."""
        return self._answer("workspace_search", [{**_PAGE, "score": 1.0, "snippet": query[:200]}][:limit])

    async def search(self, query: str, limit: int = 20) -> Any:
        """Return an example page."""
        return await self.workspace_search(query, limit)

    async def get_page(self, slug: str) -> Any:
        """Return an example page under this slug."""
        return self._answer("get_page", _page(slug))

    async def get_pages(self, slugs: list[str]) -> Any:
        """Return an example page for each slug."""
        return self._answer("get_pages", [_page(slug) for slug in slugs])

    async def get_pages_by_type(self, type: str) -> Any:
        """Return an example page of this type."""
        return self._answer("get_pages_by_type", [{**_PAGE, "type": type}])

    async def get_tags(self) -> Any:
        """Return an example tag."""
        return self._answer("get_tags", [{"tag": "example", "pages": 1}])

    async def get_references(self, slug: str) -> Any:
        """Return an example link."""
        return self._answer("get_references", {"slug": slug, "links": [_PAGE], "backlinks": [], "missing": []})

    async def get_history(self, slug: str, limit: int = 20) -> Any:
        """Return an example commit."""
        commit = {"commit": "0" * 40, "at": "2026-01-01T00:00:00+00:00", "author": "Ann", "subject": f"Edit {slug}"}
        return self._answer("get_history", [commit][:limit])

    async def llm_query(self, prompt: str, max_tokens: int | None = None, schema: dict[str, Any] | None = None) -> Any:
        """Return an example answer, which satisfies the schema if there is one."""
        [answer] = await self.llm_query_batched([prompt], max_tokens, schema)
        return answer

    async def llm_query_batched(
        self,
        prompts: list[str],
        max_tokens: int | None = None,  # noqa: ARG002  (the signature of the real function)
        schema: dict[str, Any] | None = None,
    ) -> list[Any]:
        """Return an example answer for each prompt."""
        answer = "An example answer." if schema is None else make_example(schema)
        return self._answer("llm_query", [answer for _ in prompts])

    async def run_skill(self, skill_id: str, params: dict[str, Any] | None = None) -> Any:
        """Return an example output."""
        return self._answer("run_skill", f"An example output of {skill_id} with {len(params or {})} inputs.")

    async def checkpoint(self, value: Any = None) -> None:
        """Do nothing."""
        self._answer("checkpoint", value)

    def _answer(self, name: str, value: Any) -> Any:
        self.calls.append(name)
        return value


def _page(slug: str) -> JsonObject:
    return {**_PAGE, "slug": slug, "path": f"{slug}.md", "fields": {}, "content": _TEXT}


def make_example(schema: JsonObject) -> Any:
    """Return a value that satisfies a JSON Schema of the usual kind; raise `Invalid` if none is found."""
    value = _example_of(schema, 0)
    if not compile_schema(schema).fits(value):
        raise Invalid("The dry run has no example for this schema.", hint="Use type, properties, items and enum.")
    return value


_SCALARS: dict[str, Any] = {"string": "An example.", "integer": 1, "number": 1.0, "boolean": True, "null": None}
_DEEPEST = 8


def _example_of(schema: object, depth: int) -> Any:
    definition = json_object(schema)
    for key in ("const", "default"):
        if key in definition:
            return definition[key]
    if isinstance(definition.get("enum"), list) and definition["enum"]:
        return definition["enum"][0]
    types = definition.get("type")
    # Of several types, as in ["string", "null"], the first.
    kind = next(iter(cast("list[object]", types)), "") if isinstance(types, list) else cast("object", types)
    if kind == "array":
        return [] if depth >= _DEEPEST else [_example_of(definition.get("items"), depth + 1)]
    if kind == "object" or "properties" in definition:
        named = json_object(definition.get("properties")) if depth < _DEEPEST else {}
        return {name: _example_of(one, depth + 1) for name, one in named.items()}
    return _SCALARS.get(kind if isinstance(kind, str) else "", "An example.")


COMPOSE_CODES = {
    **DRY_RUN_CODES,
    "slug-taken": "Another skill has the slug of a draft.",
    "triggers-collide": "Most queries of a draft are answered by one other skill.",
    "triggers-weak": "A draft does not match its own queries, or matches others.",
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
            error(
                "triggers-collide",
                f"Most queries of this skill are answered by {collision!r}.",
                f"Change that skill instead (`prowess compose --skill {collision} …`), or make the two more distinct.",
                field="triggers",
            )
        ]
    if report.precision >= MIN_SHARE and report.recall >= MIN_SHARE:
        return []
    words = f"precision {report.precision:.2f}, recall {report.recall:.2f}"
    return [
        warning(
            "triggers-weak",
            f"The skill does not match its own queries well: {words}.",
            "Make the description and the trigger phrases more specific.",
            field="triggers",
        )
    ]


def _report_dangers(findings: Sequence[JsonObject], known: Sequence[JsonObject]) -> list[Problem]:
    """Return an error for each danger. Those of an existing skill are known: a person accepted it with them."""
    before = {(finding["kind"], finding["path"], finding["message"]) for finding in known}
    return [
        error(
            "scan-danger",
            str(finding["message"]),
            "Remove it, or write this part by hand.",
            field=str(finding["path"]),
            line=finding["line"],
        )
        for finding in findings
        if finding["severity"] == "danger" and (finding["kind"], finding["path"], finding["message"]) not in before
    ]


def _slug_taken(slug: str) -> Problem:
    hint = f"Ask for another slug, or change that skill: `prowess compose --skill {slug} …`."
    return error("slug-taken", f"A skill {slug!r} already exists.", hint, field="slug")
