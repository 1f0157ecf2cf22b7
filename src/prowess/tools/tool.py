"""One tool as an agent sees it: its arguments, the context it runs in, its answer and its errors."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError, create_model

from prowess.engine.engine import Engine
from prowess.engine.sessions import find_session, read_acting
from prowess.errors import BudgetExceeded, Invalid, Problem, ProwessError
from prowess.llm.model import Model
from prowess.policy.actor import Actor
from prowess.policy.text import clean_text
from prowess.run.request import RunRequest, StepListener, ignore_step
from prowess.session.session import Session
from prowess.skill.json_values import json_value
from prowess.skill.needs import Reach
from prowess.threads import offload
from prowess.view import describe_fault, error_answer


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
    """The engine, the conversation and the settings that the tools of one agent work with.

    `approval_seconds` is how long a call waits for a person to approve it. `conversation` names the agent's session, which is opened when a tool first needs it. With `return_content`, enabling a
    skill also returns its text, for agents whose system prompt we do not write. `on_step` receives the progress of runs,
    and `fallback_model` is asked if no model is configured. `reserved` are names that the tool of a skill cannot have.
    """

    engine: Engine
    conversation: str = ""
    return_content: bool = False
    approval_seconds: float = 0.0
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
        """The actor who calls the tools."""
        return self.engine.actor

    async def find_session(self) -> Session | None:
        """Return the open session of the conversation, or None. Open nothing."""
        return await offload(self.read_session) if self.conversation else None

    def read_session(self) -> Session | None:
        """Return the same as `find_session`. Blocking."""
        if not self.conversation:
            return None
        return find_session(self.engine.context, self._session or self.conversation)

    async def acting(self) -> Actor:
        """Return the agent in its own role, or else in the role of its session."""
        if self.actor.role or not self.conversation:
            return self.actor
        return await self.engine.sessions.acting(self._session or self.conversation)

    def read_acting(self) -> Actor:
        """Return the same as `acting`. Blocking."""
        if self.actor.role or not self.conversation:
            return self.actor
        return read_acting(self.engine.context, self._session or self.conversation)

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
                "Skills cannot be enabled here, because there is no conversation.",
                hint="Call load_skill instead, which reads the skill once.",
            )


SkillName = Annotated[
    str,
    Field(
        min_length=1,
        description="Its name, from search_skills.",
        validation_alias=AliasChoices("skill", "skill_slug", "skill_name", "skill_id", "slug", "name", "id"),
    ),
]
"""The argument that names a skill: its slug, or `scope:slug` for one that a nearer scope hides. It has one name in all
tools; the names that other products give it are accepted too."""

PROBLEM_LIMIT = 20
"""How many wrong arguments are reported at once."""


def make_arguments_model(function: Any) -> type[BaseModel]:
    """Return a model of the arguments of a tool function, without its first, the context."""
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {
        name: (hints[name], ... if parameter.default is parameter.empty else parameter.default)
        for name, parameter in list(inspect.signature(function).parameters.items())[1:]
    }
    # Unknown arguments are reported instead of ignored, so that the agent can correct its call.
    config = ConfigDict(extra="forbid", strict=True)
    return create_model(function.__name__, __config__=config, **fields)


def make_arguments_schema(arguments: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON Schema that an agent sees, without the parts that only cost tokens.

    Titles repeat the names, and an optional argument is simply left out instead of null.
    """
    schema = arguments.model_json_schema(by_alias=False)
    properties = {name: _shorten_property(value) for name, value in schema.get("properties", {}).items()}
    required = {"required": schema["required"]} if schema.get("required") else {}
    definitions = {"$defs": schema["$defs"]} if "$defs" in schema else {}
    return {"type": "object", "properties": properties, **required, **definitions}


