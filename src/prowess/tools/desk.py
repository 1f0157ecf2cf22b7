"""Where a tool works: for which actor, in which conversation, with which engine."""

from __future__ import annotations

from dataclasses import dataclass, field

from prowess.engine.engine import Engine
from prowess.errors import Invalid
from prowess.llm.model import Model
from prowess.policy.actor import Actor
from prowess.run.call import Watch, unwatched
from prowess.session.session import Session


@dataclass(slots=True, kw_only=True)
class Desk:
    """One agent's place of work. `conversation` names its session, which is opened when a tool first needs it.

    With `hands_over`, enabling a skill also answers with its text, for agents whose system prompt is not ours to write.
    `watch` is told of the progress of what is run, and `spare` is the model that is asked where none is configured.
    `reserved` are the names that no skill's tool can have.
    """

    engine: Engine
    actor: Actor
    conversation: str = ""
    hands_over: bool = False
    watch: Watch = unwatched
    spare: Model | None = None
    reserved: frozenset[str] = frozenset()
    _session: str = field(default="", init=False)

    async def found(self) -> Session | None:
        """The session of the conversation, where one is open; none is opened for this."""
        if not self.conversation:
            return None
        return await self.engine.find_session(self._session or self.conversation, actor=self.actor)

    async def role(self) -> str:
        """The name of the role that the agent works in: its own, else that of its session; '' for none."""
        return (await self.acting()).role

    async def acting(self) -> Actor:
        """The agent in that role."""
        if self.actor.role or not self.conversation:
            return self.actor
        return await self.engine.acting(self._session or self.conversation, actor=self.actor)

    async def session(self) -> Session:
        """The session of the conversation, as it is now."""
        if self._session:
            return await self.engine.get_session(self._session, actor=self.actor)
        self.require_conversation()
        session = await self.engine.session(self.conversation, actor=self.actor, role=self.actor.role)
        self._session = session.id
        return session

    def require_conversation(self) -> None:
        """`Invalid` for an agent without a conversation, which has no prompt of ours."""
        if not self.conversation:
            raise Invalid(
                "This agent has no conversation in which skills could be enabled.",
                hint="Load the skill instead, with load_skill.",
            )
