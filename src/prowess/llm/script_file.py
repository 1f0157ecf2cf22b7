"""Scripts of a `ScriptedModel` as they stand in files: a JSON list of steps, or an object with `steps` and what it is like."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from prowess.errors import Invalid, NotFound, ProwessError, RunFailed, TimedOut, Unavailable
from prowess.llm.model import Reply, ToolCall, Usage
from prowess.llm.scripted import Answer, Answered, ScriptedModel, Step

HINT = (
    'A script is a list of steps. Each is a text, or an object with one of "text", "json", "calls" or "error", and with '
    '"when" (a text that occurs in the request) and "usage" where wanted.'
)
_LIMIT = 4 * 1024 * 1024
_ERRORS: dict[str, type[ProwessError]] = {"unavailable": Unavailable, "run-failed": RunFailed, "timed-out": TimedOut}


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class _Call(_Part):
    id: str = ""
    name: str
    arguments: dict[str, Any] = {}


class _Usage(_Part):
    input_tokens: int = Field(default=0, ge=0)
    output_tokens: int = Field(default=0, ge=0)


class _Error(_Part):
    code: Literal["unavailable", "run-failed", "timed-out"]
    message: str = "The script says so."


class _Step(_Part):
    text: str = ""
    data: Any = Field(default=None, alias="json")
    calls: list[_Call] = []
    error: _Error | None = None
    when: str = ""
    usage: _Usage = _Usage()

    @model_validator(mode="after")
    def _one_answer(self) -> Self:
        if len(self.model_fields_set & {"text", "data", "calls", "error"}) != 1:
            raise ValueError("a step has one answer")
        return self


class _Script(_Part):
    steps: list[str | _Step]
    family: str = "scripted"
    structured: bool = True
    unordered: bool = False


def read_script(path: Path) -> ScriptedModel:
    """The model whose script is in this file; `NotFound` or `Invalid` where it cannot be read."""
    document = _document(path)
    try:
        script = _Script.model_validate({"steps": document} if isinstance(document, list) else document)
    except ValidationError as error:
        raise Invalid(f"The script {path} {_fault(error)}.", hint=HINT) from error
    return ScriptedModel(
        [step if isinstance(step, str) else _step(step) for step in script.steps],
        name=f"scripted:{path.name}",
        family=script.family,
        structured=script.structured,
        unordered=script.unordered,
    )


def _fault(error: ValidationError) -> str:
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"][:2])
    if first["type"] == "missing" and len(first["loc"]) == 1:
        return f'is an object without "{place}"'
    return f"cannot be read, at {place or 'its top'}"


def _document(path: Path) -> object:
    try:
        with path.open("rb") as file:
            content = file.read(_LIMIT + 1)
    except OSError as error:
        raise NotFound(
            f"The script {path} cannot be read: {error.strerror}.", hint="Give the path of a JSON file."
        ) from error
    if len(content) > _LIMIT:
        raise Invalid(f"The script {path} is larger than {_LIMIT:,} bytes.", hint=HINT)
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"The script {path} is no JSON.", hint=HINT) from error


def _step(step: _Step) -> Step:
    answered = _answered(step)
    return Answer(when=step.when, reply=answered) if step.when else answered


def _answered(step: _Step) -> Answered:
    if step.error is not None:
        return _ERRORS[step.error.code](step.error.message, hint="It is an error of a script.")
    text = json.dumps(step.data, ensure_ascii=False) if "data" in step.model_fields_set else step.text
    calls = tuple(
        ToolCall(id=call.id or f"call-{place}", name=call.name, arguments=call.arguments)
        for place, call in enumerate(step.calls, 1)
    )
    counted = "usage" in step.model_fields_set
    usage = Usage(
        input_tokens=step.usage.input_tokens, output_tokens=step.usage.output_tokens, requests=1 if counted else 0
    )
    return Reply(text=text, calls=calls, usage=usage)
