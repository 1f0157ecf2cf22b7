"""JSON for every interface: results and errors as the command line, the tools, MCP and an HTTP API return them.

A shape is written once, here or in the `as_json` method of its value, and never in an interface. Programs rely on these
shapes: add fields, but do not rename or remove any.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any, cast

from prowess.errors import ApprovalRequired, BudgetExceeded, Invalid, Problem, ProwessError

if TYPE_CHECKING:
    # Types only: a command imports this module and needs the models of one value, not of all.
    from prowess.catalog.importer import CheckResult, ImportResult
    from prowess.feed.usage import SkillUsage
    from prowess.match.trigger_eval import QueryOutcome, TriggerReport
    from prowess.match.trigger_phrases import Suggestion
    from prowess.plugins import InstalledPlugin
    from prowess.policy.actor import Actor
    from prowess.prompts.shelf import RegistryEntry
    from prowess.session.session import Session
    from prowess.session.turn import ContextPackage, Turn
    from prowess.skill.evals import TriggerSet
    from prowess.skill.package import File, Package
    from prowess.storage.approvals import ApprovalRow
    from prowess.storage.traces import Trace

JsonObject = dict[str, Any]

TRACE_TEXTS = ("detail", "inputs", "rendered_input", "raw_output")
"""Fields of a trace that lists omit: they may be large, and contain inputs."""


def to_json(value: object) -> Any:
    """Return a value as plain JSON: by its `as_json` method, as a pydantic model, or by the fields of a dataclass.

    Values inside lists, tuples and mappings are converted too. Anything else is returned as it is.
    """
    if hasattr(value, "as_json"):
        return cast("Any", value).as_json()
    if hasattr(value, "model_dump"):
        return cast("Any", value).model_dump(mode="json")
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, list | tuple):
        return [to_json(item) for item in cast("Iterable[object]", value)]
    if isinstance(value, Mapping):
        return {key: to_json(item) for key, item in cast("Mapping[object, object]", value).items()}
    return value


def error_json(error: ProwessError) -> JsonObject:
    """Return an error as an object: code, message and hint, with its problems, budget and approval if it has them."""
    view: JsonObject = {**error.as_json()}
    if isinstance(error, Invalid) and error.problems:
        view["problems"] = problems_json(error.problems)
    return view | _error_details(error)


_FIELD_FAULTS = {"missing": "Required, but missing", "extra_forbidden": "Unknown field"}


def describe_fault(fault: Mapping[str, Any]) -> str:
    """Return what is wrong with one field, from an error of pydantic, in words for those who do not know pydantic."""
    return _FIELD_FAULTS.get(str(fault.get("type"))) or str(fault.get("msg", "Invalid"))


def error_answer(error: ProwessError, *, default_hint: str = "") -> JsonObject:
    """Return an error as the answer to an agent, with the hint next to the error instead of inside it."""
    return {
        "error": {"code": error.code, "message": error.message},
        "hint": error.hint or default_hint,
        **_error_details(error),
    }


def _error_details(error: ProwessError) -> JsonObject:
    if isinstance(error, BudgetExceeded):
        return {"budget": {"limit": error.limit, "used": error.used, "need": error.need, "disable": list(error.room)}}
    return {"approval_id": error.approval_id} if isinstance(error, ApprovalRequired) else {}


def actor_json(actor: Actor) -> JsonObject:
    """Return who acts, and what they may do."""
    return {
        "organization_id": actor.organization,
        "user_id": actor.user,
        "name": actor.name,
        "kind": actor.kind,
        "permissions": sorted(actor.permissions),
        "channel": actor.channel,
    }


def problems_json(problems: Iterable[Problem]) -> list[JsonObject]:
    """Return problems as a list of objects."""
    return [asdict(problem) for problem in problems]


def checked_json(result: CheckResult) -> JsonObject:
    """Return the result of validating one path."""
    reading = result.report.reading if result.report else None
    skill = reading.skill if reading else None
    return {
        "path": str(result.path),
        "form": reading.form if reading and skill else None,
        "slug": skill.slug if skill else None,
        "title": skill.title if skill else None,
        "description": skill.description if skill else None,
        "ok": result.ok,
        "problems": problems_json(result.problems),
        "findings": [finding.as_json() for finding in result.findings],
    }


def imported_json(result: ImportResult) -> JsonObject:
    """Return the result of importing one path: the stored skill, or the error."""
    same = ("slug", "form", "version", "digest", "changed", "skipped", "chars")
    return {
        "path": str(result.path),
        **{name: getattr(result, name) for name in same},
        "problems": problems_json(result.problems),
        "findings": [finding.as_json() for finding in result.findings],
        "error": error_json(result.error) if result.error else None,
    }


def session_json(session: Session) -> JsonObject:
    """Return a session with its enabled skills and its budget."""
    details = [
        {
            "digest": skill.digest,
            "scope": skill.scope,
            "tokens": skill.tokens,
            "enabled_at": skill.enabled_at,
            "by": skill.by,
            "trust": skill.trust,
            "approval_id": skill.approval or None,
        }
        for skill in session.enabled
    ]
    state = session.state
    enabled = [{**short, **more} for short, more in zip(state["enabled_skills"], details, strict=True)]
    return {
        "id": session.id,
        "organization_id": session.organization,
        "user_id": session.user,
        "conversation": session.conversation,
        "actor": session.actor,
        "role": session.role,
        "model": session.model,
        "window": session.window,
        **state,
        "enabled_skills": enabled,
        "budget_used_tokens": session.tokens,
        "created_at": session.created_at,
        "updated_at": session.updated_at,
    }


def approval_json(row: ApprovalRow, *, card: str, package: Package | None, diff: str) -> JsonObject:
    """Return an approval with everything that a person needs to answer it, nothing cut. `card` is the text of its facts."""
    from prowess.policy.consent import list_findings
    from prowess.skill.text.hidden import show_hidden

    return {
        **asdict(row),
        "card": card,
        "card_sha256": hashlib.sha256(card.encode()).hexdigest(),
        "requests": list(row.detail.get("requests") or ()),
        "findings": list_findings(row.detail),
        "files": None if package is None else files_json(package),
        "diff": show_hidden(diff),
    }


def files_json(package: Package) -> list[JsonObject]:
    """Return the files of a skill for a person to review: hidden characters as escapes, null for what is not text."""
    return [_file_json(file) for file in package.files]


def _file_json(file: File) -> JsonObject:
    from prowess.scan.languages import text_of_file
    from prowess.skill.text.hidden import show_hidden

    text = text_of_file(file)
    shown = None if text is None else show_hidden(text)
    return {"path": file.path, "size": len(file.content), "sha256": file.entry.sha256, "text": shown}


def turn_json(package: ContextPackage, turn: Turn) -> JsonObject:
    """Return what was known about a message, what was decided, and what that put into the prompt."""
    session = turn.session or package.session
    return {
        "context": package.as_json(),
        "decision": turn.decision.as_json(),
        "text": turn.text,
        "artifacts": [to_json(artifact) for artifact in turn.artifacts],
        "session": session_json(session) if session else None,
    }


def trace_json(trace: Trace) -> JsonObject:
    """Return a trace without its texts, as lists show it."""
    return {name: value for name, value in asdict(trace).items() if name not in TRACE_TEXTS}


def usage_json(slug: str, title: str, scope: str, usage: SkillUsage) -> JsonObject:
    """Return how a skill was used."""
    return {
        "slug": slug,
        "title": title,
        "scope": scope,
        "loads": usage.loads,
        "runs": usage.runs,
        "last_loaded": usage.last_loaded or None,
        "last_run": usage.last_run or None,
        "last_enabled": usage.last_enabled or None,
    }


def entry_json(entry: RegistryEntry) -> JsonObject:
    """Return a prompt or rubric of a registry, without its content."""
    return {
        "kind": entry.kind,
        "id": entry.id,
        "version": entry.version,
        "origin": entry.origin,
        "location": entry.location,
        "description": entry.value.description if entry.value is not None else "",
        "ok": entry.value is not None,
        "problems": problems_json(entry.problems),
    }


def plugin_json(installed: InstalledPlugin) -> JsonObject:
    """Return an installed plugin and what it provides, or its problem."""
    plugin = installed.plugin
    return {
        "name": installed.name,
        "distribution": installed.distribution,
        "version": installed.version,
        "ok": plugin is not None,
        "packs": [str(pack) for pack in plugin.packs] if plugin else [],
        "stores": [{"scope": store.scope, "location": store.location} for store in plugin.stores] if plugin else [],
        "kinds": [kind.name for kind in plugin.kinds] if plugin else [],
        "handlers": [handler.kind for handler in plugin.handlers] if plugin else [],
        "forms": [form.name for form in plugin.forms] if plugin else [],
        "assertions": [assertion.name for assertion in plugin.assertions] if plugin else [],
        "embedders": list(plugin.embedders) if plugin else [],
        "tools": [tool.function.__name__ for tool in plugin.tools] if plugin else [],
        "problem": installed.problem,
    }


def evaluation_json(
    report: TriggerReport, evals: TriggerSet, suggestions: Sequence[Suggestion], *, ok: bool
) -> JsonObject:
    """Return how well a skill is triggered by its queries, and the trigger phrases that would help."""
    wanted = sum(outcome.case.should_trigger for outcome in report.outcomes)
    return {
        "slug": report.slug,
        "ok": ok,
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
        "queries": [_query_json(outcome) for outcome in report.outcomes],
        "confusions": report.confusions,
        "add_words": [word for word, _ in report.add],
        "drop_words": [word for word, _ in report.drop],
        "suggestions": to_json(list(suggestions)),
        "problems": problems_json(evals.problems),
    }


def _query_json(outcome: QueryOutcome) -> JsonObject:
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
