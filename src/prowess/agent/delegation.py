"""Delegation: an agent whose role has the tool `delegate` gives a task to an agent of another role, and gets its report.

The other agent works in its own conversation, for the same user, with the tools of its role. What it spends counts as
spent by the conversation that delegates. It cannot delegate any further. If it needs an approval, both wait: the call goes
on where it stopped once the approval is answered.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from prowess.agent.compaction import cut_text
from prowess.agent.updates import HelperUpdated, TextWritten, ToolEnded, ToolStarted, TurnEnded, Update
from prowess.errors import ApprovalRequired, Invalid, ProwessError, RunFailed
from prowess.policy.roles import Role, find_role, role_names
from prowess.session.sessions import with_session_role
from prowess.tools.tool import Tool, ToolAnswer, ToolContext, error_data

if TYPE_CHECKING:
    from prowess.agent.agent import Agent
    from prowess.agent.conversation import Conversation
    from prowess.agent.records import BegunTurn
    from prowess.engine.engine import Engine
    from prowess.policy.organization import OrgPolicy

Work = Callable[[str, str], AsyncGenerator[Update]]
"""Sends a message in a helper's conversation, or continues with it without one."""
Report = Callable[[Update], None]

DELEGATE: Final = "delegate"
REPORT_CHARS: Final = 8_000
_TITLE_CHARS: Final = 60
_DESCRIPTION: Final = (
    "Give a task to an agent of another role and get its report. The builder writes skills: tell it the purpose, the "
    "parameters, the result, what the skill may reach, and one test."
)


class _Task(BaseModel):
    model_config = ConfigDict(extra="forbid")

    role: str
    task: str = Field(min_length=1)


def delegation_tools(agent: Agent, engine: Engine, begun: BegunTurn, work: Work, report: Report) -> list[Tool]:
    """Return the tool that delegates, if the role of the conversation names it, else nothing.

    `report` receives what a helper writes and calls, as it happens.
    """
    acting = with_session_role(begun.session, engine.actor)
    if not acting.role:
        return []
    if not _delegates(find_role(acting.role, begun.policy)):
        return []
    return [_make_tool(_Delegation(agent, begun, work, report, _helpers(begun.policy)))]


def _delegates(role: Role) -> bool:
    # By name: a role with all tools is not meant to delegate, and so no agent that was given a task can.
    return DELEGATE in role.tools


def _helpers(policy: OrgPolicy) -> dict[str, Role]:
    """Return the roles that can be given a task."""
    roles = [find_role(name, policy) for name in role_names(policy)]
    return {role.name: role for role in roles if not _delegates(role)}


class _Delegation:
    """Gives tasks to other agents for one turn of a conversation."""

    def __init__(self, agent: Agent, begun: BegunTurn, work: Work, report: Report, helpers: Mapping[str, Role]) -> None:
        self._agent = agent
        self._begun = begun
        self._work = work
        self._report = report
        self.helpers = helpers

    async def run(self, role: str, task: str) -> dict[str, Any]:
        """Give the task to an agent of the role and return its report.

        Raise `ApprovalRequired` if it waits for a person, and `RunFailed` if it did not come to an end.
        """
        if role not in self.helpers:
            raise Invalid(
                f"Tasks cannot be delegated to {role[:80]!r}.", hint=f"Use one of: {', '.join(self.helpers)}."
            )
        own = await self._open(role, task)
        before = await self._agent.get(own.id)
        # The same call continues with the same conversation after an approval or an interruption.
        message = "" if before.turns else task
        used: list[str] = []
        ended: TurnEnded | None = None
        updates = self._work(own.id, message)
        try:
            async with aclosing(updates):
                async for update in updates:
                    if isinstance(update, (TextWritten, ToolStarted, ToolEnded)):
                        self._report(HelperUpdated(role=role, update=asdict(update)))
                    if isinstance(update, ToolEnded) and update.ok:
                        used.append(update.name)
                    elif isinstance(update, TurnEnded):
                        ended = update
        finally:
            await self._count(before)
        if ended is None:
            raise RunFailed(f"The {role} was interrupted.", hint="Delegate the task again.")
        if ended.state == "waiting":
            raise ApprovalRequired(
                f"The {role} waits for a person to approve a call.",
                approval_id=ended.approvals[0],
                hint="It continues by itself once the person has answered.",
            )
        return _report(role, own, ended, used)

    async def _open(self, role: str, task: str) -> Conversation:
        row = self._begun.journal.row
        key = hashlib.sha256(f"{row.id}\n{row.turn}\n{role}\n{task}".encode()).hexdigest()[:16]
        return await self._agent.start(
            conversation=f"delegated:{row.id}:{key}",
            model=self._begun.session.model,
            role=role,
            title=f"{role}: {' '.join(task.split())[:_TITLE_CHARS]}",
        )

    async def _count(self, before: Conversation) -> None:
        after = await self._agent.get(before.id)
        cost = None if after.cost_usd is None else after.cost_usd - (before.cost_usd or 0.0)
        await self._begun.journal.add_spent(
            after.input_tokens - before.input_tokens, after.output_tokens - before.output_tokens, cost
        )


def _report(role: str, own: Conversation, ended: TurnEnded, used: list[str]) -> dict[str, Any]:
    data: dict[str, Any] = {
        "role": role,
        "status": ended.state,
        "report": cut_text(ended.text, REPORT_CHARS),
        "calls": list(dict.fromkeys(used)),
        "conversation": own.id,
    }
    if ended.error is not None:
        data["error"] = ended.error
        data["hint"] = "Tell the user what happened, or give a smaller task."
    return data


def _make_tool(delegation: _Delegation) -> Tool:
    async def call(context: ToolContext, given: Mapping[str, Any]) -> ToolAnswer:  # noqa: ARG001
        try:
            values = _Task.model_validate(given, strict=True)
        except ValidationError:
            error = Invalid("A task needs a role and a task.", hint="Call delegate with role and task, both texts.")
            return ToolAnswer(data=error_data(error), error=error)
        try:
            return ToolAnswer(data=await delegation.run(values.role, values.task))
        except ProwessError as error:
            return ToolAnswer(data=error_data(error), error=error)

    role = {"type": "string", "enum": list(delegation.helpers)}
    task = {"type": "string", "description": "Everything that it has to know: it sees nothing else."}
    return Tool(
        name=DELEGATE,
        description=_DESCRIPTION,
        parameters={"type": "object", "properties": {"role": role, "task": task}, "required": ["role", "task"]},
        effect="changes",
        call=call,
    )
