"""Store spending, in US dollars, per day and per session of an organization.

Reservations never exceed a limit, however many callers reserve at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from prowess.storage.clock import now
from prowess.storage.rows import LazyStatements

if TYPE_CHECKING:
    import sqlalchemy as sa

    from prowess.storage.sql import spend as sql
else:
    sql = LazyStatements("spend")

TOLERANCE = 1e-9
"""The tolerance for sums of floating-point amounts."""


def reserve(connection: sa.Connection, organization_id: str, limits: Mapping[str, float], amount: float) -> str | None:
    """Reserve an amount under every limit, or under none; return the name of the limit that is full, or None."""
    done: list[str] = []
    for account in sorted(limits):  # always in the same order, so that two callers cannot deadlock
        row = {"organization_id": organization_id, "purse": account, "amount": 0.0, "updated_at": now()}
        # First make sure that there is a row. Then one guarded UPDATE decides, however many callers reserve at once.
        sql.OPEN.run(connection, [row])
        values = {"of": organization_id, "which": account, "more": amount, "at": now()}
        if sql.ADD_WITHIN.run(connection, [{**values, "cap": limits[account] + TOLERANCE}]) != 1:
            # The transaction is the caller's and may continue, so the limits that did have room are restored here.
            settle(connection, organization_id, done, -amount)
            return account
        done.append(account)
    return None


def settle(connection: sa.Connection, organization_id: str, accounts: Iterable[str], difference: float) -> None:
    """Add the difference between actual and reserved amount, whatever the cap; a negative difference is released."""
    for account in sorted(accounts):
        sql.ADD.run(connection, [{"of": organization_id, "which": account, "more": difference, "at": now()}])


def spent(connection: sa.Connection, organization_id: str, account: str) -> float:
    """Return the spending under a limit, including reservations for running requests."""
    found = sql.GET.first(connection, {"of": organization_id, "which": account})
    return found[0] if found else 0.0
