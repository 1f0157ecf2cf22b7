"""Updates: what happens during a turn of a conversation, in order, as every interface shows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

TurnState = Literal["done", "waiting", "stopped", "failed"]
"""How a turn ended. A turn that is `waiting` continues once its approvals are answered, also in another process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """Phase 1 and 2 are done: the skills that were recommended, the decision, and its reason."""

    decision: dict[str, Any]
    recommendations: tuple[dict[str, Any], ...] = ()
    kind: Literal["decided"] = "decided"


@dataclass(frozen=True, slots=True, kw_only=True)
class TextWritten:
    """A piece of the answer, as the model writes it."""

    text: str
    kind: Literal["text"] = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStarted:
    """The model called a tool."""

    id: str
    name: str
    arguments: dict[str, Any]
    kind: Literal["tool_started"] = "tool_started"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEnded:
    """A tool answered, or refused; `data` is what the model gets."""

    id: str
    name: str
    ok: bool
    data: dict[str, Any]
    kind: Literal["tool_ended"] = "tool_ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalNeeded:
    """A tool call waits for a person. `approval` has what an approval card shows."""

    id: str
    """The id of the tool call."""
    approval_id: str
    approval: dict[str, Any]
    kind: Literal["approval_needed"] = "approval_needed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillsChanged:
    """Skills were enabled or disabled; `state` is that of the event `skills_state_changed`."""

    state: dict[str, Any]
    kind: Literal["skills_changed"] = "skills_changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class HelperUpdated:
    """An agent that was given a task wrote text, or called a tool. `update` is its own update as JSON, with its `kind`."""

    role: str
    update: dict[str, Any]
    kind: Literal["helper_updated"] = "helper_updated"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnded:
    """The turn ended. `text` is the whole answer, and `error` says why a turn was stopped or failed."""

    state: TurnState
    text: str = ""
    model: str = ""
    steps: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    approvals: tuple[str, ...] = ()
    error: dict[str, Any] | None = None
    skills: tuple[str, ...] = field(default=())
    budget_used_chars: int = 0
    budget_max_chars: int = 0
    kind: Literal["turn_ended"] = "turn_ended"


Update = Decided | TextWritten | ToolStarted | ToolEnded | ApprovalNeeded | SkillsChanged | HelperUpdated | TurnEnded

UPDATE_KINDS: dict[str, type[Update]] = {
    "decided": Decided,
    "text": TextWritten,
    "tool_started": ToolStarted,
    "tool_ended": ToolEnded,
    "approval_needed": ApprovalNeeded,
    "skills_changed": SkillsChanged,
    "helper_updated": HelperUpdated,
    "turn_ended": TurnEnded,
}
"""The updates by their kind, for those who receive them as JSON."""