def _shorten_property(schema: dict[str, Any]) -> dict[str, Any]:
    short = {key: value for key, value in schema.items() if key not in ("title", "minLength")}
    if short.get("default") in (None, "", [], {}):
        short.pop("default", None)
    # Gemini rejects an empty text among the values. It means that the argument is left out.
    if "" in short.get("enum", ()):
        short["enum"] = [value for value in short["enum"] if value != ""]
    kinds = [kind for kind in short.get("anyOf", []) if kind != {"type": "null"}]
    if len(kinds) == 1:
        del short["anyOf"]
        short = {**kinds[0], **short}
    short.pop("minLength", None)
    if short.get("additionalProperties") is True:
        del short["additionalProperties"]
    return short


@cache
def argument_aliases(arguments: type[BaseModel]) -> dict[str, str]:
    """Return the other names that arguments are accepted under, with the name that each stands for."""
    return {
        str(alias): name
        for name, field in arguments.model_fields.items()
        if isinstance(field.validation_alias, AliasChoices)
        for alias in field.validation_alias.choices
        if alias != name
    }


def read_arguments(arguments: Mapping[str, Any] | str | None) -> dict[str, Any] | None:
    """Return the arguments of a call, or None if a model wrote something other than a JSON object."""
    value: object = {} if arguments is None else arguments
    if isinstance(arguments, str):
        value = json_value(arguments) if arguments.strip() else {}
    return dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else None


def not_an_object(name: str) -> Invalid:
    """Return the error for arguments that are not a JSON object."""
    return Invalid(
        f"The arguments of {name[:80]} are not a JSON object.", hint="Call it again with its arguments as an object."
    )


