"""The `Model` protocol, the values that pass through it, and how models are configured."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Literal, Protocol

from prowess.lazy_dataclass import dataclass
from prowess.skill.text.hidden import show_controls


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """The default models, those that are offered besides, and how to reach models. The representation shows no keys.

    `base_url` and `key` are those of the OpenAI-compatible server behind `compatible:`; the keys of other providers come
    from `environment`. `requests_per_minute=None` means no limit.
    """

    default: str = ""
    evaluation: str = ""
    offered: tuple[str, ...] = ()
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
    """Return the family of a model by its name, or its provider if the name is not known."""
    # Routers put the vendor before the name (`meta-llama/llama-4`), and the name of a local model may be a path.
    bare = name.lower().replace("\\", "/").rpartition("/")[2]
    for prefixes, family in _FAMILIES:
        if bare.startswith(prefixes):
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
    """A tool call that the model requests."""

    id: str
    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One turn of a conversation.

    `calls` are the tool calls an assistant turn requests; `call_id` and `name` are the call and the tool that a tool turn
    answers. Control characters in the text, such as ESC, are written out.
    """

    role: Role
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""
    name: str = ""

    def __post_init__(self) -> None:
        # Inputs and outputs of tools may hold terminal escapes. No model is given any: every request is made of messages.
        if not self.text.isprintable():
            object.__setattr__(self, "text", show_controls(self.text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request to a model.

    With a `schema`, the reply should be JSON that satisfies it. Providers that enforce schemas do so; for any other model
    the schema is added to the prompt, so callers need not. Replies are not validated against it here. `seconds` is the time
    limit of the run that asks: the model gets at least that long. With `answer_only`, the model must not call a tool; the
    tools stay in the request, because some providers refuse earlier calls without them.
    """

    messages: tuple[Message, ...]
    schema: dict[str, Any] | None = None
    tools: tuple[ToolSpec, ...] = ()
    answer_only: bool = False
    temperature: float | None = None
    max_tokens: int | None = None
    seconds: float = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens read and written, and the number of requests.

    `cached_tokens` are those of the input that the provider had read before, which cost less.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    requests: int = 0
    cached_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            requests=self.requests + other.requests,
            cached_tokens=self.cached_tokens + other.cached_tokens,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A model's reply. `model` is the name the provider reports, '' if it reports none.

    `complete` is False if the reply was cut off at its length limit.
    """

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    usage: Usage = field(default_factory=Usage)
    model: str = ""
    complete: bool = True


class Model(Protocol):
    """A language model.

    Raises `Unavailable` if it cannot be reached, is overloaded or not configured (a fallback may work), `RunFailed` if it
    rejects the request, `AnswerUnusable` if its reply cannot be used, `TimedOut` if it takes too long, and `Refused` if one
    of our limits forbids the request. It raises nothing else, and no message contains an API key.
    """

    @property
    def name(self) -> str:
        """Its full name, such as `anthropic:claude-haiku-5-5`."""
        ...

    @property
    def family(self) -> str:
        """The family of models whose prompts it uses: `anthropic` for every Claude, regardless of the provider."""
        ...

    @property
    def structured(self) -> bool:
        """True if the provider enforces a JSON schema on replies."""
        ...

    async def complete(self, request: Request) -> Reply:
        """Return the whole reply."""
        ...

    def stream(self, request: Request) -> AsyncGenerator[str | Reply]:
        """Yield the reply's text in chunks as it arrives, and the whole `Reply` last."""
        ...


def enforces_schema(request: Request, *, structured: bool) -> bool:
    """Return True if the provider enforces the request's schema; providers do so only for object schemas."""
    return structured and request.schema is not None and request.schema.get("type") == "object"


def is_small(model: object) -> bool:
    """Return True if a model says that it is `small`: too weak to choose among many tools, and slow to read about them."""
    return getattr(model, "small", False) is True


def fit_schema(request: Request, *, structured: bool) -> Request:
    """Return the request with its schema in the prompt, unless the provider enforces it."""
    if request.schema is None or enforces_schema(request, structured=structured):
        return request
    return add_schema_text(request)


def add_schema_text(request: Request) -> Request:
    """Return the request with its schema appended to the last user message."""
    text = f"Answer only with JSON that matches this JSON Schema:\n{json.dumps(request.schema, ensure_ascii=False)}"
    messages = list(request.messages)
    last = next((index for index in reversed(range(len(messages))) if messages[index].role == "user"), None)
    if last is None:
        messages.append(Message(role="user", text=text))
    else:
        messages[last] = replace(messages[last], text=f"{messages[last].text}\n\n{text}")
    return replace(request, messages=tuple(messages))
