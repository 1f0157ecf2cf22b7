"""The table and statements of `storage.counts`."""

from __future__ import annotations

import sqlalchemy as sa

from prowess.storage.counts import CHANGED, LOADED, NO_BUCKET, RAN
from prowess.storage.rows import CompiledSelect
from prowess.storage.sql.approvals import approvals
from prowess.storage.sql.ledger import audit, events
from prowess.storage.sql.sessions import sessions
from prowess.storage.tables import metadata

# What the pruned rows of the logs counted, so that metrics and usage do not fall. See `storage.retention`.
pruned_counts = sa.Table(
    "pruned_counts",
    metadata,
    sa.Column("organization_id", sa.Text, primary_key=True),
    sa.Column("log", sa.Text, primary_key=True),  # "events", "files" or "audit"
    sa.Column("name", sa.Text, primary_key=True),  # the name of the event; the action of an audit row
    sa.Column("subject", sa.Text, primary_key=True),  # the slug; the outcome of an audit row
    sa.Column("source", sa.Text, primary_key=True),  # the scope; the file that was loaded
    sa.Column(
        "bucket", sa.Integer, primary_key=True, autoincrement=False
    ),  # see `counts.bucket_of`; -1 without a duration
    sa.Column("total", sa.BigInteger, nullable=False),
    sa.Column("seconds", sa.Float, nullable=False),
    sa.Column("last_at", sa.Text, nullable=False),
)

MANY = sa.func.count().label("many")

EVENTS = (
    events.c.organization_id == sa.bindparam("of"),
    events.c.number > sa.bindparam("after", type_=sa.BigInteger),
    events.c.number <= sa.bindparam("upto", type_=sa.BigInteger),
)
_AUDIT = (
    audit.c.organization_id == sa.bindparam("of"),
    audit.c.number > sa.bindparam("after", type_=sa.BigInteger),
    audit.c.number <= sa.bindparam("upto", type_=sa.BigInteger),
)
DECIDED = sa.select(audit.c.action, audit.c.outcome, MANY).where(*_AUDIT).group_by(audit.c.action, audit.c.outcome)
LAST_AUDIT = CompiledSelect(sa.select(sa.func.max(audit.c.number)).where(audit.c.organization_id == sa.bindparam("of")))
FIRST_AUDIT = sa.select(sa.func.min(audit.c.number)).where(audit.c.organization_id == sa.bindparam("of"))
_STATE = sa.case(
    (sa.and_(approvals.c.state == "pending", approvals.c.expires_at <= sa.bindparam("now")), "expired"),
    else_=approvals.c.state,
).label("now_is")
APPROVALS = sa.select(_STATE, MANY).where(approvals.c.organization_id == sa.bindparam("of")).group_by("now_is")
OPEN = sa.select(MANY).where(sessions.c.organization_id == sa.bindparam("of"), sessions.c.closed_at.is_(None))
# The next two queries use only columns of the index `ix_events_subject`, so no event itself is read.
_USED = (events.c.organization_id == sa.bindparam("of"), events.c.subject != "")
_DONE = sa.and_(events.c.name == LOADED, events.c.seconds.is_not(None))
_IS_USE = sa.or_(_DONE, events.c.name == CHANGED, events.c.name == RAN)
RECENT = CompiledSelect(
    sa.select(events.c.subject, MANY)
    .where(*_USED, _IS_USE, events.c.at >= sa.bindparam("since"))
    .group_by(events.c.subject)
)
LAST_USES = (
    sa.select(events.c.name, events.c.subject, MANY, sa.func.max(events.c.at).label("last"))
    .where(*_USED, _IS_USE)
    .group_by(events.c.name, events.c.subject)
)

PRUNED = sa.select(pruned_counts).where(
    pruned_counts.c.organization_id == sa.bindparam("of"), pruned_counts.c.log == sa.bindparam("log")
)
PRUNED_USES = (
    sa.select(
        pruned_counts.c.name,
        pruned_counts.c.subject,
        sa.func.sum(pruned_counts.c.total).label("many"),
        sa.func.max(pruned_counts.c.last_at).label("last"),
    )
    .where(
        pruned_counts.c.organization_id == sa.bindparam("of"),
        pruned_counts.c.log == "events",
        pruned_counts.c.subject != "",
        sa.or_(
            sa.and_(pruned_counts.c.name == LOADED, pruned_counts.c.bucket != NO_BUCKET),
            pruned_counts.c.name == CHANGED,
            pruned_counts.c.name == RAN,
        ),
    )
    .group_by(pruned_counts.c.name, pruned_counts.c.subject)
)

_LOADED = sa.select(events.c.subject, events.c.session_id, events.c.data).where(events.c.subject != "", _DONE)
LOADED_SINCE = _LOADED.where(events.c.organization_id == sa.bindparam("of"), events.c.at >= sa.bindparam("since"))
LOADED_BETWEEN = _LOADED.where(*EVENTS)
CHANGED_SINCE = sa.select(events.c.subject, events.c.session_id, events.c.data).where(
    events.c.organization_id == sa.bindparam("of"),
    events.c.name == CHANGED,
    events.c.subject != "",
    events.c.at >= sa.bindparam("since"),
)
