"""The statements of `storage.ledger`."""

from __future__ import annotations

import sqlalchemy as sa

from prowess.events import SHARED_EVENTS
from prowess.storage.policy_tables import audit, events
from prowess.storage.rows import CompiledSelect, CompiledWrite

AUDIT_OF = audit.c.organization_id == sa.bindparam("of")
EVENTS_OF = events.c.organization_id == sa.bindparam("of")
AFTER = sa.bindparam("after", type_=sa.BigInteger)
MOST = sa.bindparam("most", type_=sa.Integer)

LAST_AUDIT = CompiledSelect(
    sa.select(audit.c.number, audit.c.hash).where(AUDIT_OF).order_by(audit.c.number.desc()).limit(1)
)
LAST_EVENT = CompiledSelect(sa.select(sa.func.max(events.c.number)).where(EVENTS_OF))
FIRST_EVENT = sa.select(sa.func.min(events.c.number)).where(EVENTS_OF)
INSERT_AUDIT = CompiledWrite(sa.insert(audit), values=audit.c.keys())
INSERT_EVENTS = CompiledWrite(sa.insert(events), values=events.c.keys())
READ_AUDIT = sa.select(audit).where(AUDIT_OF, audit.c.number > AFTER).order_by(audit.c.number).limit(MOST)
READ_EVENTS = sa.select(events).where(EVENTS_OF, events.c.number > AFTER).order_by(events.c.number).limit(MOST)
OF_NAMES = events.c.name.in_(sa.bindparam("names", expanding=True))
OF_SESSION = events.c.session_id == sa.bindparam("session")
OF_USER = sa.or_(
    events.c.user_id == sa.bindparam("user"), sa.and_(events.c.user_id == "", events.c.name.in_(SHARED_EVENTS))
)
