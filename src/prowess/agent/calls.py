"""Make the tool calls of an answer: in parallel where they only read or run, in order where they change something."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prowess.agent.compaction import cut_text
from prowess.agent.journal import Journal
from prowess.agent.updates import ApprovalNeeded, ToolEnded, ToolStarted, Update
from prowess.engine.engine import Engine
from prowess.errors import ApprovalRequired, NotFound, ProwessError
from prowess.llm.model import ToolCall
from prowess.policy.consent import consent_text
from prowess.storage.approvals import ApprovalRow
from prowess.storage.conversations import MessageRow
from prowess.threads import offload
from prowess.tools.tool import DEFAULT_HINT, Tool, ToolAnswer
from prowess.tools.toolbox import Toolbox
from prowess.view import approval_json

PARALLEL_CALLS = 8
MAX_REPEATS = 2
"""How often a turn makes the same call with the same arguments."""
RESULT_CHARS = 20_000
"""The most characters of a result that reach the model."""

_MANAGING = frozenset(
    (
        "compose_skill",
        "disable_skill",
        "list_enabled_skills",
        "list_skills",
        "skill_create",
        "skill_delete",
        "skill_reload",
        "skill_update",
    )
)
"""Tools that a small model is not offered: it calls them at random, and they are half the list."""
_FINDING = frozenset(("enable_skill", "load_skill", "search_skills"))
"""Tools that a small model is not offered once a skill is enabled: it would look for others instead of using it."""
_ORDERED = ("changes", "destroys")
log = logging.getLogger(__name__)
Emit = Callable[[Update], None]


def _ignore(update: Update) -> None:
    """Ignore an update."""


@dataclass(slots=True, kw_only=True)
class AgentTools:
    """The tools of one agent in one conversation: those of its toolbox, and those that the agent layer adds."""

    toolbox: Toolbox
    added: Mapping[str, Tool] = field(default_factory=dict[str, Tool])
    small: bool = False
    """True for a small model without a role: it is offered fewer tools."""
    emit: Emit = _ignore
    """Receives what a tool reports while it works."""
    _offered: dict[str, Tool] = field(default_factory=dict[str, Tool], init=False)

    def read_offered(self, *, recent: float = 0.0, has_skill: bool = False) -> list[Tool]:
        """Return the tools for the next request. Tools whose name a model API would reject are left out. Blocking.

        `recent` is that of `Toolbox.read_offered`, and `has_skill` is True if a skill is enabled.
        """
        unsuited = (_MANAGING | _FINDING if has_skill else _MANAGING) if self.small else frozenset[str]()
        tools = [*self.toolbox.read_offered(recent=recent), *self.added.values()]
        self._offered = {
            tool.name: tool for tool in tools if tool.name not in unsuited and tool.spec("openai") is not None
        }
        return list(self._offered.values())

    async def effect(self, name: str) -> str:
        """Return what a call of the tool does; 'changes' for a tool that is not known."""
        if name not in self._offered:
            await offload(self.read_offered)
        tool = self._offered.get(name)
        return tool.effect if tool else "changes"

    async def attempt(self, name: str, arguments: Mapping[str, Any]) -> ToolAnswer:
        """Call a tool. Errors are answers, and unexpected ones are logged."""
        tool = self.added.get(name)
        if tool is None:
            return await self.toolbox.attempt(name, arguments)
        try:
            return await tool.call(self.toolbox.context, arguments)
        except ProwessError as error:
            return tool.refusal(error)
        except Exception:
            log.exception("The tool %s failed.", name)
            return tool.refusal(ProwessError("Internal error. Your call was correct.", hint=DEFAULT_HINT))


@dataclass(slots=True, kw_only=True)
class CallRunner:
    """Makes the calls of a turn, stores each result as soon as it is there, and reports what happens."""

    engine: Engine
    """The engine of the person, for whom approvals are read."""
    tools: AgentTools
    journal: Journal
    redact: Callable[[Any], Any] = field(repr=False)
    fresh: dict[str, ToolCall] = field(default_factory=dict[str, ToolCall])
    """The calls of the answer that this process received, as the model wrote them. Others are from before a crash."""
    changed: bool = False
    """True if a call may have changed which skills are enabled."""

    async def run(self, calls: Sequence[ToolCall], emit: Emit) -> None:
        """Make the calls. Those that need an approval are stored as pending."""
        self.tools.emit = emit
        counts = _count_calls(self.journal.steps[:-1])
        effects = {call.name: await self.tools.effect(call.name) for call in calls}
        room = asyncio.Semaphore(PARALLEL_CALLS)

        async def make(call: ToolCall) -> None:
            async with room:
                key = _key(call)
                counts[key] += 1
                await self._make(
                    self.fresh.get(call.id, call), effects[call.name], repeated=counts[key] > MAX_REPEATS, emit=emit
                )

        for group in _group(calls, effects):
            try:
                async with asyncio.TaskGroup() as tasks:
                    for call in group:
                        tasks.create_task(make(call))
            except BaseExceptionGroup as failed:
                raise failed.exceptions[0] from None

    async def _make(self, call: ToolCall, effect: str, *, repeated: bool, emit: Emit) -> None:
        approval_id = self.journal.pending.get(call.id, "")
        if approval_id:
            row = await self._find_approval(approval_id)
            if row is not None and row.state == "pending":
                emit(_need_approval(call, row))
                return
            if row is None or row.state in ("expired", "revoked"):
                failure = not_made("approval-expired", "Nobody approved this call in time.", _GO_ON)
                await self._end(call, failure, emit, ok=False)
                return
        elif call.id not in self.fresh and effect != "reads":
            # It may have been made: whether it was cannot be known, so it must not be made again unasked.
            failure = not_made("interrupted", "This call was interrupted. It may have taken effect.", _CHECK)
            await self._end(call, failure, emit, ok=False)
            return
        emit(ToolStarted(id=call.id, name=call.name, arguments=call.arguments))
        if repeated:
            failure = not_made("repeated-call", "You already made this call in this turn.", _STOP)
            await self._end(call, failure, emit, ok=False)
            return
        answer = await self.tools.attempt(call.name, call.arguments)
        self.changed = self.changed or effect in _ORDERED
        # Only our own error names an approval. The data of an answer may be written by anyone.
        if isinstance(answer.error, ApprovalRequired):
            await self.journal.suspend(call, answer.error.approval_id)
            row = await self._find_approval(answer.error.approval_id)
            if row is not None:
                emit(_need_approval(call, row))
                return
        await self._end(call, answer.data, emit, ok=answer.ok)

    async def _end(self, call: ToolCall, result: dict[str, Any], emit: Emit, *, ok: bool) -> None:
        data = limit_result(self.redact(result))
        await self.journal.add_result(call, json.dumps(data, ensure_ascii=False, default=str), ok=ok)
        emit(ToolEnded(id=call.id, name=call.name, ok=ok, data=data))

    async def _find_approval(self, approval_id: str) -> ApprovalRow | None:
        try:
            return await self.engine.approvals.get(approval_id)
        except NotFound:
            return None


_GO_ON = "Continue without it, or tell the user what you need it for."
_CHECK = "Check whether it took effect before you call it again."
_STOP = "Use the results that you have, try something else, or tell the user what is missing."


def limit_result(data: dict[str, Any]) -> dict[str, Any]:
    """Return what a model gets of a result: all of it, or its beginning as text with a note."""
    text = json.dumps(data, ensure_ascii=False, default=str)
    return data if len(text) <= RESULT_CHARS else {"shortened_result": cut_text(text, RESULT_CHARS)}


def not_made(code: str, message: str, hint: str) -> dict[str, Any]:
    """Return what a model gets instead of the result of a call that was not made."""
    return {"error": {"code": code, "message": message}, "hint": hint}


def _need_approval(call: ToolCall, row: ApprovalRow) -> ApprovalNeeded:
    card = approval_json(row, card=consent_text(row), package=None, diff="")
    return ApprovalNeeded(id=call.id, approval_id=row.id, approval=card)


def _group(calls: Iterable[ToolCall], effects: Mapping[str, str]) -> Iterator[list[ToolCall]]:
    """Yield calls that may be made at the same time. One that changes something is alone, and keeps its place."""
    together: list[ToolCall] = []
    for call in calls:
        if effects[call.name] not in _ORDERED:
            together.append(call)
            continue
        if together:
            yield together
            together = []
        yield [call]
    if together:
        yield together


def _count_calls(answers: Iterable[MessageRow]) -> Counter[str]:
    """Return how often each call was asked for in these answers."""
    calls = (ToolCall(id="", name=call["name"], arguments=call["arguments"]) for row in answers for call in row.calls)
    return Counter(map(_key, calls))


def repeats_itself(answers: Sequence[MessageRow]) -> bool:
    """Return True if the last answer asked again for a call that was made often enough."""
    counts = _count_calls(answers)
    return bool(answers) and any(counts[key] > MAX_REPEATS for key in _count_calls(answers[-1:]))


def fails_alike(messages: Sequence[MessageRow]) -> bool:
    """Return True if the last results of a turn are one and the same error of one tool, more often than a call is repeated."""
    last = [(message.name, message.text, message.detail.get("ok")) for message in messages if message.role == "tool"][
        -MAX_REPEATS - 1 :
    ]
    return len(last) > MAX_REPEATS and len(set(last)) == 1 and last[0][2] is False


def _key(call: ToolCall) -> str:
    return json.dumps([call.name, call.arguments], sort_keys=True, default=str)
