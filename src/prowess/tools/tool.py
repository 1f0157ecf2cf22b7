"""One tool as an agent sees it, and how it tells what went wrong."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from prowess.errors import ApprovalRequired, BudgetExceeded, ProwessError
from prowess.skill.needs import Reach
from prowess.tools.answer import Answer
from prowess.tools.desk import Desk

Effect = Literal["reads", "changes", "destroys", "runs"]
Need = Literal["", "skills", "files", "scripts", "conversation", "writing"]

NEXT = "Go on without this, or ask the person you work for."
"""What to do where nothing better is known."""

HINT: dict[str, Any] = {"description": "What to do next.", "anyOf": [{"type": "string"}, {"type": "null"}]}
_RESULT: dict[str, Any] = {
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
        "hint": HINT,
    },
}


def told(error: ProwessError) -> dict[str, Any]:
    """An error as the answer of a tool: what happened, and what to do about it."""
    answer: dict[str, Any] = {
        "error": {"code": error.code, "message": error.message},
        "hint": error.hint or NEXT,
    }
    if isinstance(error, BudgetExceeded):
        answer["budget"] = {"limit": error.limit, "used": error.used, "need": error.need, "disable": list(error.room)}
    if isinstance(error, ApprovalRequired):
        answer["approval_id"] = error.approval_id
    return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool. `needs` is what has to be there for it to make sense; `result` is the JSON Schema of its answer.

    The tool of a skill has the skill's `title` and `digest`, and how far it reaches.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    effect: Effect
    needs: Need = ""
    call: Callable[[Desk, Mapping[str, Any]], Awaitable[Answer]]
    result: dict[str, Any] = field(default_factory=lambda: _RESULT)
    told: Callable[[ProwessError], dict[str, Any]] = told
    title: str = ""
    digest: str = ""
    reach: Reach = ""

    def refusal(self, error: ProwessError) -> Answer:
        """The answer that tells of an error."""
        return Answer(data=self.told(error), error=error)
