"""Approvals, the organization's policy, environment grants and the audit log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from prowess.engine.context import Part, check_limit
from prowess.engine.events import Events
from prowess.engine.reviewed_files import diff_files, find_files, find_requested_files, keep_files
from prowess.errors import Invalid, NotFound, Refused
from prowess.policy.trust import TrustRecords
from prowess.skill.needs import read_needs
from prowess.storage import ledger
from prowess.storage.audit_chain import AuditVerdict, verify_audit
from prowess.storage.clock import parse_moment
from prowess.storage.counts import last_audit
from prowess.storage.sqlite import no_deadline
from prowess.storage.trust import list_folders
from prowess.threads import offload

if TYPE_CHECKING:
    import sqlalchemy as sa

    from prowess.policy.account import SkillAccount
    from prowess.policy.configuration import SettingState
    from prowess.policy.grants import EnvGrant
    from prowess.policy.organization import OrgPolicy
    from prowess.skill.package import Package
    from prowess.storage.approvals import ApprovalRow, ApprovalState
    from prowess.storage.ledger import AuditRow

P = ParamSpec("P")
T = TypeVar("T")

_ENDED = ("approval_resolved",)
"""The event of an approval that was answered, revoked or expired."""


class Approvals(Part):
    """Requests for approval, and the answers to them."""

    async def list(self, states: Sequence[ApprovalState] = ("pending",)) -> list[ApprovalRow]:
        """Return the approvals in these states, newest first."""
        context = self._context
        return await offload(lambda: context.resources.approvals.list(context.actor, states))

    async def get(self, approval_id: str) -> ApprovalRow:
        """Return one approval with everything that a person needs to answer it."""
        context = self._context
        return await offload(lambda: context.resources.approvals.get(context.actor, approval_id))

    async def wait(self, approval_id: str, *, seconds: float) -> ApprovalRow:
        """Wait until an approval is answered, or until the timeout, and return it.

        The answer can come from another process.
        """
        import asyncio  # lazy: short commands that use this class have no event loop

        events = Events(self._context)
        # The position is read first: an answer between the two reads is an event after it.
        position = await events.last()
        row = await self.get(approval_id)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds), aclosing(events.follow(after=position, names=_ENDED)) as ended:
                while row.state == "pending":
                    await anext(ended)
                    row = await self.get(approval_id)
        return row

    async def resolve(
        self, approval_id: str, *, approved: bool, note: str = "", proof: str = "", shown: str = ""
    ) -> ApprovalRow:
        """Approve or deny a request. An answer is final. Raise `Refused` for an agent: only a person can answer.

        `proof` says how the application knows that a person answers, and `shown` is the text they saw; the audit has both.
        """
        from prowess.policy.approvals import APPLICATION_PROOF

        context = self._context

        def resolve() -> ApprovalRow:
            row = context.resources.approvals.resolve(
                context.actor, approval_id, approved=approved, note=note, proof=proof or APPLICATION_PROOF, shown=shown
            )
            if row.state == "approved":
                self._keep_files(row)
            return row

        return await offload(resolve)

    async def revoke(self, approval_id: str, *, note: str = "") -> ApprovalRow:
        """Revoke a pending or approved request. A skill that it admitted is removed from the prompt at the next turn."""
        context = self._context
        return await offload(lambda: context.resources.approvals.revoke(context.actor, approval_id, note=note))

    async def package(self, approval_id: str) -> Package | None:
        """Return the files of a request, or None if they are no longer, or not yet, in the catalog."""
        row = await self._read_as_person(approval_id)
        return await offload(lambda: find_requested_files(self._context, row))

    async def diff(self, approval_id: str) -> str:
        """Return what changed since the version that was accepted before, as text; '' if there was none."""
        row = await self._read_as_person(approval_id)
        if row.detail.get("diff"):
            return str(row.detail["diff"])
        return await offload(lambda: diff_files(self._context, row.slug, row.digest, scope=_scope_of(row)))

    async def _read_as_person(self, approval_id: str) -> ApprovalRow:
        """Return an approval whose files are to be shown; raise `Refused` for an agent, which may not see them."""
        if not self._context.actor.is_person:
            raise Refused(
                "Only a person can see the files of a request.",
                hint="Tell the user the id of the request: `prowess approvals show ID` shows its files.",
            )
        return await self.get(approval_id)

    async def record_token(self, *, made: bool) -> None:
        """Log that an approver token was created or removed. Raise `Refused` unless the actor may approve."""
        context = self._context
        context.actor.require("approvals.resolve")
        outcome = "token-made" if made else "token-removed"
        await offload(lambda: context.resources.gate.end(context.actor, "approve", outcome))

    def _keep_files(self, row: ApprovalRow) -> None:
        package = find_files(self._context, row.slug, row.digest, scope=_scope_of(row))
        if package is not None:
            keep_files(self._context, [package])


def _read_moment(text: str) -> str:
    try:
        return parse_moment(text) if text else ""
    except ValueError as error:
        raise Invalid(f"Invalid time {text[:80]!r}.", hint="Use a time such as 2026-03-01T09:30:00Z.") from error


def _scope_of(row: ApprovalRow) -> str:
    return str(row.detail.get("scope", ""))


class Policy(Part):
    """The policy of the actor's organization."""

    async def get(self) -> OrgPolicy:
        """Return the organization's policy."""
        return await offload(self._context.read_policy)

    async def describe(self) -> list[SettingState]:
        """Return every setting with its value, its default, and who changed it when."""
        from prowess.policy.configuration import describe_settings

        context = self._context

        def read() -> list[SettingState]:
            if context.resources.has_records():
                return context.resources.policies.describe(context.actor)
            context.actor.require("skills.read")
            return describe_settings({})

        return await offload(read)

    async def set(self, name: str, value: Any) -> OrgPolicy:
        """Change one setting, or reset it to its default with None. Only a person with `admin` can."""
        resources = self._context.resources

        return await offload(lambda: resources.policies.change(self._context.actor, name, value))

    async def set_all(self, values: Mapping[str, Any]) -> OrgPolicy:
        """Change several settings together, or none if one of them is not valid. Only a person with `admin` can."""
        resources = self._context.resources
        return await offload(lambda: resources.policies.change_all(self._context.actor, values))

    async def switch(self, *slugs: str, on: bool) -> OrgPolicy:
        """Switch skills off for the organization, or on again. Only a person with `admin` can.

        Nobody can find, enable, load or run a skill that is off, and it is removed from every prompt. Its files stay in place,
        and a person sees it in the list. Raise `NotFound` for a slug that does not exist.
        """
        resources, catalog = self._context.resources, self._context.catalog

        def change() -> OrgPolicy:
            off = resources.policies.read(self._context.actor).disabled_skills or () if on else ()

            def find(slug: str) -> str:
                # A name of a skill that is gone may still be on the list; it can be taken off it.
                name = slug.rpartition(":")[2]
                return name if name in off else catalog.find_outline(slug)[1].slug

            return resources.policies.switch(self._context.actor, [find(slug) for slug in slugs], on=on)

        return await offload(change)


