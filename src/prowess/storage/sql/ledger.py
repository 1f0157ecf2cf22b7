"""The tables and statements of `storage.ledger` and `storage.audit_chain`.

Rows of both logs are numbered from 1 without gaps within an organization and never change. Old rows may be pruned from the
start of a log; `pruned_counts` then keeps what they counted.
"""

from __future__ import annotations

import sqlalchemy as sa

from prowess.events import SHARED_EVENTS
from prowess.storage.audit_chain import PRUNE_AUDIT
from prowess.storage.ledger import EVENT_COLUMNS, AuditRow
from prowess.storage.owner import tenant_condition
from prowess.storage.rows import CompiledSelect, CompiledWrite, raw_columns
from prowess.storage.tables import ORDERED_JSON, make_table, metadata, skills, texts

audit = make_table("audit", AuditRow, key=("organization_id", "number"), number=sa.BigInteger)
events = sa.Table(
    "events",
    metadata,
    sa.Column("organization_id", sa.Text, primary_key=True),
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    *texts("id", "at", "user_id", "session_id", "name"),
    # Columns by which events are counted. `data` is not suited: it holds whatever name a client asked for.
    sa.Column("subject", sa.Text, nullable=False),  # the slug of the skill that it is about, or ''
    sa.Column("source", sa.Text, nullable=False),  # the scope that the skill was loaded from, or ''
    sa.Column("seconds", sa.Float),  # the duration; NULL for a failed load
    sa.Column("data", ORDERED_JSON, nullable=False),
)

# Covers the queries of `counts` about uses, so that they read no events.
sa.Index("ix_events_subject", events.c.organization_id, events.c.name, events.c.subject, events.c.at, events.c.seconds)

AUDIT_OF = audit.c.organization_id == sa.bindparam("of")
EVENTS_OF = events.c.organization_id == sa.bindparam("of")
AFTER = sa.bindparam("after", type_=sa.BigInteger)
BEFORE = sa.bindparam("before", type_=sa.BigInteger)
MOST = sa.bindparam("most", type_=sa.Integer)

LAST_AUDIT = CompiledSelect(
    sa.select(audit.c.number, audit.c.hash).where(AUDIT_OF).order_by(audit.c.number.desc()).limit(1)
)
LAST_EVENT = CompiledSelect(sa.select(sa.func.max(events.c.number)).where(EVENTS_OF))
FIRST_EVENT = CompiledSelect(sa.select(sa.func.min(events.c.number)).where(EVENTS_OF))
INSERT_AUDIT = CompiledWrite(sa.insert(audit), values=audit.c.keys())
INSERT_EVENTS = CompiledWrite(sa.insert(events), values=events.c.keys())
_AUDIT = sa.select(*raw_columns(audit.c)).where(AUDIT_OF)
READ_AUDIT = CompiledSelect(_AUDIT.where(audit.c.number > AFTER).order_by(audit.c.number).limit(MOST))
NEWEST_AUDIT = _AUDIT.where(audit.c.number < BEFORE).order_by(audit.c.number.desc()).limit(MOST)
FIND_AUDIT = CompiledSelect(NEWEST_AUDIT)
AUDIT_ROWS = sa.select(sa.func.count()).select_from(audit).where(AUDIT_OF)
COUNT_AUDIT = CompiledSelect(AUDIT_ROWS)
# The events are read in the order of their key, so a condition that always holds costs no index.
_SESSION = sa.bindparam("session", type_=sa.Text)
_OF_SESSION = sa.or_(sa.literal_column("''") == _SESSION, events.c.session_id == _SESSION)
_OF_USER = sa.or_(
    sa.bindparam("everyone", type_=sa.Integer) == sa.literal_column("1"),
    events.c.user_id == sa.bindparam("user"),
    sa.and_(events.c.user_id == sa.literal_column("''"), events.c.name.in_(SHARED_EVENTS)),
)
_EVENTS = (
    sa.select(*raw_columns(events.c[name] for name in EVENT_COLUMNS))
    .where(EVENTS_OF, events.c.number > AFTER, _OF_SESSION, _OF_USER)
    .order_by(events.c.number)
    .limit(MOST)
)
READ_EVENTS = CompiledSelect(_EVENTS)
READ_NAMED_EVENTS = CompiledSelect(_EVENTS.where(events.c.name.in_(sa.bindparam("names", expanding=True))))

_LAST_AUDIT = (
    sa.select(audit.c.hash)
    .where(audit.c.organization_id == sa.bindparam("tenant_organization"))
    .order_by(audit.c.number.desc())
    .limit(1)
)
CATALOG_STATE = CompiledSelect(sa.select(_LAST_AUDIT.scalar_subquery(), sa.exists().where(tenant_condition(skills))))

# The detail undecoded, so that a row whose detail is no longer JSON can be reported by number. Streamed, because a log
# has no maximum length.
AUDIT_CHAIN = _AUDIT.order_by(audit.c.number).execution_options(yield_per=500)
FIRST_AUDIT = sa.select(audit.c.number, audit.c.previous).where(AUDIT_OF).order_by(audit.c.number).limit(1)
PRUNE_RECORD = _AUDIT.where(audit.c.action == PRUNE_AUDIT).order_by(audit.c.number.desc()).limit(1)
