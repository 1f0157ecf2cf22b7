"""Routes of organizations, their members, tokens and web sessions.

A request acts for the organization of its token or cookie. Only the operator may name another one, with `organization`;
for everyone else a foreign organization does not exist.
"""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import Field, StrictBool
from starlette.responses import Response

from prowess.interfaces.rest.request import Admin, Anyone, Body, Page, PageShape, Shape, paginate, respond, shape_of
from prowess.storage.credentials import Token
from prowess.storage.people import Member, Organization
from prowess.view import actor_json

router = APIRouter(tags=["people"])

OfOrganization = Annotated[
    str,
    Query(max_length=63, description="Organization, for the operator. Everyone else acts in their own organization."),
]
_Handle = Annotated[str, Field(max_length=63, description="Lowercase letters, digits and hyphens.")]
_Name = Annotated[str, Field(max_length=200)]
_Permissions = Annotated[list[str] | None, Field(max_length=20, description="Default: all but `admin`.")]


class MeShape(Shape):
    """The caller and its permissions."""

    organization_id: str
    user_id: str
    name: str
    kind: Literal["person", "agent"]
    permissions: list[str]
    channel: str


@shape_of(Organization)
class OrganizationShape(Shape):
    """An organization."""


@shape_of(Member)
class MemberShape(Shape):
    """A user of an organization."""


@shape_of(Token, without=("actor_name",))
class TokenShape(Shape):
    """A token, without its secret."""

    state: Literal["active", "expired", "revoked"]


class NewTokenShape(TokenShape):
    """A new token. `token` is its secret, which is not stored and cannot be read again."""

    token: str


class WebSessionShape(Shape):
    """A session of a browser. `how` is `code`, or the provider through which the person signed in."""

    id: str
    how: str
    client: str
    created_at: str
    expires_at: str
    last_used_at: str | None


class OrganizationBody(Body):
    """A new organization."""

    id: _Handle
    name: _Name = ""


class MemberBody(Body):
    """A new member. The user is created if the id is new."""

    user_id: _Handle
    name: _Name = ""
    email: _Name = ""
    admin: StrictBool = False
    permissions: _Permissions = None


class PermissionsBody(Body):
    """The new permissions of a member."""

    admin: StrictBool = False
    permissions: _Permissions = None


class TokenBody(Body):
    """A new token. With `agent`, it is that of an agent, which can neither approve nor administer."""

    name: Annotated[str, Field(max_length=100)] = ""
    agent: Annotated[str, Field(max_length=100)] = ""
    scopes: Annotated[list[str] | None, Field(max_length=20, description="Default: all permissions that you have.")] = (
        None
    )
    expires_days: Annotated[float | None, Field(description="Null for a token that never expires: operator only.")] = 90
    user_id: Annotated[str, Field(max_length=63, description="User that the token is for (admins only).")] = ""


@router.get("/me", response_model=MeShape)
async def read_me(engine: Anyone) -> Response:
    """Return who the caller is, and what it may do."""
    return respond(actor_json(engine.actor))


@router.get("/organizations", response_model=PageShape[OrganizationShape])
async def list_organizations(engine: Anyone, page: Page) -> Response:
    """List the organizations that the caller may see: all for the operator, otherwise the own one."""
    return respond(paginate(await engine.organizations.list(), page, lambda row: row.id))


@router.post("/organizations", status_code=201, response_model=OrganizationShape)
async def create_organization(body: OrganizationBody, engine: Admin) -> Response:
    """Create an organization. Only the operator can."""
    return respond(await engine.organizations.create(body.id, name=body.name), 201)


@router.get("/organizations/{id}", response_model=OrganizationShape)
async def read_organization(id: str, engine: Anyone) -> Response:
    """Return an organization."""
    return respond(await engine.organizations.get(id))


@router.delete("/organizations/{id}", response_model=OrganizationShape)
async def deactivate_organization(id: str, engine: Admin) -> Response:
    """Deactivate an organization: its tokens and web sessions end at once. Only the operator can."""
    return respond(await engine.organizations.deactivate(id))


@router.get("/members", response_model=PageShape[MemberShape])
async def list_members(engine: Admin, page: Page, organization: OfOrganization = "") -> Response:
    """List the members of the organization, active or not."""
    return respond(paginate(await engine.users.list(organization=organization), page, lambda row: row.user_id))


@router.post("/members", status_code=201, response_model=MemberShape)
async def add_member(body: MemberBody, engine: Admin, organization: OfOrganization = "") -> Response:
    """Add a user to the organization."""
    added = await engine.users.add(
        body.user_id,
        organization=organization,
        name=body.name,
        email=body.email,
        admin=body.admin,
        permissions=body.permissions,
    )
    return respond(added, 201)


@router.get("/members/{user}", response_model=MemberShape)
async def read_member(user: str, engine: Anyone, organization: OfOrganization = "") -> Response:
    """Return a member: everyone can read themselves, and an admin everyone."""
    return respond(await engine.users.get(user, organization=organization))


@router.put("/members/{user}/permissions", response_model=MemberShape)
async def change_member(user: str, body: PermissionsBody, engine: Admin, organization: OfOrganization = "") -> Response:
    """Replace the permissions of a member, effective at once."""
    changed = await engine.users.change(user, organization=organization, admin=body.admin, permissions=body.permissions)
    return respond(changed)


@router.delete("/members/{user}", response_model=MemberShape)
async def remove_member(user: str, engine: Admin, organization: OfOrganization = "") -> Response:
    """Remove a user from the organization: their tokens and web sessions in it end at once."""
    return respond(await engine.users.remove(user, organization=organization))


@router.get("/tokens", response_model=PageShape[TokenShape])
async def list_tokens(
    engine: Anyone,
    page: Page,
    everyone: Annotated[bool, Query(description="All tokens of the organization (admins only).")] = False,
    user: Annotated[str, Query(max_length=63, description="Tokens of this user (admins only).")] = "",
    organization: OfOrganization = "",
) -> Response:
    """List the caller's own tokens, without their secrets; as an admin those of a user, or of everyone."""
    found = await engine.tokens.list(organization=organization, user=user, everyone=everyone)
    return respond(paginate(found, page, lambda row: row.id))


@router.post("/tokens", status_code=201, response_model=NewTokenShape)
async def create_token(body: TokenBody, engine: Anyone, organization: OfOrganization = "") -> Response:
    """Create a token with no more than the caller's permissions. Its secret is only in this response.

    One that is created with another token expires no later than that one, and is revoked with it.
    """
    created = await engine.tokens.create(
        body.name,
        agent=body.agent,
        scopes=body.scopes,
        days=body.expires_days,
        organization=organization,
        user=body.user_id,
    )
    return respond(created, 201)


@router.delete("/tokens/{id}", response_model=TokenShape)
async def revoke_token(id: str, engine: Anyone) -> Response:
    """Revoke a token, and those created with it, at once: one of the caller's own, or as an admin any of the organization.

    A token without `admin` cannot revoke tokens that have permissions it lacks.
    """
    return respond(await engine.tokens.revoke(id))


@router.get("/web-sessions", response_model=PageShape[WebSessionShape])
async def list_web_sessions(engine: Anyone, page: Page) -> Response:
    """List the browsers in which the caller is signed in."""
    return respond(paginate(await engine.sign_ins.list(), page, lambda row: row.id))


@router.delete("/web-sessions/{id}", status_code=204)
async def end_web_session(id: str, engine: Anyone) -> Response:
    """Sign out of one browser at once. A token needs all permissions of its user for it."""
    await engine.sign_ins.revoke(id)
    return Response(status_code=204)
