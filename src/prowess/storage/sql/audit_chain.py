"""The statements of `storage.audit_chain`."""

from __future__ import annotations

import sqlalchemy as sa

from prowess.storage.audit_chain import PRUNE_AUDIT
from prowess.storage.rows import raw_json
from prowess.storage.sql.ledger import audit

OF = audit.c.organization_id == sa.bindparam("of")
# The detail undecoded, so that a row whose detail is no longer JSON can be reported by number. Streamed, because a log
# has no maximum length.
ROWS = sa.select(*(raw_json(column) if column.name == "detail" else column for column in audit.c)).where(OF)
CHAIN = ROWS.order_by(audit.c.number).execution_options(yield_per=500)
FIRST = sa.select(audit.c.number, audit.c.previous).where(OF).order_by(audit.c.number).limit(1)
RECORD = ROWS.where(audit.c.action == PRUNE_AUDIT).order_by(audit.c.number.desc()).limit(1)
