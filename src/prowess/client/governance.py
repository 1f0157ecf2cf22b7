"""Approvals, the policy, the audit log, and the people of an organization, over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

from prowess.client.part import Part, decode, decode_policy
from prowess.client.records import Events
from prowess.client.skills import Skills, skill_path
from prowess.client.transport import read_json, segment
from prowess.errors import NotFound

if TYPE_CHECKING:
    from prowess.policy.account import SkillAccount
    from prowess.policy.organization import OrgPolicy
    from prowess.policy.tokens import NewToken
    from prowess.skill.package import Package
    from prowess.storage.approvals import ApprovalRow, ApprovalState
    from prowess.storage.audit_chain import AuditVerdict
    from prowess.storage.credentials import Token
    from prowess.storage.ledger import AuditRow
    from prowess.storage.people import Member, Organization

_ENDED = ("approval_resolved",)
"""The event of an approval that was answered, revoked or expired."""


class Policy(Part):
    """The settings of the caller's organization."""

    async def get(self) -> OrgPolicy:
        """Return all settings."""
        return decode_policy(await self._transport.get("/settings"))

    async def set(self, name: str, value: Any) -> OrgPolicy:
        """Change one setting, or reset it to its default with None. Only a person with `admin` can."""
        path = f"/settings/{segment(name)}"
        if value is None:
            return decode_policy(read_json(await self._transport.send("DELETE", path)))
        return decode_policy(read_json(await self._transport.send("PUT", path, json={"value": value})))

    async def switch(self, *slugs: str, on: bool) -> OrgPolicy:
        """Switch skills off for the organization, or on again. Only a person with `admin` can."""
        for slug in slugs:
            await self._transport.send("PUT", skill_path(slug), json={"enabled": on})
        return await self.get()


class Approvals(Part):
    """Requests for approval, and the answers to them."""

    async def list(self, states: Sequence[ApprovalState] = ("pending",)) -> list[ApprovalRow]:
        """Return the approvals in these states, newest first."""
        from prowess.storage.approvals import ApprovalRow

        state = states[0] if len(states) == 1 else "all"
        found = [decode(ApprovalRow, row) async for row in self._transport.pages("/approvals", state=state)]
        return [row for row in found if row.state in states]

    async def get(self, approval_id: str) -> ApprovalRow:
        """Return one approval with everything that a person needs to answer it."""
        from prowess.storage.approvals import ApprovalRow

        return decode(ApprovalRow, await self._transport.get(_approval_path(approval_id)))

    async def wait(self, approval_id: str, *, seconds: float) -> ApprovalRow:
        """Wait until an approval is answered, or until the timeout, and return it."""
        events = Events(self._transport)
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

        With `shown`, the text that the person saw, the audit has the server's own text of the request. The server does not
        trust a client's `proof`.
        """
        from prowess.storage.approvals import ApprovalRow

        _ = proof
        card = (await self._transport.get(_approval_path(approval_id)))["card_sha256"] if shown else ""
        body = {"approved": approved, "note": note, "shown": card}
        return decode(ApprovalRow, await self._transport.post(_approval_path(approval_id), body))

    async def revoke(self, approval_id: str, *, note: str = "") -> ApprovalRow:
        """Revoke a pending or approved request. A skill that it admitted is removed from the prompt at the next turn."""
        from prowess.storage.approvals import ApprovalRow

        return decode(ApprovalRow, await self._transport.post(_approval_path(approval_id, "revoke"), {"note": note}))

    async def package(self, approval_id: str) -> Package | None:
        """Return the files of a request, or None if they are not in the catalog."""
        row = await self.get(approval_id)
        try:
            package = await Skills(self._transport).package(f"{row.detail.get('scope') or ''}:{row.slug}".lstrip(":"))
        except NotFound:
            return None
        return package if package.digest == row.digest else None

    async def diff(self, approval_id: str) -> str:
        """Return what changed since the version that was accepted before, as text; '' if there was none."""
        return (await self._transport.get(_approval_path(approval_id)))["diff"]


class AuditLog(Part):
    """The audit log of the caller's organization. Only an administrator can read it."""

    async def rows(self, *, after: int = 0, limit: int = 100) -> list[AuditRow]:
        """Return the recorded decisions with actor and digest, oldest first."""
        from prowess.storage.ledger import AuditRow

        return [decode(AuditRow, row) async for row in self._transport.pages("/audit", most=limit, after=after)]

    async def find(
        self,
        *,
        limit: int = 100,
        by: str = "",
        action: str = "",
        slug: str = "",
        outcome: str = "",
        since: str = "",
    ) -> list[AuditRow]:
        """Return decisions, newest first, that match all values that are not ''. `by` and `slug` match parts of names."""
        from prowess.storage.ledger import AuditRow

        filters = {"actor": by, "action": action, "slug": slug, "outcome": outcome, "since": since}
        found = self._transport.pages("/audit/newest", most=limit, **filters)
        return [decode(AuditRow, row) async for row in found]

    async def last(self) -> int:
        """Return the number of the newest row, or 0."""
        return int((await self._transport.get("/audit", limit=1))["last"])

    async def skill(self, slug: str) -> SkillAccount:
        """Return who approved which version of a skill, when, and where it is used."""
        from prowess.policy.account import SkillAccount

        return decode(SkillAccount, await self._transport.get(f"/audit/skills/{segment(slug)}"))

    async def verify(self, *, head: str = "") -> AuditVerdict:
        """Check that no row was altered, removed or moved. With `head`, also that none is missing at the end."""
        from prowess.storage.audit_chain import AuditVerdict

        return decode(AuditVerdict, await self._transport.get("/audit/verify", head=head))