class Environment(Part):
    """Which skills may read which environment variables, each for exactly its current bytes."""

    async def allow(self, slug: str, name: str) -> EnvGrant:
        """Let the current version of a skill read a variable that it declares. Only an administrator can."""
        from prowess.policy.grants import EnvGrant

        context = self._context

        def allow() -> EnvGrant:
            skill = context.catalog.find(slug)[1]
            context.resources.env_grants.allow(
                context.actor, slug=skill.slug, digest=skill.digest, declared=read_needs(skill).env, name=name
            )
            is_set = name in context.resources.environment
            return EnvGrant(slug=skill.slug, name=name, state="allowed" if is_set else "unset")

        return await offload(allow)

    async def forbid(self, slug: str, name: str) -> None:
        """Revoke the permission for every version of the skill. Only an administrator can."""
        context = self._context
        await offload(
            lambda: context.resources.env_grants.forbid(context.actor, slug=slug.rpartition(":")[2], name=name)
        )

    async def list(self, slug: str = "") -> list[EnvGrant]:
        """Return the variables that a skill declares and may read; without a slug, those of every skill with a permission."""

        def read() -> list[EnvGrant]:
            self._context.actor.require("skills.read")
            policy = self._context.read_policy()
            slugs = [slug] if slug else list(policy.skill_env)
            return [grant for each in slugs for grant in self._read_grants(each, policy)]

        return await offload(read)

    def _read_grants(self, address: str, policy: OrgPolicy) -> Sequence[EnvGrant]:
        from prowess.policy.grants import list_env_grants

        try:
            skill = self._context.catalog.find(address)[1]
        except NotFound:
            # A skill that is gone may still have a permission, which must be visible to be taken back.
            if address not in policy.skill_env:
                raise
            return list_env_grants(address, "", (), policy.skill_env[address], there=())
        allowed, environment = policy.skill_env.get(skill.slug, {}), self._context.resources.environment
        return list_env_grants(skill.slug, skill.digest, read_needs(skill).env, allowed, there=environment)


