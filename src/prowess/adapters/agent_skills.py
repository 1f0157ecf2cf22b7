"""The skills of one agent in one conversation, for the agent loop of any framework.

Each adapter translates this to the terms of one framework:

- `begin` matches the user's message before the turn, and enables the skill that fits.
- `prompt` gives the blocks for the system prompt, within the budget of the session. It is cheap: ask again at each step.
- `tools` gives the tools that are offered now, and `call` runs one through the gate.
- A call that a person must approve gives a `PendingApproval`. `answer` records what the person said. After that, the same
  call continues. Approving a call in a framework never opens the gate by itself.

Runs, loads and decisions are recorded by the engine, as with every other interface.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from prowess.agent.decision import MadeDecision, decide_turn
from prowess.engine.engine import Engine
from prowess.errors import ApprovalRequired, Conflict, ProwessError, Unavailable
from prowess.llm.model import Model
from prowess.policy.actor import agent_of
from prowess.tools.tool import SpecFormat, Tool, ToolAnswer, not_an_object, read_arguments
from prowess.tools.toolbox import Toolbox

_MAX_KEPT = 256
"""How many answers of calls that a framework asked about, and did not run yet, are kept."""


def missing_framework(framework: str, extra: str) -> Unavailable:
    """Return the error of a framework that is not installed, with its install line."""
    return Unavailable(f"{framework} is not installed.", hint=f"Run `pip install 'prowess[{extra}]'`.")


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingApproval:
    """A request that a person must answer before a call continues.

    `text` has everything that the person must see. It quotes the skill, which nobody has accepted yet: never send it to a
    model.
    """

    id: str
    tool: str
    arguments: dict[str, Any]
    skill: str = ""
    action: str = ""
    text: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the request as JSON, for an interface that asks a person."""
        return {
            "approval_id": self.id,
            "tool": self.tool,
            "arguments": self.arguments,
            "skill": self.skill,
            "action": self.action,
            "text": self.text,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PendingApproval:
        """Return the request that `as_json` gave."""
        return cls(
            id=data["approval_id"],
            tool=data["tool"],
            arguments=data["arguments"],
            skill=data["skill"],
            action=data["action"],
            text=data["text"],
        )


AskPerson = Callable[[PendingApproval], Awaitable[bool]]
"""Shows a request to a person, and returns True if they approve it. It must not answer by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """The answer to a tool call. With `approval`, the call has not run: a person must answer first."""

    data: dict[str, Any]
    ok: bool = True
    approval: PendingApproval | None = None

    @property
    def text(self) -> str:
        """The answer as JSON text, for a model."""
        return json.dumps(self.data, ensure_ascii=False, default=str)


class AgentSkills:
    """The skills of one agent in one conversation of an open engine, which stays open.

    The agent works for the engine's actor, a person, who answers its approvals. `agent` is its name in the records, and
    `role` limits its tools. `policies`, `memory` and `graph_context` are texts of the application for the prompt; they may
    be changed between steps. With `index`, the prompt also lists the skills that exist. `fallback_model` runs skills that
    ask a model, if none is configured.
    """

    def __init__(
        self,
        prowess: Engine,
        *,
        conversation: str,
        agent: str = "agent",
        role: str = "",
        policies: str = "",
        memory: str = "",
        graph_context: str = "",
        index: bool = False,
        fallback_model: Model | None = None,
    ) -> None:
        self.policies, self.memory, self.graph_context = policies, memory, graph_context
        self.conversation = conversation
        self._person = prowess
        actor = agent_of(prowess.actor, name=agent, role=role) if prowess.actor.is_person else prowess.actor
        self._box = Toolbox(prowess, actor=actor, conversation=conversation, fallback_model=fallback_model)
        self._engine = self._box.context.engine
        self._index = index
        self._message = ""
        self._kept: dict[str, CallResult] = {}
        self._hint = ""

    async def begin(self, message: str, *, before: str = "") -> MadeDecision:
        """Match a message before the turn, and enable the skill that clearly fits. No model is asked.

        `before` is what was said earlier; it counts less. A skill that needs an approval, or has no room in the prompt, is
        left to the model: `hint`, which the prompt of this turn has, says that it could be enabled.
        """
        self._message = message
        self._kept.clear()
        made = await decide_turn(self._engine, await self._box.context.session(), message, before=before)
        self._hint = made.hint
        return made

    async def prompt(self, into: str = "") -> str:
        """Return a system prompt with the blocks of this step at its end; blocks of earlier steps in it are replaced."""
        from prowess.session.prompt import index_block, replace_blocks

        session = await self._box.context.session()
        policies = "\n\n".join(text for text in (self.policies, self._hint) if text)
        blocks = await self._engine.sessions.blocks(
            session, policies=policies, memory=self.memory, graph_context=self.graph_context
        )
        if self._index:
            blocks = (index_block(await self._engine.index(self._message, session=session)), *blocks)
        return replace_blocks(into, blocks)

    async def tools(self) -> list[Tool]:
        """Return the tools that the agent can use now. Those whose name a model API would reject are left out."""
        return [tool for tool in await self._box.offered() if tool.spec("openai") is not None]

    async def specs(self, format: SpecFormat) -> list[dict[str, Any]]:
        """Return the tools that the agent can use now as a model API takes them."""
        return await self._box.specs(format)

    async def call(self, name: str, arguments: Mapping[str, Any] | str, *, call_id: str = "") -> CallResult:
        """Call a tool. Errors are returned as results that a model can act on.

        `arguments` may be the JSON text that a model wrote. The answer of a call that `check` has run is returned once.
        """
        if call_id and (kept := self._kept.pop(_call_key(call_id, name, arguments), None)) is not None:
            return kept
        given = read_arguments(arguments)
        if given is None:
            answer = await self._box.refusal(name, not_an_object(name))
            return CallResult(data=answer.data, ok=False)
        answer = await self._box.attempt(name, given)
        return CallResult(data=answer.data, ok=answer.ok, approval=await self._find_approval(name, given, answer))

    async def check(self, name: str, arguments: Mapping[str, Any] | str, *, call_id: str) -> PendingApproval | None:
        """Return the request that a person must answer before this call, or None if it needs no approval.

        For frameworks that ask before they run a tool. Only the gate knows whether a call needs an approval, so the call is
        made, and `call` with the same id returns its answer.
        """
        key = _call_key(call_id, name, arguments)
        if key not in self._kept:
            result = await self.call(name, arguments)
            if result.approval is not None:
                return result.approval
            while len(self._kept) >= _MAX_KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = result
        return None

    async def answer(self, approval: PendingApproval | str, *, approved: bool, note: str = "") -> None:
        """Record what a person answered. Only call this with the answer of a person who saw the request.

        An answer that was given elsewhere, such as with `prowess approvals`, stands: the same answer again changes nothing,
        and another one raises `Conflict`.
        """
        request = await self._read_approval(approval, "", {}) if isinstance(approval, str) else approval
        try:
            await self._person.approvals.resolve(request.id, approved=approved, note=note, shown=request.text)
        except Conflict:
            state = (await self._person.approvals.get(request.id)).state
            if state != ("approved" if approved else "denied"):
                raise

    async def ask(self, approval: PendingApproval, ask: AskPerson) -> bool:
        """Ask a person and record the answer. Return True if the call must be made again.

        That is also so if the request has expired or was answered otherwise elsewhere: the gate then says what holds.
        """
        approved = await ask(approval)
        try:
            await self.answer(approval, approved=approved)
        except Conflict:
            return True
        return approved

    async def resume(
        self,
        approval: PendingApproval | str,
        name: str,
        arguments: Mapping[str, Any] | str,
        *,
        approved: bool,
        note: str = "",
    ) -> CallResult:
        """Record what a person answered, then make the call that waited for it. A denied call is refused by the gate.

        If the request has expired, or was answered otherwise elsewhere, the call is not made, and the answer says why.
        """
        try:
            await self.answer(approval, approved=approved, note=note)
        except ProwessError as error:
            return CallResult(data=(await self._box.refusal(name, error)).data, ok=False)
        return await self.call(name, arguments)

    async def _find_approval(
        self, name: str, arguments: Mapping[str, Any], answer: ToolAnswer
    ) -> PendingApproval | None:
        # Loading a skill reports its errors in the answer, with the id of the request.
        error = answer.error
        if isinstance(error, ApprovalRequired):
            return await self._read_approval(error.approval_id, name, arguments)
        approval_id = answer.data.get("approval_id") if answer.data.get("error") else None
        return await self._read_approval(str(approval_id), name, arguments) if approval_id else None

    async def _read_approval(self, approval_id: str, name: str, arguments: Mapping[str, Any]) -> PendingApproval:
        from prowess.policy.consent import consent_text

        row = await self._person.approvals.get(approval_id)
        return PendingApproval(
            id=row.id,
            tool=name,
            arguments=dict(arguments),
            skill=row.slug,
            action=row.action,
            text=consent_text(row),
        )


def _call_key(call_id: str, name: str, arguments: Mapping[str, Any] | str) -> str:
    # Some servers number calls from zero in every answer, so the id alone does not identify one.
    return json.dumps([call_id, name, read_arguments(arguments)], sort_keys=True, default=str)
