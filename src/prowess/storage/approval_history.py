"""What a requester was told before about one skill: the answered approvals, whatever bytes they were for."""

from __future__ import annotations

import sqlalchemy as sa

from prowess.storage.approvals import ApprovalRow
from prowess.storage.owner import Owner, owned
from prowess.storage.policy_tables import approvals

_ANSWERED = (
    sa.select(approvals)
    .where(
        owned(approvals),
        approvals.c.requester == sa.bindparam("by"),
        approvals.c.slug == sa.bindparam("of"),
        approvals.c.action == sa.bindparam("to"),
        approvals.c.state.in_(("approved", "denied", "revoked")),
    )
    .order_by(approvals.c.resolved_at.desc(), approvals.c.id)
    .limit(sa.bindparam("most", type_=sa.Integer))
)


def answered(
    connection: sa.Connection, owner: Owner, *, action_group: str, slug: str, requester: str, limit: int = 100
) -> list[ApprovalRow]:
    """The approvals of this requester for one action and slug that were given, refused or revoked, the newest first."""
    key = {**owner.key, "to": action_group, "of": slug, "by": requester, "most": limit}
    return [ApprovalRow(**row) for row in connection.execute(_ANSWERED, key).mappings()]