def check_arguments(arguments: type[BaseModel], raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values to call with, or raise `Invalid` with what is wrong and what the tool takes."""
    try:
        model = arguments.model_validate(_convert_arguments(arguments, raw))
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)[:PROBLEM_LIMIT]
        problems = [_make_problem(fault["loc"], describe_fault(fault)) for fault in faults]
        messages = "; ".join(problem.message for problem in problems)
        raise Invalid(
            f"Wrong arguments for {arguments.__name__}: {messages}.",
            hint=_describe_arguments(arguments),
            problems=problems,
        ) from error
    values = {name: getattr(model, name) for name in type(model).model_fields}
    check_text(arguments.__name__, values)
    return values


def _convert_arguments(arguments: type[BaseModel], values: Any) -> Any:
    """Convert what small models get wrong without a doubt about what they mean.

    They write null for an argument that they leave out, one text where a list of texts is expected, and a list, an object,
    a number or a truth value as text.
    """
    if not isinstance(values, Mapping):
        return values
    aliases = argument_aliases(arguments)
    converted: dict[str, Any] = {}
    for key, value in cast("Mapping[str, Any]", values).items():
        field = arguments.model_fields.get(aliases.get(key, key))
        if field is None:
            # No more of them than are reported: every one costs an error of pydantic.
            if len(converted) < len(arguments.model_fields) + PROBLEM_LIMIT:
                converted[key] = value
        elif value is not None or field.is_required():
            converted[key] = _convert_text(field.annotation, value) if isinstance(value, str) else value
    return converted


def _convert_text(annotation: Any, text: str) -> Any:
    is_union = get_origin(annotation) in (Union, UnionType)
    kinds = {get_origin(kind) or kind for kind in (get_args(annotation) if is_union else (annotation,))}
    if str in kinds or not kinds & {list, dict, int, bool}:
        return text
    value = json_value(text)
    if list in kinds and not isinstance(value, list):
        return [text] if text.strip() else []
    fits = any(kind in kinds and type(cast("object", value)) is kind for kind in (list, dict, int, bool))
    return cast("Any", value) if fits else text


def check_text(tool: str, values: Mapping[str, Any]) -> None:
    """Raise `Invalid` if a text at any depth cannot be encoded or stored."""
    for name, value in values.items():
        if any(map(_is_broken_text, _walk_texts([name, value]))):
            raise Invalid(
                f"Wrong arguments for {tool}: {clean_text(name, limit=80)} contains a NUL or half of a surrogate pair.",
                hint="Remove that character and call again.",
            )


def _describe_arguments(arguments: type[BaseModel]) -> str:
    """Say how to call a tool."""
    required = [name for name, field in arguments.model_fields.items() if field.is_required()]
    optional = [name for name in arguments.model_fields if name not in required]
    call = f"Call {arguments.__name__} with {', '.join(required) or 'no arguments'}."
    return f"{call} Optional: {', '.join(optional)}." if optional else call


def _make_problem(path: tuple[int | str, ...], message: str) -> Problem:
    """Describe one wrong argument. The name of an unknown argument may be anything, so it is cut."""
    field = ".".join(clean_text(str(part), limit=80) for part in path) or "arguments"
    return Problem(code="argument", severity="error", message=f"{field}: {clean_text(message, limit=200)}", field=field)


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


SpecFormat = Literal["openai", "openai-responses", "anthropic", "gemini", "json-schema"]
"""How a model API wants its tools: OpenAI's Chat Completions or Responses, Anthropic's Messages, Gemini, or plain JSON Schema."""

_NAME_LIMITS: dict[SpecFormat, int] = {"openai": 64, "openai-responses": 64, "anthropic": 128, "gemini": 64}
_API_NAME = re.compile(r"[a-zA-Z0-9_-]+")

Effect = Literal["reads", "changes", "destroys", "runs"]
Need = Literal["", "skills", "files", "scripts", "conversation", "writing", "registry", "live", "connectors"]

DEFAULT_HINT = "Continue without this, or ask the user."
"""The hint for an error that has none."""

HINT_SCHEMA: dict[str, Any] = {"description": "What to do next.", "anyOf": [{"type": "string"}, {"type": "null"}]}


_TOOL_OF = {"enable": "enable_skill", "list": "list_skills", "load": "load_skill"}
_COMMAND = re.compile(rf"`prowess ({'|'.join(_TOOL_OF)})(?: (?!-)[^`]*)?`")
_RUN_COMMAND = re.compile(rf"\bRun ({_COMMAND.pattern})")


def error_data(error: ProwessError) -> dict[str, Any]:
    """Return an error as the answer of a tool: what happened, and which tool to call next."""
    data = error_answer(error, default_hint=DEFAULT_HINT)
    # The hints of these errors name commands for people.
    if isinstance(error, BudgetExceeded):
        data["hint"] = (
            f"Call disable_skill for {', '.join(error.room)}, then call enable_skill again."
            if error.room
            else "Call load_skill instead, which reads the skill once and needs no budget."
        )
    # An agent may have no shell. Other commands are for its user.
    data["hint"] = _RUN_COMMAND.sub(r"Call \1", str(data["hint"]))
    data["hint"] = _COMMAND.sub(lambda found: _TOOL_OF[found[1]], data["hint"])
    return data


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool. It is offered only if what it `needs` exists.

    `result` is the JSON Schema of its answer; tools of Prowess have none, because every list of tools would repeat it.
    `aliases` are other names of its arguments, with the name that each stands for. The tool of a skill has the skill's
    `title` and `digest`, and how far a run reaches.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    effect: Effect
    needs: Need = ""
    call: Callable[[ToolContext, Mapping[str, Any]], Awaitable[ToolAnswer]]
    result: dict[str, Any] | None = None
    aliases: Mapping[str, str] = field(default_factory=dict[str, str])
    describe_error: Callable[[ProwessError], dict[str, Any]] = error_data
    title: str = ""
    digest: str = ""
    reach: Reach = ""
    chars: int = field(default=0, init=False, compare=False)
    """About how many characters of a prompt the tool takes."""

    def __post_init__(self) -> None:
        # Counted once: most requests have the same tools.
        object.__setattr__(self, "chars", len(self.description) + len(str(self.parameters)))

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
            case "gemini":
                # `parameters` there is a subset of OpenAPI, without half of the keywords of JSON Schema.
                return {
                    "name": self.name,
                    "description": self.description,
                    "parametersJsonSchema": self.parameters,
                }
            case "json-schema":
                return {**self.parameters, "title": self.name, "description": self.description}

    def refusal(self, error: ProwessError) -> ToolAnswer:
        """Return an error as an answer."""
        return ToolAnswer(data=self.describe_error(error), error=error)