def _approval_path(approval_id: str, action: str = "") -> str:
    return f"/approvals/{segment(approval_id)}" + (f"/{action}" if action else "")


class Organizations(Part):
    """The organizations of a server. The operator manages all of them; everyone else sees their own."""

    async def create(self, organization: str, *, name: str = "") -> Organization:
        """Create an organization. Only the operator can."""
        return _organization(await self._transport.post("/organizations", {"id": organization, "name": name}))

    async def list(self) -> list[Organization]:
        """Return the organizations that the caller may see, by id."""
        return [_organization(row) async for row in self._transport.pages("/organizations")]

    async def get(self, organization: str) -> Organization:
        """Return an organization, or raise `NotFound`."""
        return _organization(await self._transport.get(f"/organizations/{segment(organization)}"))

    async def deactivate(self, organization: str) -> Organization:
        """Deactivate an organization: its tokens and web sessions end at once, its records stay. Only the operator can."""
        response = await self._transport.send("DELETE", f"/organizations/{segment(organization)}")
        return _organization(read_json(response))


class Users(Part):
    """The members of an organization."""

    async def add(
        self,
        user: str,
        *,
        organization: str = "",
        name: str = "",
        email: str = "",
        admin: bool = False,
        permissions: Collection[str] | None = None,
    ) -> Member:
        """Add a user, as admin or with some permissions (by default all but `admin`). Only an admin can."""
        body = {"user_id": user, "name": name, "email": email, "admin": admin, "permissions": _list(permissions)}
        return _member(await self._transport.post("/members", body, organization=organization))

    async def change(
        self, user: str, *, organization: str = "", admin: bool = False, permissions: Collection[str] | None = None
    ) -> Member:
        """Replace the permissions of a member. Only an admin can; the last admin stays one."""
        response = await self._transport.send(
            "PUT",
            f"/members/{segment(user)}/permissions",
            params={"organization": organization},
            json={"admin": admin, "permissions": _list(permissions)},
        )
        return _member(read_json(response))

    async def list(self, *, organization: str = "") -> list[Member]:
        """Return the members, active or not, by id. Only an admin can."""
        return [_member(row) async for row in self._transport.pages("/members", organization=organization)]

    async def get(self, user: str, *, organization: str = "") -> Member:
        """Return a member, or raise `NotFound`. People see themselves, admins see everyone."""
        return _member(await self._transport.get(f"/members/{segment(user)}", organization=organization))

    async def remove(self, user: str, *, organization: str = "") -> Member:
        """End a membership: the user's tokens and web sessions end at once. Only an admin can; the last admin stays."""
        path, params = f"/members/{segment(user)}", {"organization": organization}
        return _member(read_json(await self._transport.send("DELETE", path, params=params)))


class Tokens(Part):
    """Tokens for HTTP. Everyone manages their own; an admin also manages those of the organization."""

    async def create(
        self,
        name: str = "",
        *,
        agent: str = "",
        scopes: Collection[str] | None = None,
        days: float | None = 90,
        organization: str = "",
        user: str = "",
    ) -> NewToken:
        """Create a token, and return it with its secret, which is not stored and cannot be shown again.

        With `agent`, it is the token of an agent of that name, which can neither approve nor administer.
        """
        from prowess.policy.tokens import NewToken

        body = {"name": name, "agent": agent, "scopes": _list(scopes), "expires_days": days, "user_id": user}
        payload = await self._transport.post("/tokens", body, organization=organization)
        return NewToken(secret=payload["token"], token=_token(payload))

    async def list(self, *, organization: str = "", user: str = "", everyone: bool = False) -> list[Token]:
        """Return the caller's tokens, newest first; as an admin those of a user, or of everyone."""
        params: dict[str, Any] = {"organization": organization, "user": user, "everyone": everyone or None}
        found = [_token(row) async for row in self._transport.pages("/tokens", **params)]
        return sorted(found, key=lambda token: token.created_at, reverse=True)

    async def revoke(self, token_id: str) -> Token:
        """Revoke a token at once, and return it. Raise `NotFound` for a token that the caller may not see."""
        return _token(read_json(await self._transport.send("DELETE", f"/tokens/{segment(token_id)}")))


def _organization(value: dict[str, Any]) -> Organization:
    from prowess.storage.people import Organization

    return decode(Organization, value)


def _member(value: dict[str, Any]) -> Member:
    from prowess.storage.people import Member

    return decode(Member, value)


def _token(value: dict[str, Any]) -> Token:
    from prowess.storage.credentials import Token

    return decode(Token, {"actor_name": value["name"], **value})


def _list(names: Collection[str] | None) -> list[str] | None:
    return None if names is None else sorted(names)