class AuditLog(Part):
    """The audit log of the actor's organization. Only an administrator can read it."""

    async def rows(self, *, after: int = 0, limit: int = 100) -> list[AuditRow]:
        """Return the recorded decisions with actor and digest, oldest first."""
        check_limit(limit)
        return await offload(self._read, ledger.read_audit, after=after, limit=limit)

    async def find(
        self,
        *,
        before: int | None = None,
        limit: int = 100,
        by: str = "",
        action: str = "",
        slug: str = "",
        outcome: str = "",
        since: str = "",
    ) -> list[AuditRow]:
        """Return the recorded decisions before a number, newest first: those by this actor, of this action, and so on.

        `by` and `slug` may be a part of those texts. `since` is a time such as `2026-03-01` or `2026-03-01T09:30:00Z`.
        """
        check_limit(limit)
        filters = {"actor": by, "action": action, "slug": slug, "outcome": outcome, "since": _read_moment(since)}
        return await offload(lambda: self._read(ledger.find_audit, before=before, limit=limit, **filters))

    async def count(self, *, by: str = "", action: str = "", slug: str = "", outcome: str = "", since: str = "") -> int:
        """Return how many decisions `find` returns without a limit."""
        filters = {"actor": by, "action": action, "slug": slug, "outcome": outcome, "since": _read_moment(since)}
        return await offload(lambda: self._read(ledger.count_audit, **filters))

    async def last(self) -> int:
        """Return the number of the newest row, or 0."""
        return await offload(self._read, last_audit)

    async def verify(self, *, head: str = "") -> AuditVerdict:
        """Check that no row was altered, removed, added or moved since it was written.

        Rows removed from the end leave no gap in the chain. To detect that too, pass the `head` of an earlier verdict that
        was kept elsewhere.
        """

        def verify(connection: sa.Connection, organization: str) -> AuditVerdict:
            # A log has no maximum length, so neither has the time that this takes.
            with no_deadline(connection):
                return verify_audit(connection, organization, head=head)

        return await offload(self._read, verify)

    def _read(self, read: Callable[Concatenate[sa.Connection, str, P], T], *given: P.args, **named: P.kwargs) -> T:
        actor = self._context.actor
        actor.require("admin")
        with self._context.resources.records().read() as connection:
            return read(connection, actor.organization, *given, **named)

    async def skill(self, slug: str) -> SkillAccount:
        """Return who approved which version of a skill, when, through which channel and what they saw; and where it is used.

        Raise `NotFound` if there is no such skill and nothing is recorded about one.
        """
        return await offload(self._read_account, slug)

    def _read_account(self, slug: str) -> SkillAccount:
        from prowess.policy.account import SkillAccount, read_account

        context = self._context
        context.actor.require("admin")
        try:
            _, outline = context.catalog.find_outline(slug)
            place = {"digest": outline.digest, "location": f"{outline.scope}: {outline.location}"}
            slug, missing = outline.slug, None
        except NotFound as error:
            # A skill that is gone still has a history.
            place, slug, missing = {}, slug.rpartition(":")[2], error
        account = SkillAccount(slug=slug)
        if context.resources.has_records():
            with context.resources.records().read() as connection:
                account = read_account(connection, context.actor.organization, slug, current=place.get("digest", ""))
        if missing is not None and account.is_empty:
            raise missing
        return replace(account, **place, **self._read_trust(slug) if not missing else {})

    def _read_trust(self, slug: str) -> dict[str, str]:
        """Return how far a skill is trusted now, and the rule by which it needs no answer, if there is one."""
        from prowess.session.text import read_subject

        context = self._context
        store, outline = context.catalog.find_outline(slug)
        (subject,) = context.resources.gate.resolve(context.actor, [read_subject(context.catalog, store, outline)])
        if subject.frozen:
            return {"trust": subject.trust, "standing": "It is part of an installed package."}
        rules = dict.fromkeys(context.resources.trusted_folders, "by the setting PROWESS_TRUSTED_FOLDERS")
        if context.resources.has_records():
            with context.resources.records().read() as connection:
                rules |= {
                    rule.folder: f"by {rule.actor} at {rule.created_at[:19]} through {rule.channel} ({rule.proof})"
                    for rule in list_folders(connection, context.actor.owner)
                }
        for folder, words in rules.items():
            if TrustRecords(folders=(folder,)).has_rule(subject.folder):
                return {"trust": subject.trust, "standing": f"All skills in {folder} are trusted {words}."}
        return {"trust": subject.trust, "standing": ""}
