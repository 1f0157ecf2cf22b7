"""A model that answers from a script: for tests, and for trying things out without a model."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from prowess.errors import Invalid, NotFound, ProwessError, RunFailed, TimedOut, Unavailable
from prowess.llm.model import Reply, Request, ToolCall, Usage, fit_schema

Condition = str | Callable[[Request], bool]
ScriptedReply = str | Reply | Exception | Mapping[str, Any]

CHUNK_CHARACTERS = 24
"""The length of a streamed chunk."""

_MAX_SHOWN = 400
_STEPS_HINT = "Pass a list whose steps are strings, JSON mappings, replies, exceptions or `Answer`s."


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A step for certain requests: `when` is a text that the request must contain, or a predicate on the request."""

    when: Condition
    reply: ScriptedReply


Step = ScriptedReply | Answer


class ScriptedModel:
    """Answers requests from a script, step by step.

    A step is a text, a mapping (sent as JSON), a whole `Reply`, an exception to raise, or an `Answer` for certain requests.
    Steps are used in order; with `unordered`, the first that matches, for concurrent requests. A request that no step
    matches raises `RunFailed` with what was asked and what was expected; `finish`, and leaving the `with` block, raise it if
    steps are left. The constructor raises `Invalid` for malformed steps. Tokens are estimated at four characters each,
    unless a `Reply` counts them.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        *,
        name: str = "scripted:test",
        family: str = "scripted",
        structured: bool = True,
        unordered: bool = False,
    ) -> None:
        self.name = name
        self.family = family
        self.structured = structured
        self.requests: list[Request] = []
        """The requests so far, with the schema in the prompt if `structured` is False."""
        self._steps = _check_steps(steps)
        self._unordered = unordered

    def __repr__(self) -> str:
        return f"<ScriptedModel {self.name}, {len(self._steps)} steps left>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.finish()

    @property
    def left(self) -> int:
        """The number of unused steps."""
        return len(self._steps)

    def finish(self) -> None:
        """Raise `RunFailed` if steps are left."""
        if self._steps:
            raise RunFailed(
                f"{'1 step' if self.left == 1 else f'{self.left} steps'} of the script {self.name} "
                f"{'was' if self.left == 1 else 'were'} not used. "
                f"The next is {_describe_step(self._steps[0])}.",
                hint="Make more requests, or remove what is left from the script.",
            )

    async def close(self) -> None:
        """Raise `RunFailed` if the model was used and steps are left."""
        # A model that was opened and never used is not an error.
        if self.requests:
            self.finish()

    async def complete(self, request: Request) -> Reply:
        """Return the reply of the matching step."""
        return self._next(request)

    async def stream(self, request: Request) -> AsyncGenerator[str | Reply]:
        """Yield the reply's text in chunks, and the whole `Reply` last."""
        reply = self._next(request)
        for start in range(0, len(reply.text), CHUNK_CHARACTERS):
            yield reply.text[start : start + CHUNK_CHARACTERS]
        yield reply

    def _next(self, request: Request) -> Reply:
        # As a real model would get it, so that tests see the prompt that is sent.
        request = fit_schema(request, structured=self.structured)
        self.requests.append(request)
        candidates = self._steps if self._unordered else self._steps[:1]
        for index, step in enumerate(candidates):
            if _matches(step, request):
                del self._steps[index]
                return _make_reply(step.reply if isinstance(step, Answer) else step, request, self.name)
        expected = " or ".join(_describe_step(step) for step in candidates[:3]) or "no more requests"
        raise RunFailed(
            f"Unexpected request number {len(self.requests)} for the script {self.name}: {_describe_request(request)}. "
            f"It expects {expected}.",
            hint="Add a step for it, or change the request.",
        )


def _check_steps(steps: object) -> list[Step]:
    """Return the steps as a list, or raise `Invalid`; a string is a sequence, too, but not a list of steps."""
    if isinstance(steps, (str, bytes, Mapping)) or not isinstance(steps, Iterable):
        quoted = _shorten(repr(cast("object", steps)))
        raise Invalid(f"A script is a list of steps, not {quoted}.", hint=_STEPS_HINT)
    listed = list(cast("Iterable[Any]", steps))
    for number, step in enumerate(listed, 1):
        answered: object = step.reply if isinstance(step, Answer) else step
        if not _is_reply(answered) or (isinstance(step, Answer) and not _is_condition(step.when)):
            raise Invalid(
                f"Step {number} of the script is not a valid answer: {_shorten(repr(step))}.", hint=_STEPS_HINT
            )
    return listed


def _is_reply(answered: object) -> bool:
    if isinstance(answered, Mapping):
        try:
            json.dumps(answered)
        except (TypeError, ValueError, RecursionError):
            return False
    return isinstance(answered, (str, Reply, Exception, Mapping))


def _is_condition(when: object) -> bool:
    return isinstance(when, str) or callable(when)


def _matches(step: Step, request: Request) -> bool:
    if not isinstance(step, Answer):
        return True
    return step.when in request_text(request) if isinstance(step.when, str) else step.when(request)


