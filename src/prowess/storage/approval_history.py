"""What a requester was told before about a skill: the answered approvals, whatever bytes they were for."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from prowess.storage.approvals import ApprovalRow
from prowess.storage.clock import now
from prowess.storage.owner import Owner, owned
from prowess.storage.policy_tables import approvals

_TOLD = (
    sa.select(approvals)
    .where(
        owned(approvals),
        approvals.c.requester == sa.bindparam("by"),
        approvals.c.action == sa.bindparam("to"),
        approvals.c.state.in_(("approved", "denied", "revoked")),
    )
    .order_by(approvals.c.resolved_at.desc(), approvals.c.id)
)
_ANSWERED = _TOLD.where(approvals.c.slug == sa.bindparam("of")).limit(sa.bindparam("most", type_=sa.Integer))
_IN_FORCE = _TOLD.where(
    approvals.c.slug.in_(sa.bindparam("these", expanding=True)),
    approvals.c.expires_at > sa.bindparam("moment", type_=sa.Text),
)
_AT_ONCE = 500
"""So many slugs are looked for in one query."""


def answered(
    connection: sa.Connection, owner: Owner, *, action_group: str, slug: str, requester: str, limit: int = 100
) -> list[ApprovalRow]:
    """The approvals of this requester for one action and slug that were given, refused or revoked, the newest first."""
    key = {**owner.key, "to": action_group, "of": slug, "by": requester, "most": limit}
    return [ApprovalRow(**row) for row in connection.execute(_ANSWERED, key).mappings()]


def in_force(
    connection: sa.Connection, owner: Owner, *, action_group: str, slugs: Sequence[str], requester: str
) -> dict[str, list[ApprovalRow]]:
    """Those for any of these slugs whose time is not over, by slug, the newest first; a few queries for any number of slugs."""
    found: dict[str, list[ApprovalRow]] = {}
    for start in range(0, len(slugs), _AT_ONCE):
        these = list(slugs[start : start + _AT_ONCE])
        key = {**owner.key, "to": action_group, "these": these, "by": requester, "moment": now()}
        for row in connection.execute(_IN_FORCE, key).mappings():
            found.setdefault(row["slug"], []).append(ApprovalRow(**row))
    return found
