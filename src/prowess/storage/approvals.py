"""Store approvals: asked once, resolved once, valid for one requester and one digest until they expire.

`expires_at` limits both the request and the approval. Once it has passed, a pending request reads as expired everywhere;
`expire` stores that and returns each expired row to exactly one caller.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from prowess.lazy_dataclass import dataclass
from prowess.storage.clock import now, seconds_from_now
from prowess.storage.owner import Owner
from prowess.storage.rows import LazyStatements, decode_object, lock_name, make_row, row_values

if TYPE_CHECKING:
    import sqlalchemy as sa

    from prowess.storage.sql import approvals as sql
else:
    sql = LazyStatements("approvals")

ApprovalState = Literal["pending", "approved", "denied", "expired", "revoked"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRow:
    """One approval, with its state at the time of reading; `detail` is the card that a person sees."""

    id: str
    organization_id: str
    user_id: str
    """The user who asked, or whose agent did."""
    session_id: str
    """'' outside a session. An approval outlives its session."""
    action: str
    slug: str
    digest: str
    requester: str
    reason: str
    state: ApprovalState
    created_at: str
    expires_at: str
    resolved_at: str | None = None
    resolver: str | None = None
    note: str = ""
    used_at: str | None = None
    detail: dict[str, Any]


def ask(
    connection: sa.Connection,
    owner: Owner,
    *,
    action: str,
    slug: str,
    digest: str,
    requester: str,
    session_id: str,
    reason: str,
    detail: dict[str, Any],
    lifetime_seconds: float,
) -> tuple[ApprovalRow, bool]:
    """Return a pending approval, and True if it is new.

    If the requester already has the same request pending, in any session, return that one, even if both ask at once: the
    answer holds for all sessions of the requester.
    """
    key = {**owner.key, "to": action, "of": slug, "content": digest, "by": requester}
    lock_name(connection, "approval", *key.values())  # there is no row yet that two who ask at once could lock
    pending = sql.EQUAL.first(connection, {**key, "moment": now()})
    if pending is not None:
        return _to_approval(pending), False
    row = ApprovalRow(
        id=str(uuid.uuid4()),
        organization_id=owner.organization_id,
        user_id=owner.user_id,
        session_id=session_id,
        action=action,
        slug=slug,
        digest=digest,
        requester=requester,
        reason=reason,
        state="pending",
        detail=detail,
        created_at=now(),
        expires_at=seconds_from_now(lifetime_seconds),
    )
    sql.INSERT.run(connection, [row_values(row)])
    return row, True


def get_approval(connection: sa.Connection, organization_id: str, approval_id: str) -> ApprovalRow | None:
    """Return an approval of the organization; None if the id is unknown."""
    found = sql.GET.first(connection, _key(organization_id, approval_id))
    return None if found is None else _to_approval(found)


def _to_approval(values: tuple[Any, ...]) -> ApprovalRow:
    row: Any = make_row(ApprovalRow, values)
    return replace(row, detail=decode_object(row.detail, f"The detail of the approval {row.id}"))


def list_approvals(
    connection: sa.Connection,
    organization_id: str,
    *,
    states: Sequence[ApprovalState],
    limit: int,
    user_id: str | None = None,
) -> list[ApprovalRow]:
    """Return the approvals in one of these states, newest first; with `user_id`, only those that this user requested."""
    key: dict[str, Any] = {"organization": organization_id, "states": list(states), "most": limit, "moment": now()}
    if user_id is None:
        rows = sql.LIST.rows(connection, key)
    else:
        rows = sql.LIST_OF_USER.rows(connection, {**key, "user": user_id})
    return [_to_approval(row) for row in rows]


def resolve(
    connection: sa.Connection,
    organization_id: str,
    approval_id: str,
    *,
    approved: bool,
    resolver: str,
    note: str,
    lifetime_seconds: float | None = None,
    detail: dict[str, Any] | None = None,
) -> ApprovalRow | None:
    """Approve or deny, permanently; return None if it is already resolved, has expired or does not exist.

    An approval is valid for the lifetime from now; without one, until the request would have expired. `detail` replaces the
    stored one.
    """
    values: dict[str, Any] = {
        "state": "approved" if approved else "denied",
        "resolver": resolver,
        "note": note,
        "resolved_at": now(),
    }
    if detail is not None:
        values["detail"] = detail
    if approved and lifetime_seconds is not None:
        values["expires_at"] = seconds_from_now(lifetime_seconds)
    # Only a pending row is changed, so of two answers at the same time the first one wins.
    won = connection.execute(sql.RESOLVE.values(**values), _key(organization_id, approval_id)).rowcount == 1
    return get_approval(connection, organization_id, approval_id) if won else None


def find_granted(
    connection: sa.Connection, owner: Owner, *, action_group: str, slug: str, digest: str, requester: str
) -> ApprovalRow | None:
    """Return a valid, unused approval for exactly this action, slug, digest and requester, or None."""
    key = {**owner.key, "to": action_group, "of": slug, "content": digest, "by": requester, "moment": now()}
    found = sql.GRANTED.first(connection, key)
    return _to_approval(found) if found else None


def use(connection: sa.Connection, approval_id: str) -> bool:
    """Use up a single-use approval; return False if it is used, expired or missing."""
    return sql.USE.run(connection, [{"which": approval_id, "moment": now()}]) == 1


def is_pending(connection: sa.Connection, owner: Owner, *, action: str, slug: str, digest: str, requester: str) -> bool:
    """Return True if the same request is already pending."""
    key = {**owner.key, "to": action, "of": slug, "content": digest, "by": requester}
    return sql.EQUAL.first(connection, {**key, "moment": now()}) is not None


def count_pending(connection: sa.Connection, owner: Owner, requester: str) -> int:
    """Return how many requests of one requester are pending."""
    [(count,)] = sql.WAITING.rows(connection, {**owner.key, "by": requester, "moment": now()})
    return count


def is_any_overdue(connection: sa.Connection, organization_id: str) -> bool:
    """Return True if a pending request has expired and is not stored as expired yet."""
    [(is_overdue,)] = sql.ANY_OVERDUE.rows(connection, {"organization": organization_id, "moment": now()})
    return bool(is_overdue)


def expire(connection: sa.Connection, organization_id: str) -> list[ApprovalRow]:
    """Store which requests expired unanswered, and return them; each is returned to exactly one caller."""
    moment = now()
    rows = sql.LOCK_OVERDUE.rows(connection, {"organization": organization_id, "moment": moment})
    overdue = [replace(_to_approval(row), resolved_at=moment) for row in rows]
    if overdue:
        keys = [{"organization": organization_id, "which": row.id, "moment": moment} for row in overdue]
        sql.EXPIRE.run(connection, keys)
    return overdue


def revoke(
    connection: sa.Connection, organization_id: str, approval_id: str, resolver: str, *, note: str = ""
) -> ApprovalRow | None:
    """Withdraw a pending or approved request; return None if no such request has that id."""
    values = sql.REVOKE.values(state="revoked", resolver=resolver, note=note, resolved_at=now())
    revoked = connection.execute(values, {"organization": organization_id, "which": approval_id}).rowcount == 1
    return get_approval(connection, organization_id, approval_id) if revoked else None


def _key(organization_id: str, approval_id: str) -> dict[str, str]:
    return {"organization": organization_id, "which": approval_id, "moment": now()}


_SLUGS_PER_QUERY = 500
"""The maximum number of slugs in one query, for the reason given at `blobs.CHUNK_SIZE`."""


def list_resolved(
    connection: sa.Connection, owner: Owner, *, action_group: str, slug: str, requester: str
) -> list[ApprovalRow]:
    """Return the requester's last 100 approved, denied and revoked approvals for one action and slug, newest first."""
    key = {**owner.key, "to": action_group, "of": slug, "by": requester, "most": 100}
    return [_to_approval(row) for row in sql.ANSWERED.rows(connection, {**key, "moment": now()})]


def list_in_force(
    connection: sa.Connection, owner: Owner, *, action_group: str, slugs: Sequence[str], requester: str
) -> dict[str, list[ApprovalRow]]:
    """Return the unexpired approvals, denials and revocations of these slugs, by slug, newest first, in few queries."""
    found: dict[str, list[ApprovalRow]] = {}
    for start in range(0, len(slugs), _SLUGS_PER_QUERY):
        these = list(slugs[start : start + _SLUGS_PER_QUERY])
        key = {**owner.key, "to": action_group, "these": these, "by": requester, "moment": now()}
        for approval in map(_to_approval, sql.IN_FORCE.rows(connection, key)):
            found.setdefault(approval.slug, []).append(approval)
    return found
