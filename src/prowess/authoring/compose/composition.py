"""A composition and its rounds, as interfaces show them."""

from __future__ import annotations

from dataclasses import dataclass, fields

from prowess.authoring.compose.checks import COMPOSE_CODES, Checks
from prowess.authoring.compose.draft import Draft
from prowess.errors import Problem
from prowess.skill.kinds import JsonObject
from prowess.skill.validate import VALIDATION_CODES
from prowess.storage.compositions import CompositionRow, CompositionState, RoundRow
from prowess.storage.driver_errors import reading
from prowess.storage.rows import convert_row


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One draft, with what was found about it. `previous` is the round that it refines; 0 for the first."""

    number: int
    previous: int
    feedback: str
    actor: str
    model: str
    cost_usd: float | None
    digest: str
    draft: Draft
    files: tuple[tuple[str, int], ...]
    """The path and the size of each file."""
    checks: Checks
    created_at: str

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of the draft's artifacts, without its description and tests."""
        parts = {
            "instructions": self.draft.instructions,
            "prompt_template": self.draft.prompt_template,
            "code_template": self.draft.code_template,
            "dspy_module": self.draft.dspy_template,
        }
        return tuple(kind for kind, text in parts.items() if text)

    def as_json(self) -> JsonObject:
        """Return everything as plain JSON."""
        return {
            "number": self.number,
            "previous": self.previous,
            "feedback": self.feedback,
            "actor": self.actor,
            "model": self.model,
            "cost_usd": self.cost_usd,
            "digest": self.digest,
            "slug": self.draft.slug,
            "title": self.draft.title,
            "description": self.draft.description,
            "note": self.draft.note,
            "kinds": list(self.kinds),
            "files": [{"path": path, "size": size} for path, size in self.files],
            **self.checks.as_json(),
            "draft": self.draft.model_dump(mode="json"),
            "created_at": self.created_at,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Composition:
    """A skill that is being drafted. `skill` is the address of an existing one that is changed; '' for a new one."""

    id: str
    state: CompositionState
    request: str
    skill: str
    created_by: str
    created_at: str
    updated_at: str
    saved_as: str = ""
    saved_digest: str = ""
    number: int = 0
    """The current round; 0 before the first draft is ready."""
    round: Round | None = None
    """The current round, or the one that was asked for; None in lists."""

    def as_json(self) -> JsonObject:
        """Return everything as plain JSON."""
        shown = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in ("number", "round")}
        return {**shown, "current_round": self.number, "round": self.round.as_json() if self.round else None}

    def as_agent_json(self) -> JsonObject:
        """Return what an agent may know before a person has accepted the draft: no text that a model wrote.

        Problems are told by what their codes mean, because their messages quote the draft.
        """
        data: JsonObject = {"id": self.id, "state": self.state, "round": self.number}
        if self.saved_as:
            data["skill"] = self.saved_as.rpartition(":")[2]
        if self.round is None:
            return data
        found, triggers = self.round.checks, self.round.checks.triggers
        data |= {"slug": self.round.draft.slug, "digest": self.round.digest, "kinds": list(self.round.kinds)}
        data |= {
            "ok": found.ok,
            "problems": [_describe(problem) for problem in found.problems if problem.severity != "info"],
        }
        if triggers is not None:
            data["triggers"] = {name: triggers[name] for name in ("precision", "recall", "collides_with")}
        return data


def _describe(problem: Problem) -> JsonObject:
    meaning = COMPOSE_CODES.get(problem.code) or VALIDATION_CODES.get(problem.code) or ""
    return {"code": problem.code, "severity": problem.severity, "meaning": meaning, "line": problem.line}


def to_composition(row: CompositionRow, round: RoundRow | None = None) -> Composition:
    """Return a stored composition as interfaces show it."""
    return convert_row(row, Composition, number=row.round, round=to_round(round) if round else None)


def to_round(row: RoundRow) -> Round:
    """Return a stored round as interfaces show it."""
    with reading(f"Round {row.number} of the composition {row.composition_id}"):
        return convert_row(
            row,
            Round,
            cost_usd=row.cost,
            draft=Draft.model_validate(row.draft),
            files=tuple((str(path), int(size)) for path, _, size, _ in row.manifest),
            checks=Checks.from_json(row.checks),
        )


def event_data(row: CompositionRow, round: RoundRow | None) -> JsonObject:
    """Return what subscribers learn about a composition: never a text of it."""
    errors = sum(check["severity"] == "error" for check in round.checks["problems"]) if round else 0
    return {
        "composition_id": row.id,
        "state": row.state,
        "round": row.round,
        "skill": row.saved_as,
        "ok": bool(round) and not errors,
        "errors": errors,
    }
