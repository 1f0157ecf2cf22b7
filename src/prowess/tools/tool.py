"""One tool as an agent sees it: its arguments, the context it runs in, its answer and its errors."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from prowess.engine.engine import Engine
from prowess.errors import Invalid, Problem, ProwessError
from prowess.llm.model import Model
from prowess.policy.actor import Actor
from prowess.policy.text import clean_text
from prowess.run.request import RunRequest, StepListener, ignore_step
from prowess.session.session import Session
from prowess.skill.needs import Reach
from prowess.view import error_answer


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAnswer:
    """The answer to a call. With an `error`, `data` says what went wrong and what to do."""

    data: dict[str, Any]
    error: ProwessError | None = None

    @property
    def ok(self) -> bool:
        """True if the tool did what it was asked."""
        return self.error is None


@dataclass(slots=True, kw_only=True)
class ToolContext:
    """What the tools of one agent work with.

    `conversation` names the agent's session, which is opened when a tool first needs it. With `return_content`, enabling a
    skill also returns its text, for agents whose system prompt we do not write. `on_step` receives the progress of runs,
    and `fallback_model` is asked if no model is configured. `reserved` are names that the tool of a skill cannot have.
    """

    engine: Engine
    conversation: str = ""
    return_content: bool = False
    on_step: StepListener = ignore_step
    fallback_model: Model | None = None
    reserved: frozenset[str] = frozenset()
    _session: str = field(default="", init=False)

    def run_request(self, slug: str, artifact: str, inputs: Mapping[str, Any]) -> RunRequest:
        """Return the request to run an artifact of a skill for this agent; '' for the whole skill."""
        return RunRequest(
            slug=slug,
            artifacts=(artifact,) if artifact else (),
            inputs=inputs,
            session=self.conversation,
            fallback_model=self.fallback_model,
            on_step=self.on_step,
        )

    @property
    def actor(self) -> Actor:
        """Who calls the tools."""
        return self.engine.actor

    async def find_session(self) -> Session | None:
        """Return the open session of the conversation, or None. Open nothing."""
        if not self.conversation:
            return None
        return await self.engine.sessions.find(self._session or self.conversation)

    async def acting(self) -> Actor:
        """Return the agent in its own role, or else in the role of its session."""
        if self.actor.role or not self.conversation:
            return self.actor
        return await self.engine.sessions.acting(self._session or self.conversation)

    async def session(self) -> Session:
        """Return the session of the conversation as it is now; open it if necessary."""
        if self._session:
            return await self.engine.sessions.get(self._session)
        self.require_conversation()
        # Opened only now: listing or loading skills must not leave a session behind.
        session = await self.engine.sessions.open(self.conversation, role=self.actor.role)
        self._session = session.id
        return session

    def require_conversation(self) -> None:
        """Raise `Invalid` if the agent has no conversation, and therefore no prompt of ours."""
        if not self.conversation:
            raise Invalid(
                "This agent has no conversation in which skills could be enabled.",
                hint="Load the skill instead, with load_skill.",
            )


PROBLEM_LIMIT = 20
"""How many wrong arguments are reported at once."""


def make_arguments_model(function: Any) -> type[BaseModel]:
    """Return a model of the arguments of a tool function, without its first, the context."""
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {
        name: (hints[name], ... if parameter.default is parameter.empty else parameter.default)
        for name, parameter in list(inspect.signature(function).parameters.items())[1:]
    }
    # A wrong argument is reported instead of converted or ignored, so that the agent can correct its call.
    config = ConfigDict(extra="forbid", strict=True)
    return create_model(function.__name__, __config__=config, **fields)


def make_arguments_schema(arguments: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON Schema that an agent sees."""
    schema = arguments.model_json_schema()
    # Pydantic derives titles from the names; agents would pay tokens for them.
    schema.pop("title", None)
    for value in schema.get("properties", {}).values():
        value.pop("title", None)
    return schema


