"""Skills that are called as tools: which there are, and what would become of calling them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from prowess.engine.frame import Frame
from prowess.policy.actor import Actor

if TYPE_CHECKING:
    from prowess.engine.callables import Callables, CallableSkill, Holdings
    from prowess.policy.rules import Ruling


class Calling(Frame):
    """The part of the engine that knows what can be called."""

    async def holdings(self) -> Holdings:
        """What there is for agents to work on; read again only where it changed."""
        return await self._blocking(self._callables.look)

    @property
    def held(self) -> Holdings:
        """The same as of the last look, at no cost: nothing is held before the first one."""
        return self._callables.seen

    async def foresee_runs(self, skills: Sequence[CallableSkill], *, actor: Actor | None = None) -> tuple[Ruling, ...]:
        """What would become of calling each of them now, in their order; nothing is asked or written."""
        who = actor or self.actor
        subjects = [skill.subject for skill in skills]
        return await self._blocking(lambda: self._gate.foresee_all(who, subjects, self._policy_of(who), "run"))

    @cached_property
    def _callables(self) -> Callables:
        from prowess.engine.callables import Callables

        return Callables(self.catalog)
