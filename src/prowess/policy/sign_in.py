"""Sign people in: one-time codes, accounts at OpenID Connect providers, and the web sessions that both start."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection
from dataclasses import dataclass

import sqlalchemy as sa

from prowess.errors import NotFound, Refused
from prowess.policy.actor import PERMISSIONS, Actor
from prowess.policy.people import (
    MEMBER_PERMISSIONS,
    active_member,
    choose_organization,
    permissions_of,
    user_not_found,
)
from prowess.policy.people_log import audit_entry, recorded_name
from prowess.policy.text import clean_text
from prowess.storage import credentials, people
from prowess.storage.clock import seconds_from_now
from prowess.storage.credentials import Holder, WebSession
from prowess.storage.database import Connections
from prowess.storage.ledger import AuditEntry, append
from prowess.storage.owner import Owner

CODE_SECONDS = 600
IDLE_SECONDS = 24 * 3_600
"""How long a web session lasts after its last use."""
LONGEST_SECONDS = 14 * 86_400
"""How long a web session lasts at most, used or not."""

CHANNEL = "web"
_CLIENT_CHARS = 200
_HANDLE_CHARS = 50
_SUBJECT_CHARS = 255
"""The longest subject that OpenID Connect allows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSession:
    """A web session that was just started. `secret` goes into the cookie and is not stored."""

    secret: str
    session: WebSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """An account at a provider, as a verified id token describes it."""

    issuer: str
    subject: str
    email: str = ""
    email_verified: bool = False
    name: str = ""


class SignIns:
    """Codes and web sessions of all organizations in one database. Blocking; safe to use from many processes."""

    def __init__(self, database: Connections) -> None:
        self._database = database

    def create_code(self, actor: Actor, *, organization: str = "", user: str = "") -> str:
        """Return a code that signs the actor in once, within ten minutes; as the operator or an admin, a member.

        Raise `Refused` for an agent, and for a token with fewer permissions than the user has.
        """
        if not actor.is_person:
            raise Refused("An agent cannot sign in to a browser.", hint="Ask the user to sign in.")
        target = choose_organization(actor, organization)
        owner = Owner(organization_id=target, user_id=user or actor.user)
        if owner != actor.owner and not actor.admin:
            raise user_not_found(user)
        with self._database.write() as connection:
            permissions = PERMISSIONS
            if owner != Owner():
                permissions = frozenset(active_member(connection, target, owner.user_id).permissions)
            # A web session has all permissions of its user. A token with fewer must not get more through a browser.
            if not permissions <= actor.permissions:
                raise Refused(
                    "A token with fewer permissions than the user cannot sign the user in.",
                    hint="Use a token with all permissions of the user.",
                )
            code = credentials.add_code(
                connection,
                owner,
                actor_name=owner.user_id or actor.name,
                expires_at=seconds_from_now(CODE_SECONDS),
                by=recorded_name(actor, target),
            )
            entry = audit_entry(actor, target, "sign-in", "code-created", user=owner.user_id)
            append(connection, owner.organization_id, audits=[entry])
        return code

    def use_code(self, code: str, *, client: str = "") -> NewSession:
        """Start a web session with a code. Raise `Refused` if it is unknown, expired, used or its user is gone."""
        with self._database.write() as connection:
            found = credentials.use_code(connection, code)
            started = _start(connection, *found, how="code", client=client) if found else None
        # Raised outside the transaction, so that a code whose user is gone is used up all the same.
        if started is None:
            raise Refused(
                "The sign-in code is not valid. A code works once, within ten minutes.",
                hint="For a new link, ask the operator of the server: `prowess user sign-in USER --org ID` prints one for a member of "
                "an organization. On your own machine, `prowess serve` prints one when it starts.",
            )
        return started

    def sign_in(
        self, account: Account, organization: str, *, domains: Collection[str] = (), client: str = ""
    ) -> NewSession:
        """Start a web session for an account at a provider, which the caller has verified.

        The account must be bound to an active member. If it is bound to nobody and its verified email is in one of
        `domains`, it joins the organization as a new user. Raise `Refused` otherwise.
        """
        with self._database.write() as connection:
            user = people.find_identity(connection, account.issuer, account.subject)
            if user is None and _may_join(account, domains):
                user = _join(connection, account, organization)
            owner = Owner(organization_id=organization, user_id=user or "")
            started = _start(connection, owner, user, how=account.issuer, client=client) if user else None
        if started is None:
            raise Refused(
                "This account is not a member of the organization.",
                hint="Ask the operator to add you: "
                f"prowess user add USER --org {organization} --subject {shlex.quote(clean_text(account.subject, limit=_SUBJECT_CHARS))}",
            )
        return started

    def find_holder(self, secret: str) -> Holder | None:
        """Return whom a web session belongs to, or None if it has ended. One query, nothing is written."""
        with self._database.read() as connection:
            return credentials.find_session_holder(connection, secret)

    def record_use(self, holder: Holder) -> None:
        """Record that a web session was used now, and extend it."""
        expires_at = min(seconds_from_now(IDLE_SECONDS), holder.ends_at)
        with self._database.write() as connection:
            credentials.record_use(connection, holder.id, expires_at=expires_at)

    def list(self, actor: Actor) -> list[WebSession]:
        """Return the actor's own web sessions, newest first."""
        _require_person(actor)
        with self._database.read() as connection:
            return credentials.list_sessions(connection, actor.owner)

    def revoke(self, actor: Actor, session_id: str) -> None:
        """End one of the actor's own web sessions at once. Raise `NotFound` if it does not exist.

        Raise `Refused` if the actor acts with a token that lacks permissions of the user, which the session has.
        """
        _require_person(actor)
        with self._database.write() as connection:
            allowed = permissions_of(connection, actor.owner) if actor.token and not actor.admin else frozenset[str]()
            if lacked := sorted(allowed - actor.permissions):
                raise Refused(
                    f"Your token cannot end web sessions, because it lacks {lacked[0]}.",
                    hint="Use a token with all your permissions, or sign in to the web page.",
                )
            own = [session.id for session in credentials.list_sessions(connection, actor.owner)]
            if session_id not in own or not credentials.revoke_session(connection, session_id, actor.label):
                raise NotFound(f"No web session {session_id[:80]!r}.", hint="List your sessions to see their ids.")
            entry = audit_entry(actor, actor.organization, "sign-in", "ended", id=session_id)
            append(connection, actor.organization, audits=[entry])

    def end(self, secret: str) -> None:
        """End the web session of a browser that signs out. Nothing happens if it has ended."""
        with self._database.write() as connection:
            found = credentials.find_session_holder(connection, secret)
            if found is not None and credentials.revoke_session(connection, found.id, found.actor_name):
                detail = {"id": found.id}
                entry = AuditEntry(
                    actor=found.actor_name, channel=CHANNEL, action="sign-in", outcome="ended", detail=detail
                )
                append(connection, found.organization_id, audits=[entry])


