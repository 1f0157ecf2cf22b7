"""Store spending, in US dollars, per day and per session of an organization.

Reservations never exceed a limit, however many callers reserve at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import sqlalchemy as sa

from prowess.storage.clock import now
from prowess.storage.run_tables import spend
from prowess.storage.tables import dialect_insert

TOLERANCE = 1e-9
"""The tolerance for sums of floating-point amounts."""

_KEY = ("organization_id", "purse")
_NAMED = sa.and_(spend.c.organization_id == sa.bindparam("of"), spend.c.purse == sa.bindparam("which"))
_open = dialect_insert(spend, lambda insert: insert.on_conflict_do_nothing(index_elements=_KEY))
_SUM = spend.c.amount + sa.bindparam("more", type_=sa.Float)
_ADD = sa.update(spend).where(_NAMED).values(amount=_SUM, updated_at=sa.bindparam("at"))
_ADD_WITHIN = _ADD.where(sa.bindparam("cap", type_=sa.Float) >= _SUM)
_GET = sa.select(spend.c.amount).where(_NAMED)


def reserve(connection: sa.Connection, organization_id: str, purses: Mapping[str, float], amount: float) -> str | None:
    """Reserve an amount under every limit, or under none; return the name of the limit that is full, or None."""
    done: list[str] = []
    for purse in sorted(purses):  # always in the same order, so that two callers cannot deadlock
        row = {"organization_id": organization_id, "purse": purse, "amount": 0.0, "updated_at": now()}
        # First make sure that there is a row. Then one guarded UPDATE decides, however many callers reserve at once.
        connection.execute(_open(connection), row)
        values = {"of": organization_id, "which": purse, "more": amount, "at": now()}
        if connection.execute(_ADD_WITHIN, {**values, "cap": purses[purse] + TOLERANCE}).rowcount != 1:
            # The transaction is the caller's and may go on, so the limits that did have room are restored here.
            settle(connection, organization_id, done, -amount)
            return purse
        done.append(purse)
    return None


def settle(connection: sa.Connection, organization_id: str, purses: Iterable[str], difference: float) -> None:
    """Add the difference between actual and reserved amount, whatever the cap; a negative difference is released."""
    for purse in sorted(purses):
        connection.execute(_ADD, {"of": organization_id, "which": purse, "more": difference, "at": now()})


def spent(connection: sa.Connection, organization_id: str, purse: str) -> float:
    """Return the spending under a limit, including reservations for running requests."""
    return connection.execute(_GET, {"of": organization_id, "which": purse}).scalar() or 0.0
