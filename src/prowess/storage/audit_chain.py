"""The audit as a chain: each row's hash covers what it says and the hash of the row before.

What this finds: any row altered, removed, added or moved inside the chain. What it cannot find by itself: rows that
were cut off the end, or an end that was written anew with fresh hashes, since nothing follows that would disagree.
Whoever kept a head from earlier (the hash of the last row, exported to where the database's owner cannot write) finds
those too: that hash must still stand in the chain.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from prowess.storage.policy_tables import audit
from prowess.storage.rows import decoded, raw

_COVERED = (
    "previous",
    "organization_id",
    "number",
    "at",
    "actor",
    "action",
    "slug",
    "digest",
    "outcome",
    "detail",
)
# The detail as the driver gives it, so that one that is not JSON any more can be told by its number.
_CHAIN = (
    sa.select(*(raw(column) if column.name == "detail" else column for column in audit.c))
    .where(audit.c.organization_id == sa.bindparam("of"))
    .order_by(audit.c.number)
    .execution_options(yield_per=500)
)
# What canonical JSON raises over values that never were in an audit row.
_DAMAGE = (ValueError, TypeError, RecursionError)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """One row of the audit, as it stands."""

    organization_id: str
    number: int
    at: str
    actor: str
    action: str
    slug: str
    digest: str
    outcome: str
    detail: dict[str, Any]
    previous: str
    hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditVerdict:
    """What a look at the whole chain found.

    `rows` were looked at and are sound, `head` is the hash of the last of them ('' without any). Where the chain is
    not `ok`, `first_bad` is the number at which it breaks and `problem` says how.
    """

    rows: int
    ok: bool
    first_bad: int | None = None
    problem: str = ""
    head: str = ""


def hash_of(row: Mapping[str, Any]) -> str:
    """The hash of a row: SHA-256 over the JSON list of the previous hash and all that the row says, keys sorted."""
    said = [row[name] for name in _COVERED]
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def verify_audit(connection: sa.Connection, organization_id: str, *, head: str = "") -> AuditVerdict:
    """Whether the organization's chain is whole, and whether it still has the `head` that was exported earlier.

    Without a head, rows that were cut off the end are not missed, nor is an end that was hashed anew.
    """
    number, previous, met = 0, "", not head
    with connection.execute(_CHAIN, {"of": organization_id}) as rows:
        for row in rows.mappings():
            problem = _problem(dict(row), number + 1, previous)
            if problem:
                return AuditVerdict(rows=number, ok=False, first_bad=number + 1, problem=problem, head=previous)
            number, previous = row["number"], row["hash"]
            met = met or previous == head
    if met:
        return AuditVerdict(rows=number, ok=True, head=previous)
    problem = "The chain does not have the head that was exported: rows were cut off its end, or written anew."
    return AuditVerdict(rows=number, ok=False, first_bad=number + 1, problem=problem, head=previous)


def _problem(row: dict[str, Any], number: int, previous: str) -> str:
    """What is wrong with the row that should be this number and follow that hash; '' where nothing is."""
    if row["number"] != number:
        return f"Row {number} is missing: the next one is {row['number']}."
    if row["previous"] != previous:
        return f"Row {number} does not follow row {number - 1}: one of the two was altered, moved or added."
    try:
        sound = row["hash"] == hash_of({**row, "detail": decoded(row["detail"])})
    except _DAMAGE:
        sound = False
    return "" if sound else f"Row {number} does not say what it said when it was written."
