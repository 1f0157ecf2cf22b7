"""What came of running a skill: one part for each artifact that ran, and the whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from prowess.errors import ProwessError
from prowess.llm.model import Request, Usage
from prowess.run.call import Output, Sent, Verdict
from prowess.run.producing import Produced
from prowess.skill.kinds import JsonObject, Kind
from prowess.traces.trace import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One artifact that ran. `error` is why it gave no good output; `trace` is the id of its row."""

    artifact: str
    kind: Kind
    variant: str | None = None
    status: Status
    trace: str
    traced: bool = True
    """Whether the row is known to be kept."""
    output: Output | None = None
    verdicts: tuple[Verdict, ...] = ()
    error: ProwessError | None = None
    fallback_of: str | None = None
    """The artifact in whose place it ran."""
    model: str = ""
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    duration_ms: int = 0
    sent: tuple[Sent, ...] = ()
    """In a dry run, what would be sent."""
    plan: str = ""
    """In a dry run, what else would be done: a call, a request, a command."""
    printed: str = ""
    """What the code of a script or a function printed."""
    receipt: JsonObject = field(default_factory=dict[str, Any])
    """What was declared, touched and refused outside the run; empty where there is nothing to tell."""
    resumable: bool = False
    """Whether it can go on from a checkpoint."""

    def as_json(self) -> JsonObject:
        """All of it as plain JSON."""
        told: JsonObject = {
            "artifact": self.artifact,
            "kind": self.kind,
            "variant": self.variant,
            "status": self.status,
            "trace": self.trace,
            "traced": self.traced,
            "output": None if self.output is None else self.output.value,
            "result": self.output.result if self.output else {},
            "verdicts": [verdict_json(verdict) for verdict in self.verdicts],
            "error": None if self.error is None else {"code": self.error.code, "message": self.error.message},
            "fallback_of": self.fallback_of,
            "model": self.model or None,
            "input_tokens": self.usage.input_tokens,
            "output_tokens": self.usage.output_tokens,
            "cost_usd": self.cost,
            "duration_ms": self.duration_ms,
            "receipt": self.receipt or None,
            "resumable": self.resumable,
        }
        if self.printed:
            told["printed"] = self.printed
        if self.plan:
            told["would_do"] = self.plan
        return {**told, "would_send": [_sent(one) for one in self.sent]} if self.sent else told


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What came of a run. `text` and `data` are those of the last artifact that gave an output."""

    run_id: str
    skill: str
    parts: tuple[Part, ...]
    produced: tuple[Produced, ...] = ()
    waiting: tuple[str, ...] = ()
    """In a dry run, the artifacts that depend on an answer that was not asked for."""

    @property
    def error(self) -> ProwessError | None:
        """Why the run failed; None where it did not. A part whose place another took does not count."""
        taken = {part.fallback_of for part in self.parts}
        return next((part.error for part in self.parts if part.error and part.artifact not in taken), None)

    @property
    def ok(self) -> bool:
        """Whether every artifact gave something good."""
        return self.error is None

    @property
    def output(self) -> Output | None:
        """The last output."""
        return next((part.output for part in reversed(self.parts) if part.output is not None), None)

    @property
    def text(self) -> str:
        """The last output as text."""
        return self.output.text if self.output else ""

    @property
    def data(self) -> Any:
        """The last output as data; None where it is text alone."""
        return self.output.data if self.output else None

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """What every assertion of every artifact said."""
        return tuple(verdict for part in self.parts for verdict in part.verdicts)

    @property
    def usage(self) -> Usage:
        """The tokens of all parts."""
        return sum((part.usage for part in self.parts), Usage())

    @property
    def cost(self) -> float | None:
        """What is known of the cost, in US dollars; None where no price is known."""
        known = [part.cost for part in self.parts if part.cost is not None]
        return sum(known) if known else None

    def as_json(self) -> JsonObject:
        """All of it as plain JSON."""
        error = self.error
        return {
            "run_id": self.run_id,
            "skill": self.skill,
            "ok": self.ok,
            "output": None if self.output is None else self.output.value,
            "parts": [part.as_json() for part in self.parts],
            "produced": [one.as_json() for one in self.produced],
            "input_tokens": self.usage.input_tokens,
            "output_tokens": self.usage.output_tokens,
            "cost_usd": self.cost,
            **({"waiting": list(self.waiting)} if self.waiting else {}),
            "error": error and {"code": error.code, "message": error.message, "hint": error.hint},
        }


def verdict_json(verdict: Verdict) -> JsonObject:
    """A verdict as plain JSON, as traces keep it too."""
    return {
        "type": verdict.type,
        "description": verdict.description,
        "passed": verdict.passed,
        "severity": verdict.severity,
        "explanation": verdict.explanation,
    }


def _sent(sent: Sent) -> JsonObject:
    return {"model": sent.model, "purpose": sent.purpose, **request_json(sent.request)}


def request_json(request: Request) -> JsonObject:
    """A request as plain JSON, whole."""
    told: JsonObject = {"messages": [{"role": one.role, "content": one.text} for one in request.messages]}
    for name in ("schema", "temperature", "max_tokens"):
        if getattr(request, name) is not None:
            told[name] = getattr(request, name)
    return told
