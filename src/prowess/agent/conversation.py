"""A conversation and its messages, as every interface shows them, and how they are exported."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from prowess.session.session import Session
from prowess.storage.clock import is_ahead
from prowess.storage.conversations import ConversationRow, ConversationState, MemoryRow, MessageRole, MessageRow
from prowess.storage.rows import convert_row

ConversationFormat = Literal["json", "markdown"]
CONVERSATION_FORMATS: tuple[ConversationFormat, ...] = ("json", "markdown")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationMessage:
    """One message. `calls` are the tool calls of an answer; `call_id` and `name` say which call a tool's message answers."""

    number: int
    turn: int
    role: MessageRole
    text: str
    calls: tuple[dict[str, Any], ...] = ()
    call_id: str = ""
    name: str = ""
    detail: dict[str, Any] = field(default_factory=dict[str, Any])
    created_at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A conversation as of the moment it was read. Its id is the id of its session.

    A conversation is `waiting` if calls wait for `approvals`, and `stopped` if its last turn was interrupted or reached a
    limit; `Agent.resume` continues with either. `error` says why the last turn failed or was stopped (`code`, `message` and
    `hint`), if it is known; lists leave it out. `cost_usd` is None if no price is known. Lists leave out `messages`.
    """

    id: str
    name: str = ""
    title: str = ""
    state: ConversationState = "idle"
    role: str = ""
    model: str = ""
    turns: int = 0
    approvals: tuple[str, ...] = ()
    error: dict[str, Any] | None = None
    skills: tuple[str, ...] = ()
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    created_at: str = ""
    updated_at: str = ""
    messages: tuple[ConversationMessage, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the conversation as JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberedFact:
    """A fact that is remembered for a user."""

    id: str
    text: str
    created_by: str
    created_at: str

    def as_json(self) -> dict[str, Any]:
        """Return the fact as JSON."""
        return asdict(self)


def to_conversation(
    row: ConversationRow,
    session: Session | None = None,
    messages: tuple[MessageRow, ...] = (),
    *,
    error: dict[str, Any] | None = None,
) -> Conversation:
    """Return the conversation of a row."""
    # The process that worked on the turn is gone.
    lost = row.state == "running" and not is_ahead(row.lease_until)
    return convert_row(
        row,
        Conversation,
        name=session.name if session else row.id,
        state="stopped" if lost else row.state,
        role=session.role if session else "",
        model=session.model if session else "",
        turns=row.turn,
        approvals=tuple(dict.fromkeys(row.pending.values())),
        error=error,
        skills=tuple(skill.slug for skill in session.enabled) if session else (),
        cost_usd=row.cost,
        messages=tuple(map(to_message, messages)),
    )


def to_message(row: MessageRow) -> ConversationMessage:
    """Return the message of a row."""
    return convert_row(row, ConversationMessage, calls=tuple(row.calls))


def to_fact(row: MemoryRow) -> RememberedFact:
    """Return the fact of a row."""
    return convert_row(row, RememberedFact)


def export_conversation(conversation: Conversation, format: ConversationFormat) -> str:
    """Return a conversation as a document: JSON with everything, or Markdown to read."""
    if format == "json":
        return json.dumps(conversation.as_json(), ensure_ascii=False, indent=2) + "\n"
    parts = [f"# {conversation.title or 'Conversation'}", _describe(conversation)]
    for message in conversation.messages:
        parts += _message_parts(message)
    return "\n\n".join(part for part in parts if part) + "\n"


def _describe(conversation: Conversation) -> str:
    cost = "" if conversation.cost_usd is None else f", ${conversation.cost_usd:.4f}"
    tokens = conversation.input_tokens + conversation.output_tokens
    return (
        f"{conversation.created_at[:19]} · {conversation.turns} turns · {tokens:,} tokens{cost} · `{conversation.id}`"
    )


def _message_parts(message: ConversationMessage) -> list[str]:
    if message.role == "tool":
        return [f"### Result of {message.name}", _fence(message.text)]
    heading = "## User" if message.role == "user" else "## Assistant"
    calls = [
        f"Called `{call['name']}`:\n\n{_fence(json.dumps(call['arguments'], ensure_ascii=False))}"
        for call in message.calls
    ]
    error = message.detail.get("error")
    ended = [f"> This turn ended without an answer: {error['message']}"] if error else []
    return [heading, message.text, *calls, *ended]


def _fence(text: str) -> str:
    """Return the text as a code block that no text inside it can close."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"
