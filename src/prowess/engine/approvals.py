"""Who may do what: approvals, the organization's policy, environment grants and the audit log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from prowess.engine.context import Context
from prowess.errors import NotFound
from prowess.threads import offload

if TYPE_CHECKING:
    from prowess.policy.grants import EnvGrant
    from prowess.policy.organization import OrgPolicy
    from prowess.storage.approvals import ApprovalRow, ApprovalState
    from prowess.storage.ledger import AuditRow, AuditVerdict


class Approvals:
    """What people were asked, and their answers."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def list(self, states: Sequence[ApprovalState] = ("pending",)) -> list[ApprovalRow]:
        """Return the approvals in these states, newest first."""
        context = self._context
        return await offload(lambda: context.resources.approvals.list(context.actor, states))

    async def get(self, approval_id: str) -> ApprovalRow:
        """Return one approval with everything that a person needs to answer it."""
        context = self._context
        return await offload(lambda: context.resources.approvals.get(context.actor, approval_id))

    async def resolve(self, approval_id: str, *, approved: bool, note: str = "") -> ApprovalRow:
        """Approve or deny, once and for all. Raise `Refused` for an agent: only a person can answer."""
        context = self._context
        return await offload(
            lambda: context.resources.approvals.resolve(context.actor, approval_id, approved=approved, note=note)
        )

    async def revoke(self, approval_id: str, *, note: str = "") -> ApprovalRow:
        """Withdraw a pending or approved request. A skill that it let into a prompt leaves it at the next turn."""
        context = self._context
        return await offload(lambda: context.resources.approvals.revoke(context.actor, approval_id, note=note))


class Policy:
    """The policy of the actor's organization."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def get(self) -> OrgPolicy:
        """Return the organization's policy."""
        return await offload(self._context.read_policy)

    async def set(self, name: str, value: Any) -> OrgPolicy:
        """Change one setting, or reset it to its default with None. Only a person with `skills.admin` can."""
        resources = self._context.resources

        def change() -> OrgPolicy:
            try:
                return resources.policies.change(self._context.actor, name, value)
            finally:
                # The gate remembers policies for a moment; this process must see its own change at once.
                resources.gate.forget()

        return await offload(change)


class Environment:
    """Which skills may read which environment variables, each for exactly its current bytes."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def allow(self, slug: str, name: str) -> EnvGrant:
        """Let a skill, as it is now, read a variable that it declares. Only an administrator can."""
        from prowess.policy.grants import EnvGrant
        from prowess.skill.needs import read_needs

        context = self._context

        def allow() -> EnvGrant:
            skill = context.catalog.find(slug)[1]
            context.resources.env_grants.allow(
                context.actor, slug=skill.slug, digest=skill.digest, asked=read_needs(skill).env, name=name
            )
            is_set = name in context.resources.environment
            return EnvGrant(slug=skill.slug, name=name, state="allowed" if is_set else "unset")

        return await offload(allow)

    async def forbid(self, slug: str, name: str) -> None:
        """Take the permission back, whatever the skill's bytes are by now. Only an administrator can."""
        context = self._context
        await offload(
            lambda: context.resources.env_grants.forbid(context.actor, slug=slug.rpartition(":")[2], name=name)
        )

    async def list(self, slug: str = "") -> list[EnvGrant]:
        """Return what a skill declares and is allowed; without a slug, that of every skill that was allowed something."""

        def read() -> list[EnvGrant]:
            self._context.actor.require("skills.read")
            policy = self._context.read_policy()
            slugs = [slug] if slug else list(policy.skill_env)
            return [grant for each in slugs for grant in self._read_grants(each, policy)]

        return await offload(read)

    def _read_grants(self, address: str, policy: OrgPolicy) -> Sequence[EnvGrant]:
        from prowess.policy.grants import list_env_grants
        from prowess.skill.needs import read_needs

        try:
            skill = self._context.catalog.find(address)[1]
        except NotFound:
            # A skill that is gone may still have a permission, which must be visible to be taken back.
            if address not in policy.skill_env:
                raise
            return list_env_grants(address, "", (), policy.skill_env[address], there=())
        allowed, environment = policy.skill_env.get(skill.slug, {}), self._context.resources.environment
        return list_env_grants(skill.slug, skill.digest, read_needs(skill).env, allowed, there=environment)


class AuditLog:
    """The audit log of the actor's organization. Only an administrator can read it."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def rows(self, *, after: int = 0, limit: int = 100) -> list[AuditRow]:
        """Return what was decided, by whom and about which bytes; oldest first."""
        context = self._context
        return await offload(lambda: context.resources.audit.rows(context.actor, after=after, limit=limit))

    async def last(self) -> int:
        """Return the number of the newest row, or 0."""
        context = self._context
        return await offload(lambda: context.resources.audit.last(context.actor))

    async def verify(self, *, head: str = "") -> AuditVerdict:
        """Check that no row was altered, removed or moved. With `head`, also that none is missing at the end."""
        context = self._context
        return await offload(lambda: context.resources.audit.verify(context.actor, head=head))
