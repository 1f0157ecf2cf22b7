"""The rules for managing organizations and their members, and for ending memberships.

The operator manages all organizations, and an admin the members of one. Every change is written together with its audit
entry, in the log of the organization. Whatever an actor may not see gives the same error as something that does not exist.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar, cast

import sqlalchemy as sa

from prowess.errors import Conflict, Invalid, NotFound, Refused
from prowess.policy.actor import PERMISSIONS, Actor, Permission
from prowess.policy.people_log import audit_entry, is_operator, logs_refusals, recorded_name
from prowess.policy.text import clean_text, has_control_chars
from prowess.storage import people
from prowess.storage.credentials import revoke_credentials
from prowess.storage.database import Connections
from prowess.storage.ledger import AuditEntry, append
from prowess.storage.owner import Owner
from prowess.storage.people import Member, MemberRole, Organization

MEMBER_PERMISSIONS: frozenset[Permission] = PERMISSIONS - {"admin"}
"""The permissions of a new member, unless others are given."""

ORGANIZATION_HINT = "Name the organization, for example `--org acme`. `prowess org list` shows them."

_HANDLE = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_NAME_LIMIT = 200
_SUBJECT_LIMIT = 255
T = TypeVar("T")


def check_handle(handle: str, what: str) -> str:
    """Return an id of an organization or a user; raise `Invalid` if it is malformed."""
    if _HANDLE.fullmatch(handle) is None:
        raise Invalid(
            f"Invalid {what} {handle[:80]!r}.",
            hint="Use 1 to 63 lowercase letters, digits and hyphens, for example 'acme' or 'ann'.",
        )
    return handle


def check_permissions(requested: Iterable[str]) -> frozenset[Permission]:
    """Return permissions by their names; raise `Invalid` for an unknown one."""
    names = frozenset(requested)
    unknown = sorted(names - PERMISSIONS)
    if unknown:
        raise Invalid(
            f"Unknown permission {unknown[0][:80]!r}.", hint=f"Permissions: {', '.join(sorted(PERMISSIONS))}."
        )
    return cast("frozenset[Permission]", names)


def choose_organization(actor: Actor, organization: str) -> str:
    """Return the organization that is meant: the one that is named, or the actor's own.

    Raise `NotFound` if anyone other than the operator names another organization.
    """
    if organization == actor.organization or is_operator(actor):
        return organization
    if organization:
        raise organization_not_found(organization)
    return actor.organization


def organization_not_found(organization: str) -> NotFound:
    """Return the error for an organization that does not exist or may not be seen."""
    return NotFound(f"No organization {organization[:80]!r}.", hint="`prowess org list` shows the organizations.")


def user_not_found(user: str) -> NotFound:
    """Return the error for a user who does not exist, is not a member or may not be seen."""
    return NotFound(
        f"No user {user[:80]!r} in this organization.", hint="`prowess user list --org ID` shows the users."
    )


class People:
    """The organizations of one database and their members. Blocking; safe to use from many threads and processes."""

    def __init__(self, database: Connections) -> None:
        self.database = database

    @logs_refusals("organization")
    def create_organization(self, actor: Actor, organization: str, *, name: str = "") -> Organization:
        """Create an organization. Raise `Conflict` if the id is or was in use. Only the operator can."""
        _require_operator(actor, "create organizations")
        check_handle(organization, "organization id")
        title = _check_name(name) or organization

        def create(connection: sa.Connection) -> tuple[Organization, AuditEntry]:
            if not people.add_organization(connection, organization, title, recorded_name(actor, organization)):
                raise Conflict(
                    f"The organization id {organization!r} is taken. Ids of deactivated organizations cannot be reused.",
                    hint="Choose another id.",
                )
            found = people.get_organization(connection, organization)
            return cast("Organization", found), audit_entry(actor, organization, "organization", "created", name=title)

        return self._change(organization, create)

    def list_organizations(self, actor: Actor) -> list[Organization]:
        """Return the organizations that the actor may see: all for the operator, otherwise the actor's own."""
        with self.database.read() as connection:
            if is_operator(actor):
                return people.list_organizations(connection)
            own = people.get_organization(connection, actor.organization)
        return [own] if own is not None else []

    def get_organization(self, actor: Actor, organization: str = "") -> Organization:
        """Return an organization, or raise `NotFound`. Only the operator can see others than their own."""
        chosen = choose_organization(actor, organization)
        with self.database.read() as connection:
            found = people.get_organization(connection, chosen)
        if found is None:
            raise organization_not_found(chosen)
        return found

    @logs_refusals("organization")
    def deactivate_organization(self, actor: Actor, organization: str) -> Organization:
        """Deactivate an organization: all its tokens and web sessions end at once. Only the operator can."""
        _require_operator(actor, "deactivate organizations")

        def deactivate(connection: sa.Connection) -> tuple[Organization, AuditEntry]:
            people.lock_members(connection, organization)
            _require_active(connection, organization)
            people.deactivate_organization(connection, organization)
            ended = revoke_credentials(connection, recorded_name(actor, organization), organization_id=organization)
            found = people.get_organization(connection, organization)
            return cast("Organization", found), audit_entry(
                actor, organization, "organization", "deactivated", tokens_revoked=ended
            )

        return self._change(organization, deactivate)

    @logs_refusals("member")
    def add_member(
        self,
        actor: Actor,
        user: str,
        *,
        organization: str = "",
        name: str = "",
        email: str = "",
        admin: bool = False,
        permissions: Iterable[str] | None = None,
    ) -> Member:
        """Add a user to an organization, as admin or with some permissions (by default all but `admin`).

        Only an admin of the organization and the operator can. The user is created if the id is new; a user of another
        organization can be added by the operator alone. Raise `Conflict` if the user is a member, or the id is taken.
        """
        target = _managed(actor, organization, "add members")
        check_handle(user, "user id")
        role, granted = _check_role(admin=admin, permissions=permissions)
        details = {"name": _check_name(name) or user, "email": _check_name(email)}

        def add(connection: sa.Connection) -> tuple[Member, AuditEntry]:
            people.lock_members(connection, target)
            _require_active(connection, target)
            before = people.get_member(connection, target, user)
            if before is not None and before.deactivated_at is None:
                raise Conflict(
                    f"{user} is already a member of {target}.",
                    hint=f"`prowess user change {user} --org {target} --permissions LIST` changes their permissions.",
                )
            is_new = people.add_user(connection, user, **details, by=recorded_name(actor, target))
            # Whether a user of another organization exists and is active is for the operator to know.
            allowed = is_new or ((before is not None or is_operator(actor)) and people.is_active_user(connection, user))
            if not allowed:
                raise Conflict(
                    f"The user id {user!r} is taken. Ids of deactivated users cannot be reused.",
                    hint="Choose another id.",
                )
            people.put_member(connection, target, user, role=role, permissions=granted, by=recorded_name(actor, target))
            return _member(connection, target, user), _member_entry(actor, target, "added", user, role, granted)

        return self._change(target, add)

    @logs_refusals("member")
    def change_member(
        self,
        actor: Actor,
        user: str,
        *,
        organization: str = "",
        admin: bool = False,
        permissions: Iterable[str] | None = None,
    ) -> Member:
        """Replace the permissions of a member. Raise `Refused` if the organization would be left without an admin."""
        target = _managed(actor, organization, "change members")
        role, granted = _check_role(admin=admin, permissions=permissions)

        def change(connection: sa.Connection) -> tuple[Member, AuditEntry]:
            people.lock_members(connection, target)
            before = active_member(connection, target, user)
            if role != "admin":
                _keep_an_admin(connection, before)
            people.put_member(connection, target, user, role=role, permissions=granted, by=recorded_name(actor, target))
            return _member(connection, target, user), _member_entry(actor, target, "changed", user, role, granted)

        return self._change(target, change)

    @logs_refusals("member")
    def remove_member(self, actor: Actor, user: str, *, organization: str = "") -> Member:
        """End a membership: the user's tokens and web sessions in the organization end at once.

        Raise `Refused` if the organization would be left without an admin.
        """
        target = _managed(actor, organization, "remove members")

        def remove(connection: sa.Connection) -> tuple[Member, AuditEntry]:
            people.lock_members(connection, target)
            before = active_member(connection, target, user)
            _keep_an_admin(connection, before)
            people.end_membership(connection, target, user)
            ended = revoke_credentials(connection, recorded_name(actor, target), organization_id=target, user_id=user)
            entry = audit_entry(actor, target, "member", "removed", user=user, tokens_revoked=ended)
            return _member(connection, target, user), entry

        return self._change(target, remove)

    @logs_refusals("member")
    def deactivate_user(self, actor: Actor, user: str) -> list[Member]:
        """Deactivate a user in all organizations, and return the memberships that ended. Only the operator can.

        All tokens and web sessions of the user end at once. Raise `Refused` if an organization would be left without an
        admin.
        """
        _require_operator(actor, "deactivate users")
        with self.database.write() as connection:
            # Sorted by organization, so that two transactions take the locks in the same order.
            ended = people.list_memberships(connection, user)
            for membership in ended:
                people.lock_members(connection, membership.organization_id)
                _keep_an_admin(connection, membership)
            if not people.deactivate_user(connection, user):
                raise NotFound(f"No active user {user[:80]!r}.", hint="`prowess user list` shows the users.")
            revoke_credentials(connection, recorded_name(actor, "*"), user_id=user)
            for membership in ended:
                people.end_membership(connection, membership.organization_id, user)
                entry = audit_entry(actor, membership.organization_id, "member", "removed", user=user, everywhere=True)
                append(connection, membership.organization_id, audits=[entry])
        return ended

    def list_members(self, actor: Actor, *, organization: str = "") -> list[Member]:
        """Return the members of an organization, active or not, by id. Only its admins and the operator can."""
        target = _managed(actor, organization, "list members")
        with self.database.read() as connection:
            if people.get_organization(connection, target) is None:
                raise organization_not_found(target)
            return people.list_members(connection, target)

    def get_member(self, actor: Actor, user: str, *, organization: str = "") -> Member:
        """Return a member, or raise `NotFound`. People see themselves; admins and the operator see all members."""
        target = choose_organization(actor, organization)
        if not (actor.admin or (actor.is_person and user == actor.user)):
            raise user_not_found(user)
        with self.database.read() as connection:
            found = people.get_member(connection, target, user)
        if found is None:
            raise user_not_found(user)
        return found

    @logs_refusals("member")
    def bind_identity(self, actor: Actor, user: str, *, issuer: str, subject: str, organization: str = "") -> Member:
        """Let an account at an OpenID Connect provider sign in as a member. Raise `Conflict` if it is bound already."""
        target = _managed(actor, organization, "link accounts to members")
        for text in (issuer, subject):
            if not text.strip() or len(text) > _SUBJECT_LIMIT or has_control_chars(text):
                raise Invalid(f"Invalid issuer or subject {text[:80]!r}.", hint="Copy both from the provider.")

        def bind(connection: sa.Connection) -> tuple[Member, AuditEntry]:
            found = active_member(connection, target, user)
            if not people.add_identity(
                connection, user, issuer=issuer, subject=subject, by=recorded_name(actor, target)
            ):
                raise Conflict("This account is already linked to a user.", hint="Check the subject.")
            entry = audit_entry(actor, target, "member", "identity-bound", user=user, issuer=issuer, subject=subject)
            return found, entry

        return self._change(target, bind)

    def _change(self, organization: str, step: Callable[[sa.Connection], tuple[T, AuditEntry]]) -> T:
        """Make a change and write its audit entry, in one transaction."""
        with self.database.write() as connection:
            result, entry = step(connection)
            append(connection, organization, audits=[entry])
        return result


