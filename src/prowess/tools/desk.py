"""Where a tool works: for which actor, in which conversation, with which engine."""

from __future__ import annotations

from dataclasses import dataclass, field

from prowess.engine.engine import Engine
from prowess.errors import Invalid
from prowess.policy.actor import Actor
from prowess.session.session import Session


@dataclass(slots=True, kw_only=True)
class Desk:
    """One agent's place of work. `conversation` names its session, which is opened when a tool first needs it.

    With `hands_over`, enabling a skill also answers with its text, for agents whose system prompt is not ours to write.
    """

    engine: Engine
    actor: Actor
    conversation: str = ""
    hands_over: bool = False
    _session: str = field(default="", init=False)

    async def session(self) -> Session:
        """The session of the conversation, as it is now."""
        if self._session:
            return await self.engine.get_session(self._session, actor=self.actor)
        if not self.conversation:
            raise Invalid(
                "This agent has no conversation in which skills could be enabled.",
                hint="Load the skill instead, with load_skill.",
            )
        session = await self.engine.session(self.conversation, actor=self.actor, role=self.actor.role)
        self._session = session.id
        return session
