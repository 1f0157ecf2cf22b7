"""What Prowess asks of a model: one narrow Protocol, and the values that travel through it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

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
