"""The table and statements of `storage.spend`."""

from __future__ import annotations

import sqlalchemy as sa

from prowess.storage.rows import CompiledSelect, CompiledWrite
from prowess.storage.tables import dialect_insert, metadata

spend = sa.Table(
    "spend",
    metadata,
    sa.Column("organization_id", sa.Text, primary_key=True),
    sa.Column("purse", sa.Text, primary_key=True),  # "day:2026-03-01", "session:ID" or "job:ID"
    sa.Column("amount", sa.Float, nullable=False),  # US dollars, including what is reserved for running requests
    sa.Column("updated_at", sa.Text, nullable=False),
)

_KEY = ("organization_id", "purse")
_NAMED = sa.and_(spend.c.organization_id == sa.bindparam("of"), spend.c.purse == sa.bindparam("which"))
_SUM = spend.c.amount + sa.bindparam("more", type_=sa.Float)
_ADD = sa.update(spend).where(_NAMED).values(amount=_SUM, updated_at=sa.bindparam("at"))
_ADDED = ("of", "which", "more", "at")
OPEN = CompiledWrite(
    dialect_insert(spend, lambda insert: insert.on_conflict_do_nothing(index_elements=_KEY)), values=spend.c.keys()
)
ADD = CompiledWrite(_ADD, values=_ADDED)
ADD_WITHIN = CompiledWrite(_ADD.where(sa.bindparam("cap", type_=sa.Float) >= _SUM), values=(*_ADDED, "cap"))
GET = CompiledSelect(sa.select(spend.c.amount).where(_NAMED))
