"""The `Model` protocol, the values that pass through it, and how models are configured."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """Which models are used where none is named, and how they are reached. Keys are never shown.

    `base_url` and `key` belong to the one OpenAI-compatible server that `compatible:` names; the keys of other providers
    are read from `environment`. Nothing limits the requests where `requests_per_minute` is None.
    """

    default: str = ""
    evaluation: str = ""
    base_url: str = ""
    key: str = field(default="", repr=False)
    environment: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    requests_per_minute: int | None = None
    timeout_seconds: float = 60
    attempts: int = 3
    home: Path = field(default_factory=lambda: Path.home() / ".prowess")


_FAMILIES: tuple[tuple[tuple[str, ...], str], ...] = (
    (("claude",), "anthropic"),
    (("gpt", "chatgpt", "o1", "o3", "o4", "davinci", "codex"), "openai"),
    (("gemini", "gemma", "palm", "learnlm"), "google"),
    (("llama", "meta-llama", "codellama"), "meta"),
    (("qwen", "qwq"), "qwen"),
    (("mistral", "mixtral", "magistral", "ministral", "codestral", "devstral", "pixtral"), "mistral"),
    (("deepseek",), "deepseek"),
    (("grok",), "xai"),
    (("command", "c4ai", "aya"), "cohere"),
    (("phi",), "microsoft"),
    (("glm", "chatglm"), "zai"),
    (("kimi", "moonshot"), "moonshotai"),
    (("smollm",), "smollm"),
)


def family_of(provider: str, name: str) -> str:
    """The family of a model by its name; its provider where the name tells nothing."""
    bare = name.lower().replace("\\", "/").rpartition("/")[2]
    for beginnings, family in _FAMILIES:
        if bare.startswith(beginnings):
            return family
    return provider


Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool that the model may call; `parameters` is a JSON Schema."""

    name: str
    description: str
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call that the model asks for."""

    id: str
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One turn. `calls` are those that an assistant's turn asked for; `call_id` is the one that a tool's turn answers."""

    role: Role
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    name: str = ""
    """The tool that a tool's turn is from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is sent to a model.

    With a `schema` the answer is to be JSON that satisfies it. A model that can be held to it is, and any other is told it
    in words, by itself: whoever asks need not. No answer has been checked against the schema.
    """

    messages: tuple[Message, ...]
    schema: dict[str, Any] | None = None
    tools: tuple[ToolSpec, ...] = ()
    temperature: float | None = None
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """How many tokens were read and written, in how many requests."""

    input_tokens: int = 0
    output_tokens: int = 0
    requests: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            requests=self.requests + other.requests,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a model answered. `model` is the name under which the provider answered, where it says so.

    An answer that was cut at the limit of its length is not `complete`.
    """

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = field(default_factory=Usage)
    model: str = ""
    complete: bool = True


class Model(Protocol):
    """One model.

    `Unavailable` is raised where it cannot be reached, is overloaded or not configured (a fallback may serve), `RunFailed`
    where it refuses the request, `AnswerUnusable` where it answers with nothing that can be used, `TimedOut` where it takes too
    long, `Refused` where a limit of ours stands in the way. No other exception leaves a model, and none of its messages holds a key.
    """

    @property
    def name(self) -> str:
        """What it is called here, such as `anthropic:claude-haiku-5-5`."""
        ...

    @property
    def family(self) -> str:
        """Whose prompts suit it, such as `anthropic` for every Claude, whoever serves it."""
        ...

    @property
    def structured(self) -> bool:
        """Whether it can be held to a schema."""
        ...

    async def complete(self, request: Request) -> Reply:
        """The whole answer."""
        ...

    def stream(self, request: Request) -> AsyncGenerator[str | Reply]:
        """The answer piece by piece: texts as they come, and last the whole `Reply`."""
        ...


def enforces_schema(request: Request, *, structured: bool) -> bool:
    """Whether the answer is held to the request's schema: providers do so for a schema of an object, and no other."""
    return structured and request.schema is not None and request.schema.get("type") == "object"


def fit_schema(request: Request, *, structured: bool) -> Request:
    """The request as a model has to be asked: with its schema in words where the answer is not held to it."""
    if request.schema is None or enforces_schema(request, structured=structured):
        return request
    return add_schema_text(request)


def add_schema_text(request: Request) -> Request:
    """The request with its schema also in words, at the end of what the user says last."""
    words = f"Answer with nothing but JSON that satisfies this JSON Schema:\n{json.dumps(request.schema, ensure_ascii=False)}"
    messages = list(request.messages)
    place = next((at for at in reversed(range(len(messages))) if messages[at].role == "user"), None)
    if place is None:
        messages.append(Message(role="user", text=words))
    else:
        messages[place] = replace(messages[place], text=f"{messages[place].text}\n\n{words}")
    return replace(request, messages=tuple(messages))
