"""Organizations, their members and tokens, over HTTP.

`organization` is for the operator of a server, who belongs to none; everybody else acts in their own.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from prowess.client.decode import decode
from prowess.client.part import Part
from prowess.client.transport import read_json, segment

if TYPE_CHECKING:
    from prowess.policy.tokens import NewToken
    from prowess.storage.credentials import Token
    from prowess.storage.people import Member, Organization


class Organizations(Part):
    """The organizations of a server. The operator manages all of them; everybody else sees their own."""

    async def create(self, organization: str, *, name: str = "") -> Organization:
        """Create an organization. Only the operator can."""
        return _organization(await self._transport.post("/organizations", {"id": organization, "name": name}))

    async def list(self) -> list[Organization]:
        """Return the organizations that the caller may see, by id."""
        return [_organization(one) async for one in self._transport.pages("/organizations")]

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
        return [_member(one) async for one in self._transport.pages("/members", organization=organization)]

    async def get(self, user: str, *, organization: str = "") -> Member:
        """Return a member, or raise `NotFound`. People see themselves, admins see everybody."""
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
        made = await self._transport.post("/tokens", body, organization=organization)
        return NewToken(secret=made["token"], token=_token(made))

    async def list(self, *, organization: str = "", user: str = "", everyone: bool = False) -> list[Token]:
        """Return the caller's tokens, newest first; as an admin those of a user, or of everyone."""
        params: dict[str, Any] = {"organization": organization, "everyone": "true" if everyone or user else ""}
        found = [_token(one) async for one in self._transport.pages("/tokens", **params)]
        shown = [token for token in found if not user or token.user_id == user]
        return sorted(shown, key=lambda token: token.created_at, reverse=True)

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