def _require_person(actor: Actor) -> None:
    if not actor.is_person:
        raise Refused("An agent has no web sessions.", hint="Ask the user to sign in.")


def _start(connection: sa.Connection, owner: Owner, actor_name: str, *, how: str, client: str) -> NewSession | None:
    """Start a web session, or return None if the owner is not active."""
    secret, session = credentials.add_session(
        connection,
        owner,
        actor_name=actor_name,
        how=how,
        client=clean_text(client, limit=_CLIENT_CHARS),
        expires_at=seconds_from_now(IDLE_SECONDS),
        ends_at=seconds_from_now(LONGEST_SECONDS),
    )
    # The same query as at each request decides, so that there is one place that knows who is active.
    if credentials.find_session_holder(connection, secret) is None:
        credentials.revoke_session(connection, session.id, "")
        return None
    entry = AuditEntry(
        actor=actor_name, channel=CHANNEL, action="sign-in", outcome="started", detail={"id": session.id, "how": how}
    )
    append(connection, owner.organization_id, audits=[entry])
    return NewSession(secret=secret, session=session)


def _may_join(account: Account, domains: Collection[str]) -> bool:
    # An address that the provider has not verified proves nothing: anyone could claim it.
    domain = account.email.rpartition("@")[2].lower()
    return account.email_verified is True and bool(domain) and domain in {allowed.lower() for allowed in domains}


def _join(connection: sa.Connection, account: Account, organization: str) -> str | None:
    """Make an account a new user and member, and return the id. An existing user is never taken over by an email."""
    people.lock_members(connection, organization)
    found = people.get_organization(connection, organization)
    if found is None or found.deactivated_at is not None:
        return None
    handle = re.sub(r"[^a-z0-9]+", "-", account.email.partition("@")[0].lower())[:_HANDLE_CHARS].strip("-") or "user"
    by = f"oidc:{account.issuer}"
    details = {"name": clean_text(account.name or handle, limit=200), "email": clean_text(account.email, limit=200)}
    for number in range(1, 1_000):
        user = handle if number == 1 else f"{handle}-{number}"
        if people.add_user(connection, user, **details, by=by):
            break
    else:
        return None
    # Two browsers may join with one account at once; the second finds the first.
    if not people.add_identity(connection, user, issuer=account.issuer, subject=account.subject, by=by):
        return people.find_identity(connection, account.issuer, account.subject)
    people.put_member(connection, organization, user, role="member", permissions=MEMBER_PERMISSIONS, by=by)
    entry = AuditEntry(
        actor=user,
        channel=CHANNEL,
        action="member",
        outcome="joined",
        detail={"user": user, "issuer": account.issuer, "subject": account.subject, "email": account.email},
    )
    append(connection, organization, audits=[entry])
    return user
