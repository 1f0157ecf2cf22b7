"""Approvals, the organization's policy, the audit log and events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from prowess.engine.parts import Frame
from prowess.events import Event
from prowess.policy.actor import Actor

if TYPE_CHECKING:
    from prowess.policy.organization import OrgPolicy
    from prowess.storage.approvals import ApprovalRow, ApprovalState
    from prowess.storage.ledger import AuditRow, AuditVerdict


class Deciding(Frame):
    """The part of the engine that asks, answers, remembers and tells."""

    async def approvals(
        self, states: Sequence[ApprovalState] = ("pending",), *, actor: Actor | None = None
    ) -> list[ApprovalRow]:
        """What people are, or were, asked; the newest first."""
        return await self._blocking(lambda: self._approvals.list(actor or self.actor, states))

    async def approval(self, approval_id: str, *, actor: Actor | None = None) -> ApprovalRow:
        """One question, with everything that a person needs to answer it."""
        return await self._blocking(lambda: self._approvals.get(actor or self.actor, approval_id))

    async def resolve(
        self, approval_id: str, *, approved: bool, note: str = "", actor: Actor | None = None
    ) -> ApprovalRow:
        """Answer a question, once and for all. A person does this; an agent is refused."""
        return await self._blocking(
            lambda: self._approvals.resolve(actor or self.actor, approval_id, approved=approved, note=note)
        )

    async def revoke(self, approval_id: str, *, note: str = "", actor: Actor | None = None) -> ApprovalRow:
        """Take back a question or a yes; what a yes let into a prompt leaves it at the next turn."""
        return await self._blocking(lambda: self._approvals.revoke(actor or self.actor, approval_id, note=note))

    async def policy(self, *, actor: Actor | None = None) -> OrgPolicy:
        """What the organization has decided about its skills."""
        return await self._blocking(lambda: self._policy_of(actor or self.actor))

    async def set_policy(self, name: str, value: Any, *, actor: Actor | None = None) -> OrgPolicy:
        """Change one setting of the organization; a person with `skills.admin` does this. None: back to the default."""

        def work() -> OrgPolicy:
            try:
                return self._policies.change(actor or self.actor, name, value)
            finally:
                self._gate.forget()

        return await self._blocking(work)

    async def audit(self, *, after: int = 0, limit: int = 100, actor: Actor | None = None) -> list[AuditRow]:
        """What was decided, by whom, about which bytes; oldest first."""
        return await self._blocking(lambda: self._audit.rows(actor or self.actor, after=after, limit=limit))

    async def last_audit(self, *, actor: Actor | None = None) -> int:
        """The number of the newest row of the audit, 0 where there is none."""
        return await self._blocking(lambda: self._audit.last(actor or self.actor))

    async def verify_audit(self, *, head: str = "", actor: Actor | None = None) -> AuditVerdict:
        """Whether no row of the audit was altered, removed or moved; with `head`, also that none is missing at its end."""
        return await self._blocking(lambda: self._audit.verify(actor or self.actor, head=head))

    async def events(
        self,
        *,
        after: int = 0,
        limit: int = 200,
        names: Sequence[str] = (),
        session: str = "",
        actor: Actor | None = None,
    ) -> list[Event]:
        """What happened after an event's number, in order: to the actor's user, or, for an administrator, to anybody."""
        who = actor or self.actor
        user = _visible_user(who)
        feed = self._parts.feed(who.organization)
        return await self._blocking(lambda: feed.read(after, limit, names=names, session_id=session, user=user))

    async def last_event(self, *, actor: Actor | None = None) -> int:
        """The number of the organization's newest event, 0 where there is none."""
        who = actor or self.actor
        who.require("skills.read")
        return await self._blocking(self._parts.feed(who.organization).last)

    async def follow(
        self,
        *,
        after: int | None = None,
        names: Sequence[str] = (),
        session: str = "",
        actor: Actor | None = None,
    ) -> AsyncGenerator[Event]:
        """What happens, as it happens, in this process or another; with `after`, from that number on. None is lost.

        As in `events`, an actor who is no administrator is told what happens to its own user.
        """
        who = actor or self.actor
        user = _visible_user(who)
        feed = self._parts.feed(who.organization)
        async with aclosing(feed.follow(after, names=names, session_id=session, user=user)) as events:
            async for event in events:
                yield event


def _visible_user(actor: Actor) -> str | None:
    """Whose events an actor sees: those of its own user; None, of all, for an administrator."""
    actor.require("skills.read")
    return None if actor.admin else actor.user
