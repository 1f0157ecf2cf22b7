"""Who may: approvals, an organization's policy, the audit; and the events that tell of it all."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from functools import cached_property
from typing import TYPE_CHECKING, Any

from prowess.engine.activating import Activating
from prowess.events import Event
from prowess.policy.actor import Actor

if TYPE_CHECKING:
    from prowess.policy.approvals import Approvals
    from prowess.policy.audit import Audit
    from prowess.policy.organization import OrgPolicy
    from prowess.policy.policies import Policies
    from prowess.storage.approvals import ApprovalRow, ApprovalState
    from prowess.storage.ledger import AuditRow, AuditVerdict


class Deciding(Activating):
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

        def work() -> ApprovalRow:
            row = self._approvals.resolve(actor or self.actor, approval_id, approved=approved, note=note)
            self._wake()
            return row

        return await self._blocking(work)

    async def revoke(self, approval_id: str, *, note: str = "", actor: Actor | None = None) -> ApprovalRow:
        """Take back a question or a yes; what a yes let into a prompt leaves it at the next turn."""

        def work() -> ApprovalRow:
            row = self._approvals.revoke(actor or self.actor, approval_id, note=note)
            self._wake()
            return row

        return await self._blocking(work)

    async def policy(self, *, actor: Actor | None = None) -> OrgPolicy:
        """What the organization has decided about its skills."""
        if not self._parts.has_records():
            from prowess.policy.organization import OrgPolicy

            return OrgPolicy()
        return await self._blocking(lambda: self._policies.read(actor or self.actor))

    async def set_policy(self, name: str, value: Any, *, actor: Actor | None = None) -> OrgPolicy:
        """Change one setting of the organization; a person with `skills.admin` does this. None: back to the default."""

        def work() -> OrgPolicy:
            self._policies.change(actor or self.actor, name, value)
            return self._policies.read(actor or self.actor)

        return await self._blocking(work)

    async def audit(self, *, after: int = 0, limit: int = 100, actor: Actor | None = None) -> list[AuditRow]:
        """What was decided, by whom, about which bytes; oldest first."""
        return await self._blocking(lambda: self._audit.rows(actor or self.actor, after=after, limit=limit))

    async def verify_audit(self, *, head: str = "", actor: Actor | None = None) -> AuditVerdict:
        """Whether no row of the audit was altered, removed or moved; with `head`, also that none is missing at its end."""
        return await self._blocking(lambda: self._audit.verify(actor or self.actor, head=head))

    async def events(
        self, *, after: int = 0, limit: int = 200, names: Sequence[str] = (), session: str = ""
    ) -> list[Event]:
        """What happened after an event's number, in order."""
        feed = self._parts.feed()
        return await self._blocking(lambda: feed.read(after, limit, names=names, session_id=session))

    async def follow(
        self, *, after: int | None = None, names: Sequence[str] = (), session: str = ""
    ) -> AsyncGenerator[Event]:
        """What happens, as it happens, in this process or another; with `after`, from that number on. None is lost."""
        async with aclosing(self._parts.feed().follow(after, names=names, session_id=session)) as events:
            async for event in events:
                yield event

    @cached_property
    def _approvals(self) -> Approvals:
        from prowess.policy.approvals import Approvals

        return Approvals(self._parts.records())

    @cached_property
    def _policies(self) -> Policies:
        from prowess.policy.policies import Policies

        return Policies(self._parts.records())

    @cached_property
    def _audit(self) -> Audit:
        from prowess.policy.audit import Audit

        return Audit(self._parts.records())