def _make_reply(answered: ScriptedReply, request: Request, name: str) -> Reply:
    if isinstance(answered, Exception):
        raise answered
    if not isinstance(answered, Reply):
        text = answered if isinstance(answered, str) else json.dumps(answered, ensure_ascii=False)
        answered = Reply(text=text)
    usage = answered.usage if answered.usage != Usage() else _estimate_usage(request, answered)
    return replace(answered, usage=usage, model=answered.model or name)


def _estimate_usage(request: Request, reply: Reply) -> Usage:
    written = reply.text + "".join(json.dumps(call.arguments) for call in reply.calls)
    return Usage(input_tokens=-(-len(request_text(request)) // 4), output_tokens=-(-len(written) // 4), requests=1)


def request_text(request: Request) -> str:
    """Return the text of all messages."""
    return "\n".join(message.text for message in request.messages)


def _describe_request(request: Request) -> str:
    turns = "; ".join(f"{message.role}: {message.text!r}" for message in request.messages)
    extras = f" with tools {', '.join(tool.name for tool in request.tools)}" if request.tools else ""
    return _shorten(turns) + extras + (" as JSON" if request.schema is not None else "")


def _describe_step(step: Step) -> str:
    if not isinstance(step, Answer):
        return f"any request, to answer {_shorten(repr(step))}"
    if isinstance(step.when, str):
        return f"a request with {_shorten(repr(step.when))}"
    return f"a request that satisfies {getattr(step.when, '__name__', 'its condition')}"


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


SCRIPT_HINT = (
    'A script is a list of steps. Each is a text, or an object with one of "text", "json", "calls" or "error", and with '
    '"when" (a text that occurs in the request) and "usage" where wanted.'
)
_MAX_SCRIPT_BYTES = 4 * 1024 * 1024
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
    message: str = "The script raised this error."


class _Step(_Part):
    text: str = ""
    data: Any = Field(default=None, alias="json")
    calls: list[_Call] = []
    error: _Error | None = None
    when: str = ""
    usage: _Usage = _Usage()

    @model_validator(mode="after")
    def _one_answer(self) -> Self:
        # By presence, not by value: `"json": null` and `"text": ""` are answers.
        if len(self.model_fields_set & {"text", "data", "calls", "error"}) != 1:
            raise ValueError('a step must have exactly one of "text", "json", "calls" and "error"')
        return self


class _Script(_Part):
    steps: list[str | _Step]
    family: str = "scripted"
    structured: bool = True
    unordered: bool = False


def read_script(path: Path) -> ScriptedModel:
    """Return the model whose script is in this JSON file, or raise `NotFound` or `Invalid`.

    The file holds a list of steps, or an object with `steps` and the model's properties.
    """
    document = _parse_script(path)
    try:
        script = _Script.model_validate({"steps": document} if isinstance(document, list) else document)
    except ValidationError as error:
        raise Invalid(f"The script {path} {_describe_problem(error)}.", hint=SCRIPT_HINT) from error
    return ScriptedModel(
        [step if isinstance(step, str) else _build_step(step) for step in script.steps],
        name=f"scripted:{path.name}",
        family=script.family,
        structured=script.structured,
        unordered=script.unordered,
    )


def _describe_problem(error: ValidationError) -> str:
    problems = error.errors()
    first = problems[0]
    place = first["loc"][:2]
    if first["type"] == "missing" and len(place) == 1:
        return f'is an object without "{place[0]}"'
    # A step that is not a text has two problems: that, and what is wrong with it as an object, which says more.
    nested = [problem for problem in problems if problem["loc"][:2] == place][-1]
    name = ".".join(str(part) for part in place) or "the top level"
    if nested["type"] == "extra_forbidden":
        return f'has an unknown field "{nested["loc"][-1]}"' + (f" at {name}" if len(place) > 1 else "")
    if nested["type"] == "value_error":
        return f"is not valid at {name}: {nested['msg'].removeprefix('Value error, ')}"
    return f"is not valid at {name}"


def _parse_script(path: Path) -> object:
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_SCRIPT_BYTES + 1)
    except OSError as error:
        raise NotFound(
            f"The script {path} cannot be read: {error.strerror}.", hint="Pass the path of a JSON file."
        ) from error
    if len(content) > _MAX_SCRIPT_BYTES:
        raise Invalid(f"The script {path} is larger than {_MAX_SCRIPT_BYTES:,} bytes.", hint=SCRIPT_HINT)
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"The script {path} is not valid JSON.", hint=SCRIPT_HINT) from error


def _build_step(step: _Step) -> Step:
    reply = _build_reply(step)
    return Answer(when=step.when, reply=reply) if step.when else reply


def _build_reply(step: _Step) -> ScriptedReply:
    if step.error is not None:
        return _ERRORS[step.error.code](step.error.message, hint="The script of the model contains this error.")
    text = json.dumps(step.data, ensure_ascii=False) if "data" in step.model_fields_set else step.text
    calls = tuple(
        ToolCall(id=call.id or f"call-{index}", name=call.name, arguments=call.arguments)
        for index, call in enumerate(step.calls, 1)
    )
    counted = "usage" in step.model_fields_set
    usage = Usage(
        input_tokens=step.usage.input_tokens, output_tokens=step.usage.output_tokens, requests=1 if counted else 0
    )
    return Reply(text=text, calls=calls, usage=usage)