def _require_operator(actor: Actor, what: str) -> None:
    if not is_operator(actor):
        raise Refused(f"Only the operator can {what}.", hint="Run the command on the server, with its database.")


def _managed(actor: Actor, organization: str, what: str) -> str:
    """Return the organization whose members are managed; raise `Refused` unless the actor may do that."""
    target = choose_organization(actor, organization)
    if not actor.admin:
        raise Refused(f"Only an admin of the organization can {what}.", hint="Ask an admin of your organization.")
    if not target:
        raise Invalid("The single user of this machine has no organization to manage.", hint=ORGANIZATION_HINT)
    return target


def _require_active(connection: sa.Connection, organization: str) -> None:
    found = people.get_organization(connection, organization)
    if found is None:
        raise organization_not_found(organization)
    if found.deactivated_at is not None:
        raise Conflict(f"The organization {organization!r} is deactivated.", hint="Create another one.")


def _member(connection: sa.Connection, organization: str, user: str) -> Member:
    found = people.get_member(connection, organization, user)
    if found is None:
        raise user_not_found(user)
    return found


def active_member(connection: sa.Connection, organization: str, user: str) -> Member:
    """Return a member; raise `NotFound` if the user is not an active member."""
    found = _member(connection, organization, user)
    if found.deactivated_at is not None:
        raise user_not_found(user)
    return found


