"""The common parts of the adapters of plain SDKs: one loop's result, and running the calls of a model's answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from prowess.adapters.agent_skills import AgentSkills, AskPerson, CallResult, PendingApproval

MAX_STEPS = 30
"""How often the model is asked in one turn, unless the caller says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call that a model asked for; `arguments` may be the JSON text that it wrote."""

    id: str
    name: str
    arguments: dict[str, Any] | str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopResult:
    """The end of a loop. `messages` is the whole conversation: keep it, and pass it to the next call.

    With `pending`, some tool calls wait for a person. Answer them with `AgentSkills.answer`, then call the loop again with
    the same messages, also in another process. `stopped` is True if the model was asked `max_steps` times.
    """

    messages: list[dict[str, Any]]
    text: str = ""
    pending: tuple[PendingApproval, ...] = ()
    stopped: bool = False


async def answer_calls(skills: AgentSkills, calls: Sequence[ToolCall], ask: AskPerson | None) -> list[CallResult]:
    """Run calls at the same time and return their results in order.

    If a person must approve, `ask` is asked, one request after the other, and the call is made again. Without `ask`, its
    result has the request.
    """
    results = await asyncio.gather(*(skills.call(call.name, call.arguments) for call in calls))
    if ask is None:
        return results
    for place, (call, result) in enumerate(zip(calls, results, strict=True)):
        if result.approval is not None:
            approved = await ask(result.approval)
            results[place] = await skills.resume(result.approval, call.name, call.arguments, approved=approved)
    return results