def check_arguments(arguments: type[BaseModel], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values to call with, or raise `Invalid` with what is wrong and what the tool takes."""
    try:
        model = arguments.model_validate(given)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)[:PROBLEM_LIMIT]
        problems = [_make_problem(fault["loc"], fault["msg"]) for fault in faults]
        messages = "; ".join(problem.message for problem in problems)
        raise Invalid(
            f"{arguments.__name__} cannot be called like this: {messages}.",
            hint=_describe_arguments(arguments),
            problems=problems,
        ) from error
    values = {name: getattr(model, name) for name in type(model).model_fields}
    check_text(arguments.__name__, values)
    return values


def check_text(tool: str, values: Mapping[str, Any]) -> None:
    """Raise `Invalid` if a text at any depth cannot be encoded or stored."""
    for name, value in values.items():
        if any(map(_is_broken_text, _walk_texts([name, value]))):
            raise Invalid(
                f"{tool} cannot be called like this: {clean_text(name, limit=80)} has a NUL or half of a surrogate pair, which is no text.",
                hint="Write the whole character, or leave it out.",
            )


def _describe_arguments(arguments: type[BaseModel]) -> str:
    return f"It takes {', '.join(arguments.model_fields) or 'no arguments'}."


def _make_problem(place: tuple[int | str, ...], said: str) -> Problem:
    """Describe one wrong argument. The name of an unknown argument may be anything, so it is cut."""
    field = ".".join(clean_text(str(part), limit=80) for part in place) or "arguments"
    return Problem(code="argument", severity="error", message=f"{field}: {clean_text(said, limit=200)}", field=field)


def _walk_texts(value: object) -> Iterator[str]:
    """Yield every text in a value, including the keys of mappings. Not recursive, so that depth cannot overflow the stack."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, Mapping):
            mapping = cast("Mapping[object, object]", one)
            waiting += [*mapping.keys(), *mapping.values()]
        elif isinstance(one, (list, tuple)):
            waiting += cast("list[object]", one)


def _is_broken_text(text: str) -> bool:
    return "\x00" in text or (not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text))


SpecFormat = Literal["openai", "openai-responses", "anthropic", "json-schema"]
"""How a model API wants its tools: OpenAI's Chat Completions or Responses, Anthropic's Messages, or plain JSON Schema."""

_NAME_LIMITS: dict[SpecFormat, int] = {"openai": 64, "openai-responses": 64, "anthropic": 128}
_API_NAME = re.compile(r"[a-zA-Z0-9_-]+")

Effect = Literal["reads", "changes", "destroys", "runs"]
Need = Literal["", "skills", "files", "scripts", "conversation", "writing"]

DEFAULT_HINT = "Go on without this, or ask the person you work for."
"""The hint for an error that has none."""

HINT_SCHEMA: dict[str, Any] = {"description": "What to do next.", "anyOf": [{"type": "string"}, {"type": "null"}]}
_RESULT_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "error": {
            "description": "What went wrong, where the tool refused; absent or null otherwise.",
            "anyOf": [
                {"type": "null"},
                {"type": "string"},
                {
                    "type": "object",
                    "properties": {"code": {"type": "string"}, "message": {"type": "string"}},
                    "required": ["code", "message"],
                },
            ],
        },
        "hint": HINT_SCHEMA,
    },
}


def error_data(error: ProwessError) -> dict[str, Any]:
    """Return an error as the answer of a tool: what happened, and what to do about it."""
    return error_answer(error, default_hint=DEFAULT_HINT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool. It is offered only if what it `needs` exists; `result` is the JSON Schema of its answer.

    The tool of a skill has the skill's `title` and `digest`, and how far a run reaches.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    effect: Effect
    needs: Need = ""
    call: Callable[[ToolContext, Mapping[str, Any]], Awaitable[ToolAnswer]]
    result: dict[str, Any] = field(default_factory=lambda: _RESULT_SCHEMA)
    describe_error: Callable[[ProwessError], dict[str, Any]] = error_data
    title: str = ""
    digest: str = ""
    reach: Reach = ""

    def spec(self, format: SpecFormat) -> dict[str, Any] | None:
        """Return the tool as a model API wants it, or None if the API would reject its name.

        One rejected name fails the whole request, so such a tool must be left out.
        """
        limit = _NAME_LIMITS.get(format)
        if limit is not None and (len(self.name) > limit or not _API_NAME.fullmatch(self.name)):
            return None
        match format:
            case "openai":
                function = {"name": self.name, "description": self.description, "parameters": self.parameters}
                return {"type": "function", "function": function}
            case "openai-responses":
                # Strict mode, the default there, allows only schemas in which every property is required.
                return {
                    "type": "function",
                    "name": self.name,
                    "description": self.description,
                    "parameters": self.parameters,
                    "strict": False,
                }
            case "anthropic":
                return {"name": self.name, "description": self.description, "input_schema": self.parameters}
            case "json-schema":
                return {**self.parameters, "title": self.name, "description": self.description}

    def refusal(self, error: ProwessError) -> ToolAnswer:
        """Return an error as an answer."""
        return ToolAnswer(data=self.describe_error(error), error=error)
