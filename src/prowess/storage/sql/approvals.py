"""The table and statements of `storage.approvals`."""

from __future__ import annotations

import sqlalchemy as sa

from prowess.storage.approvals import ApprovalRow
from prowess.storage.owner import owner_condition
from prowess.storage.rows import CompiledSelect, CompiledWrite, raw_columns
from prowess.storage.tables import make_table

approvals = make_table("approvals", ApprovalRow)
sa.Index("ix_approvals_organization_state", approvals.c.organization_id, approvals.c.state, approvals.c.created_at)
sa.Index(
    "ix_approvals_subject",
    approvals.c.organization_id,
    approvals.c.user_id,
    approvals.c.requester,
    approvals.c.slug,
    approvals.c.digest,
)

MOMENT = sa.bindparam("moment", type_=sa.Text)
NOT_EXPIRED = approvals.c.expires_at > MOMENT
PENDING = approvals.c.state == sa.literal_column("'pending'")
APPROVED = approvals.c.state == sa.literal_column("'approved'")
THIS_APPROVAL = approvals.c.id == sa.bindparam("which")
ORGANIZATION = approvals.c.organization_id == sa.bindparam("organization")
STATE = sa.case((sa.and_(PENDING, ~NOT_EXPIRED), "expired"), else_=approvals.c.state)

# The prompt of a conversation asks for the approval of each skill in it.
_READ = sa.select(*(STATE if column is approvals.c.state else column for column in raw_columns(approvals.c)))
GET = CompiledSelect(_READ.where(ORGANIZATION, THIS_APPROVAL))
_LIST = (
    _READ.where(ORGANIZATION, STATE.in_(sa.bindparam("states", expanding=True)))
    .order_by(approvals.c.created_at.desc(), approvals.c.id)
    .limit(sa.bindparam("most", type_=sa.Integer))
)
LIST = CompiledSelect(_LIST)
LIST_OF_USER = CompiledSelect(_LIST.where(approvals.c.user_id == sa.bindparam("user")))
SUBJECT = sa.and_(
    owner_condition(approvals),
    approvals.c.requester == sa.bindparam("by"),
    approvals.c.slug == sa.bindparam("of"),
    approvals.c.digest == sa.bindparam("content"),
    approvals.c.action == sa.bindparam("to"),
)
EQUAL = CompiledSelect(_READ.where(SUBJECT, PENDING, NOT_EXPIRED).order_by(approvals.c.created_at).limit(1))
GRANTED = CompiledSelect(
    _READ.where(SUBJECT, APPROVED, NOT_EXPIRED, approvals.c.used_at.is_(None))
    .order_by(approvals.c.expires_at.desc())
    .limit(1)
)
INSERT = CompiledWrite(sa.insert(approvals), values=approvals.c.keys())
# The conditions are part of the UPDATE: of many callers who resolve, use or revoke at once, it changes a row for one.
RESOLVE = sa.update(approvals).where(ORGANIZATION, THIS_APPROVAL, PENDING, NOT_EXPIRED)
USE = CompiledWrite(
    sa.update(approvals)
    .where(THIS_APPROVAL, APPROVED, NOT_EXPIRED, approvals.c.used_at.is_(None))
    .values(used_at=MOMENT),
    values=("which", "moment"),
)
REVOKE = sa.update(approvals).where(ORGANIZATION, THIS_APPROVAL, sa.or_(PENDING, APPROVED))
ANY_OVERDUE = CompiledSelect(sa.select(sa.exists().where(ORGANIZATION, PENDING, ~NOT_EXPIRED)))
WAITING = CompiledSelect(
    sa.select(sa.func.count())
    .select_from(approvals)
    .where(owner_condition(approvals), approvals.c.requester == sa.bindparam("by"), PENDING, NOT_EXPIRED)
)
# A second caller waits for the locks and then finds the rows no longer pending, so each row is returned once.
LOCK_OVERDUE = CompiledSelect(
    _READ.where(ORGANIZATION, PENDING, ~NOT_EXPIRED).order_by(approvals.c.created_at, approvals.c.id).with_for_update()
)
EXPIRE = CompiledWrite(
    sa.update(approvals)
    .where(ORGANIZATION, THIS_APPROVAL, PENDING)
    .values(state=sa.literal_column("'expired'"), resolved_at=MOMENT),
    values=("organization", "which", "moment"),
)


_RESOLVED = _READ.where(
    owner_condition(approvals),
    approvals.c.requester == sa.bindparam("by"),
    approvals.c.action == sa.bindparam("to"),
    approvals.c.state.in_(("approved", "denied", "revoked")),
).order_by(approvals.c.resolved_at.desc(), approvals.c.id)
ANSWERED = CompiledSelect(
    _RESOLVED.where(approvals.c.slug == sa.bindparam("of")).limit(sa.bindparam("most", type_=sa.Integer))
)
IN_FORCE = CompiledSelect(
    _RESOLVED.where(approvals.c.slug.in_(sa.bindparam("these", expanding=True)), approvals.c.expires_at > MOMENT)
)
