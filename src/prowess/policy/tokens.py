"""The rules for creating, listing and revoking tokens, and the actor of a token or a web session.

A token never gives more than the membership of its user: what counts is the intersection of both at the time of each
request. Agents cannot create tokens, and their tokens can neither approve nor administer. A token that was created with
another one expires and is revoked with it at the latest, so that revoking a stolen token leaves nothing to its thief.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

from prowess.errors import Conflict, Invalid, NotFound, Refused
from prowess.policy.actor import AGENT_PERMISSIONS, PERMISSIONS, Actor, Permission
from prowess.policy.people import (
    ORGANIZATION_HINT,
    check_permissions,
    choose_organization,
    permissions_of,
    user_not_found,
)
from prowess.policy.people_log import audit_entry, is_operator, logs_refusals, recorded_name
from prowess.storage import credentials
from prowess.storage.clock import seconds_from_now
from prowess.storage.credentials import Holder, Token
from prowess.storage.database import Connections
from prowess.storage.ledger import append
from prowess.storage.owner import Owner

DEFAULT_DAYS = 90
MAX_DAYS = 366
"""The longest lifetime of a token that is not created by the operator."""

_DAY_SECONDS = 86_400
_NAME_LIMIT = 100
_MAX_TOKENS = 200
"""How many tokens one user may have at a time, so that nobody fills the database with them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken:
    """A token that was just created. `secret` is not stored, so it can be shown only now."""

    secret: str
    token: Token

    def as_json(self) -> dict[str, Any]:
        """Return the token as a JSON object, with its secret."""
        return {"token": self.secret, **self.token.as_json()}


@lru_cache(maxsize=4096)
def to_actor(holder: Holder, *, channel: str) -> Actor:
    """Return the actor that a secret lets act, with the permissions that the secret and the membership both give."""
    # Cached, because making an actor checks its names, which takes half as long as the query for its holder.
    allowed = PERMISSIONS if holder.permissions is None else PERMISSIONS & frozenset(holder.permissions)
    return Actor(
        name=holder.actor_name,
        kind=holder.kind,
        organization=holder.organization_id,
        user=holder.user_id,
        permissions=allowed if holder.scopes is None else allowed & frozenset(holder.scopes),
        channel=channel,
        # A web session has no scopes.
        token="" if holder.scopes is None else holder.id,
    )


class Tokens:
    """The tokens of all organizations in one database. Blocking; safe to use from many threads and processes."""

    def __init__(self, database: Connections) -> None:
        self.database = database

    def find_holder(self, secret: str) -> Holder | None:
        """Return whom a token belongs to, or None if it is unknown, expired or revoked. One query, nothing is written."""
        with self.database.read() as connection:
            return credentials.find_token_holder(connection, secret)

    def record_use(self, holder: Holder) -> None:
        """Record that a token was used now."""
        with self.database.write() as connection:
            credentials.record_use(connection, holder.id)

    @logs_refusals("token")
    def create(
        self,
        actor: Actor,
        *,
        name: str = "",
        agent: str = "",
        scopes: Iterable[str] | None = None,
        days: float | None = DEFAULT_DAYS,
        organization: str = "",
        user: str = "",
    ) -> NewToken:
        """Create a token for the actor, or as an admin or the operator for a member of an organization.

        With `agent`, it is the token of an agent of that name. `scopes` default to everything that is allowed. It expires
        after `days`; with None never, which only the operator can choose. If the actor acts with a token, it expires no
        later than that one, and is revoked with it.

        Raise `Refused` for an agent, and for scopes that the actor or the user does not have.
        """
        owner = self._choose_owner(actor, organization, user, "create tokens")
        kind = "agent" if agent else "person"
        requested = None if scopes is None else check_permissions(scopes)
        label = _check_name(name or agent or "token")
        expires_at = _check_days(actor, days)
        with self.database.write() as connection:
            if actor.token:
                expires_at = min(filter(None, (expires_at, _expiry_of_maker(connection, actor))), default=None)
            allowed = actor.permissions & permissions_of(connection, owner)
            if kind == "agent":
                allowed &= AGENT_PERMISSIONS
            granted = _check_scopes(requested, allowed, agent=agent)
            # A name that an agent cannot have fails here, before it is stored.
            checked = Actor(name=agent or owner.user_id or actor.name, kind=kind)
            if len(_active(connection, owner)) >= _MAX_TOKENS:
                raise Conflict(
                    f"This user already has {_MAX_TOKENS} tokens, which is the limit.",
                    hint="Revoke some first: prowess token revoke ID",
                )
            secret, token = credentials.add_token(
                connection,
                owner,
                actor_name=checked.name,
                kind=kind,
                name=label,
                scopes=granted,
                expires_at=expires_at,
                by=recorded_name(actor, owner.organization_id),
                created_with=actor.token or None,
            )
            detail = {"id": token.id, "name": label, "kind": kind, "user": owner.user_id}
            detail |= {"scopes": sorted(granted), "expires_at": expires_at}
            entry = audit_entry(actor, owner.organization_id, "token", "created", **detail)
            append(connection, owner.organization_id, audits=[entry])
        return NewToken(secret=secret, token=token)

    def list(self, actor: Actor, *, organization: str = "", user: str = "", everyone: bool = False) -> list[Token]:
        """Return the actor's own tokens, newest first; of a member or of everyone for an admin and the operator."""
        _require_person(actor, "list tokens")
        if not everyone:
            owner = self._choose_owner(actor, organization, user, "list tokens")
            with self.database.read() as connection:
                return credentials.list_tokens(connection, organization_id=owner.organization_id, user_id=owner.user_id)
        target = choose_organization(actor, organization)
        if not actor.admin:
            raise Refused(
                "Only an admin can list the tokens of others.", hint="`prowess token list` shows your own tokens."
            )
        every = is_operator(actor) and not target
        with self.database.read() as connection:
            return credentials.list_tokens(connection, organization_id=None if every else target)

    @logs_refusals("token")
    def revoke(self, actor: Actor, token_id: str) -> Token:
        """Revoke a token at once, with those created with it, and return it. People revoke their own, admins all.

        Raise `NotFound` for a token that the actor may not see, `Conflict` if it was revoked before, and `Refused` if the
        actor acts with another token, which lacks permissions that this one has.
        """
        _require_person(actor, "revoke tokens")
        with self.database.write() as connection:
            found = credentials.get_token(connection, token_id)
            if found is None or not _may_see(actor, found):
                raise NotFound(f"No token {token_id[:80]!r}.", hint="`prowess token list` shows the tokens.")
            _check_no_stronger(connection, actor, found)
            if not credentials.revoke_token(connection, found, recorded_name(actor, found.organization_id)):
                raise Conflict(f"The token {token_id!r} was already revoked.", hint="No action is needed.")
            detail = {"id": found.id, "name": found.name, "user": found.user_id}
            entry = audit_entry(actor, found.organization_id, "token", "revoked", **detail)
            append(connection, found.organization_id, audits=[entry])
            return credentials.get_token(connection, token_id) or found

    def _choose_owner(self, actor: Actor, organization: str, user: str, what: str) -> Owner:
        """Return whose tokens are meant: the actor's own, or those of a member for an admin and the operator."""
        _require_person(actor, what)
        target = choose_organization(actor, organization)
        if not user and target != actor.organization:
            raise Invalid("A token needs a user.", hint="Add `--user USER`.")
        if user and not target:
            raise Invalid(f"The user {user[:80]!r} belongs to an organization.", hint=ORGANIZATION_HINT)
        owner = Owner(organization_id=target, user_id=user or actor.user)
        if owner != actor.owner and not actor.admin:
            # The same for a member and for someone who does not exist.
            raise user_not_found(user)
        return owner