def permissions_of(connection: sa.Connection, owner: Owner) -> frozenset[Permission]:
    """Return what a user may do; raise `NotFound` if the user is not an active member."""
    if owner == Owner():
        return PERMISSIONS
    return check_permissions(active_member(connection, owner.organization_id, owner.user_id).permissions)


def current_actor(connection: sa.Connection, actor: Actor) -> Actor:
    """Return an actor who was recorded earlier, with no more than their user may do now: nothing without a membership.

    Users whom an application manages itself never had one; their actors stay as they are.
    """
    member = people.get_member(connection, actor.organization, actor.user) if actor.user else None
    if member is None:
        return actor
    organization = people.get_organization(connection, actor.organization)
    ended = organization is None or organization.deactivated_at or member.deactivated_at
    return replace(actor, permissions=actor.permissions & check_permissions(() if ended else member.permissions))


def _keep_an_admin(connection: sa.Connection, leaving: Member) -> None:
    if leaving.role == "admin" and people.count_admins(connection, leaving.organization_id) == 1:
        raise Refused(
            f"{leaving.user_id} is the last admin of {leaving.organization_id}.",
            hint=f"Make another member admin first: `prowess user change USER --org {leaving.organization_id} --admin`",
        )


def _check_role(*, admin: bool, permissions: Iterable[str] | None) -> tuple[MemberRole, frozenset[Permission]]:
    """Return the role and permissions of a member. `admin` and the permission of that name mean the same."""
    granted = MEMBER_PERMISSIONS if permissions is None else check_permissions(permissions)
    if admin or "admin" in granted:
        return "admin", PERMISSIONS
    if not granted:
        raise Invalid("A member needs at least one permission.", hint="Pass at least one, for example `skills.read`.")
    return "member", granted


def _check_name(text: str) -> str:
    if len(text) > _NAME_LIMIT or has_control_chars(text):
        raise Invalid(f"Invalid name or email {text[:80]!r}.", hint=f"Use at most {_NAME_LIMIT} plain characters.")
    return clean_text(text.strip())


def _member_entry(
    actor: Actor, organization: str, outcome: str, user: str, role: str, permissions: Iterable[str]
) -> AuditEntry:
    return audit_entry(actor, organization, "member", outcome, user=user, role=role, permissions=sorted(permissions))
