"""The result of a run: one part for each artifact that ran, the files it produced, and the whole as JSON."""

from __future__ import annotations

import json
import mimetypes
import re
from dataclasses import field
from typing import Any, cast

from prowess.errors import ProwessError
from prowess.lazy_dataclass import dataclass
from prowess.llm.model import Request, Usage
from prowess.run.call import Output, SentRequest, Verdict
from prowess.skill.json_values import json_list
from prowess.skill.kinds import JsonObject, Kind
from prowess.skill.model import Skill
from prowess.storage.traces import RunStatus

FIELD = "produces_artifacts"
_MEDIA_TYPE = re.compile(r"[a-z0-9.+-]{1,60}/[a-z0-9.+-]{1,60}", re.IGNORECASE | re.ASCII)
_MOST = 20
_NAME_LIMIT = 120
_NAMES = ("name", "artifact", "path", "type")
_TYPES = ("media_type", "mime_type", "content_type")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducedFile:
    """A file that a run produced. `name` has no folder."""

    name: str
    media_type: str
    content: str

    def as_json(self) -> JsonObject:
        """Return everything as plain JSON."""
        return {"name": self.name, "media_type": self.media_type, "content": self.content}


def produce_files(skill: Skill, output: Output | None) -> tuple[ProducedFile, ...]:
    """Return the files that the skill declares, each with the output or with the field of its name."""
    if output is None:
        return ()
    files = (_made(entry, output) for entry in json_list(skill.extra.get(FIELD))[:_MOST])
    return tuple(file for file in files if file is not None)


def declared_files(skill: Skill) -> tuple[tuple[str, str], ...]:
    """Return the declared files: each as written, and its safe name; '' if it gets none."""
    written = [_first_text(_settings(entry), _NAMES) for entry in json_list(skill.extra.get(FIELD))]
    return tuple((name, _plain_name(name) if index < _MOST else "") for index, name in enumerate(written))


def _settings(entry: object) -> dict[str, object]:
    return cast("dict[str, object]", entry) if isinstance(entry, dict) else {"name": entry}


def _made(entry: object, output: Output) -> ProducedFile | None:
    settings = _settings(entry)
    name = _plain_name(_first_text(settings, _NAMES))
    if not name:
        return None
    media_type = next((text for text in [_first_text(settings, _TYPES)] if _MEDIA_TYPE.fullmatch(text)), "")
    value = _part_of(output, name)
    guessed = mimetypes.guess_type(name)[0] or ("text/plain" if isinstance(value, str) else "application/json")
    content = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2) + "\n"
    # A lone surrogate in an answer could not be written to a file.
    return ProducedFile(
        name=name, media_type=media_type or guessed, content=content.encode("utf-8", "replace").decode()
    )


def _first_text(settings: dict[str, object], keys: tuple[str, ...]) -> str:
    return next((text for key in keys if isinstance(text := settings.get(key), str)), "")


def _part_of(output: Output, name: str) -> Any:
    stem = name.rpartition(".")[0] or name
    data = output.data
    if isinstance(data, dict):
        fields = cast("JsonObject", data)
        for key in (name, stem, stem.replace("-", "_")):
            if key in fields:
                return fields[key]
    return output.value


def _plain_name(text: str) -> str:
    """Return the last part of a path if it is a safe file name, else ''."""
    name = text.replace("\\", "/").rpartition("/")[2].strip()
    # The skill chooses the name, and an interface may write the file: a path or a hidden file could replace
    # something.
    fit = name.isprintable() and name not in (".", "..") and not name.startswith(".") and len(name) <= _NAME_LIMIT
    return name if fit else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPart:
    """One artifact that ran. `trace` is the id of its trace row."""

    artifact: str
    kind: Kind
    variant: str | None = None
    status: RunStatus
    trace: str
    traced: bool = True
    """True if the trace row is known to be stored."""
    output: Output | None = None
    result: JsonObject = field(default_factory=dict[str, Any])
    """The output's result in the terms of its kind; also of a generation or review that failed."""
    verdicts: tuple[Verdict, ...] = ()
    error: ProwessError | None = None
    fallback_of: str | None = None
    """The artifact that it replaced."""
    model: str = ""
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    duration_ms: int = 0
    sent: tuple[SentRequest, ...] = ()
    """In a dry run, the model requests that would be sent."""
    plan: str = ""
    """In a dry run, what else would be done: a call, a request, a command."""
    printed: str = ""
    """What the code of the artifact printed."""
    receipt: JsonObject = field(default_factory=dict[str, Any])
    """What was declared, used and refused outside the run; may be empty."""
    resumable: bool = False
    """True if it can be resumed from a checkpoint."""

    def as_json(self) -> JsonObject:
        """Return everything as plain JSON."""
        view: JsonObject = {
            "artifact": self.artifact,
            "kind": self.kind,
            "variant": self.variant,
            "status": self.status,
            "trace": self.trace,
            "traced": self.traced,
            "output": None if self.output is None else self.output.value,
            "result": self.result,
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
            view["printed"] = self.printed
        if self.plan:
            view["would_do"] = self.plan
        return {**view, "would_send": [_sent(request) for request in self.sent]} if self.sent else view


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """The result of a run. `text` and `data` are those of the last output."""

    run_id: str
    skill: str
    parts: tuple[RunPart, ...]
    produced: tuple[ProducedFile, ...] = ()
    waiting: tuple[str, ...] = ()
    """In a dry run, the artifacts that depend on an answer that was not requested."""

    @property
    def error(self) -> ProwessError | None:
        """Why the run failed; None if it succeeded. A part that a fallback replaced does not count."""
        taken = {part.fallback_of for part in self.parts}
        return next((part.error for part in self.parts if part.error and part.artifact not in taken), None)

    @property
    def ok(self) -> bool:
        """True if every artifact succeeded."""
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
        """The last output as data; None if it is text."""
        return self.output.data if self.output else None

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The verdicts of all assertions."""
        return tuple(verdict for part in self.parts for verdict in part.verdicts)

    @property
    def usage(self) -> Usage:
        """The tokens of all parts."""
        return sum((part.usage for part in self.parts), Usage())

    @property
    def cost(self) -> float | None:
        """The known cost in US dollars; None if no price is known."""
        known = [part.cost for part in self.parts if part.cost is not None]
        return sum(known) if known else None

    def as_json(self) -> JsonObject:
        """Return everything as plain JSON."""
        return {
            "run_id": self.run_id,
            "skill": self.skill,
            "ok": self.ok,
            "output": None if self.output is None else self.output.value,
            "parts": [part.as_json() for part in self.parts],
            "produced": [file.as_json() for file in self.produced],
            "input_tokens": self.usage.input_tokens,
            "output_tokens": self.usage.output_tokens,
            "cost_usd": self.cost,
            **({"waiting": list(self.waiting)} if self.waiting else {}),
            "error": self.error and self.error.as_json(),
        }


def verdict_json(verdict: Verdict) -> JsonObject:
    """Return a verdict as plain JSON, as traces store it."""
    return {
        "type": verdict.type,
        "description": verdict.description,
        "passed": verdict.passed,
        "severity": verdict.severity,
        "explanation": verdict.explanation,
    }


def _sent(sent: SentRequest) -> JsonObject:
    return {"model": sent.model, "purpose": sent.purpose, **request_json(sent.request)}


def request_json(request: Request) -> JsonObject:
    """Return a request as plain JSON."""
    view: JsonObject = {"messages": [{"role": message.role, "content": message.text} for message in request.messages]}
    for name in ("schema", "temperature", "max_tokens"):
        if getattr(request, name) is not None:
            view[name] = getattr(request, name)
    return view