def _may_see(actor: Actor, token: Token) -> bool:
    owner = Owner(organization_id=token.organization_id, user_id=token.user_id)
    return owner == actor.owner or is_operator(actor) or (actor.admin and owner.organization_id == actor.organization)


def _check_no_stronger(connection: sa.Connection, actor: Actor, token: Token) -> None:
    """Raise `Refused` if the actor acts with a token that lacks permissions of this one, unless an admin does."""
    if not actor.token or actor.token == token.id or actor.admin:
        return
    # Its scopes count, not what is left of them: a user who has lost a permission can still revoke all tokens with it.
    own = credentials.get_token(connection, actor.token)
    if excess := sorted(set(token.scopes) - set(own.scopes if own else ())):
        raise Refused(
            f"Your token cannot revoke {token.id!r}, which has {excess[0]}.",
            hint="Use a token with the same permissions, sign in to the web page, or ask an admin.",
        )


def _require_person(actor: Actor, what: str) -> None:
    if not actor.is_person:
        raise Refused(f"An agent cannot {what}.", hint="Ask the user to do it.")


def _active(connection: sa.Connection, owner: Owner) -> list[Token]:
    found = credentials.list_tokens(connection, organization_id=owner.organization_id, user_id=owner.user_id)
    return [token for token in found if token.state == "active"]


def _check_scopes(
    requested: frozenset[Permission] | None, allowed: frozenset[Permission], *, agent: str
) -> frozenset[Permission]:
    if requested is None and allowed:
        return allowed
    excess = sorted((requested or frozenset()) - allowed)
    if excess and agent and excess[0] not in AGENT_PERMISSIONS:
        raise Refused(
            f"A token for an agent cannot have {excess[0]}.",
            hint="Only a person can approve and administer. Leave it out, or create the token without an agent.",
        )
    if excess:
        raise Refused(
            f"You cannot create a token with {excess[0]}, because you or the user of the token lack it.",
            hint="Remove it from the scopes, or ask an admin.",
        )
    if not requested:
        raise Invalid("A token needs at least one permission.", hint="Give scopes, for example `skills.read`.")
    return requested


def _check_days(actor: Actor, days: float | None) -> str | None:
    """Return when a token that lives this long expires."""
    if days is None:
        if not is_operator(actor):
            raise Refused(
                "Only the operator can create a token that never expires.", hint=f"Choose up to {MAX_DAYS} days."
            )
        return None
    if not 0 < days <= (MAX_DAYS if not is_operator(actor) else 100 * MAX_DAYS):
        raise Invalid(f"Invalid lifetime of {days:g} days.", hint=f"Choose up to {MAX_DAYS} days.")
    return seconds_from_now(days * _DAY_SECONDS)


def _expiry_of_maker(connection: sa.Connection, actor: Actor) -> str | None:
    """Return when the token that the actor acts with expires. It cannot be revoked until the transaction ends."""
    maker = credentials.get_token(connection, actor.token, lock=True)
    if maker is None or maker.state != "active":
        raise Refused("Your token has been revoked or has expired.", hint="Use another token.")
    return maker.expires_at


def _check_name(name: str) -> str:
    # The same checks as for names of actors: it is shown in lists and in the audit.
    Actor(name=name)
    if len(name) > _NAME_LIMIT:
        raise Invalid(f"The name {name[:80]!r} is too long.", hint=f"Use at most {_NAME_LIMIT} characters.")
    return name
