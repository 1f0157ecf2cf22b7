"""Verify the audit: a hash chain, in which each row's hash covers its content and the hash of the row before.

`verify_audit` finds any row that was altered, removed, added or moved. Old rows may be pruned: a row of the chain then
records the number and the hash of the last pruned row, so that removing more than that is found. The record has a seal,
which cannot be made without the key of the installation.

It cannot find rows cut off the end, or rows rewritten with fresh hashes up to the end, unless the caller passes a head
hash that was exported earlier.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from prowess.lazy_dataclass import dataclass
from prowess.storage.rows import LazyStatements, decode_json
from prowess.storage.seals import SealState, seals_of

if TYPE_CHECKING:
    import sqlalchemy as sa

    from prowess.storage.sql import ledger as sql
else:
    sql = LazyStatements("ledger")

PRUNE_AUDIT = "prune_audit"
"""The action of a row that records the last pruned row."""

_HASHED_COLUMNS = (
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
# Exceptions of encoding values that were never in an audit row.
_DAMAGE = (ValueError, TypeError, RecursionError)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditVerdict:
    """The result of verifying a chain.

    `rows` counts the intact rows and `head` is the hash of the last one ('' without any). `pruned` is the number of the
    last pruned row, or 0. If the chain is not `ok`, `first_bad` is the number at which it breaks and `problem` says how.
    """

    rows: int
    ok: bool
    first_bad: int | None = None
    problem: str = ""
    head: str = ""
    pruned: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PruneRecord:
    """The last pruned row, as a row of the chain records it, and whether this installation made that record."""

    row: int
    through: int
    hash: str
    seal: SealState


def hash_row(row: Mapping[str, Any]) -> str:
    """Return the hash of a row: SHA-256 over the canonical JSON list of the previous hash and the content."""
    values = [row[name] for name in _HASHED_COLUMNS]
    # Each option fixes the bytes: every process must compute the same hash.
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def record_detail(connection: sa.Connection, organization_id: str, *, through: int, hash: str) -> dict[str, Any]:
    """Return the detail of a row that records the last pruned row, with a seal."""
    seal = seals_of(connection).make(_sealed(organization_id, through, hash))
    return {"through": through, "hash": hash, "seal": seal}


def find_record(connection: sa.Connection, organization_id: str) -> PruneRecord | None:
    """Return the newest record of a pruning; None if there is none that can be read."""
    found = connection.execute(sql.PRUNE_RECORD, {"of": organization_id}).mappings().first()
    if found is None:
        return None
    try:
        detail = decode_json(found["detail"])
        through, last, seal = int(detail["through"]), str(detail["hash"]), str(detail["seal"])
    except (*_DAMAGE, KeyError):
        return None
    state = seals_of(connection).check(seal, 0, _sealed(organization_id, through, last))
    return PruneRecord(row=found["number"], through=through, hash=last, seal=state)


def _sealed(organization_id: str, through: int, hash: str) -> tuple[object, ...]:
    return ("audit pruned", organization_id, through, hash)


def verify_audit(
    connection: sa.Connection, organization_id: str, *, head: str = "", last: int | None = None, any_key: bool = False
) -> AuditVerdict:
    """Check the organization's chain, and that it still contains the `head` that was exported earlier.

    Without a head, rows cut off the end, or an end rewritten with fresh hashes, go unnoticed. `last` ends the check after
    that row. With `any_key`, the record of a pruning may have been sealed with the key of another installation.
    """
    first = connection.execute(sql.FIRST_AUDIT, {"of": organization_id}).first()
    number, previous, met = 0, "", not head
    record = None
    if first is not None and first.number > 1:
        record = find_record(connection, organization_id)
        if problem := _find_start_problem(first.number, first.previous, record, any_key=any_key):
            bad = min(record.through + 1, first.number) if record else 1
            return AuditVerdict(rows=0, ok=False, first_bad=bad, problem=problem)
        number, previous = first.number - 1, first.previous
    pruned = number
    with connection.execute(sql.AUDIT_CHAIN, {"of": organization_id}) as rows:
        for row in rows.mappings():
            problem = _find_problem(dict(row), number + 1, previous)
            # A pruning that was interrupted: the rest of the rows that it records are there, and must be the recorded ones.
            if not problem and record and row["number"] == record.through and row["hash"] != record.hash:
                problem = f"Row {record.through} does not match the one that row {record.row} records as pruned."
            if problem:
                return AuditVerdict(
                    rows=number - pruned, ok=False, first_bad=number + 1, problem=problem, head=previous, pruned=pruned
                )
            number, previous = row["number"], row["hash"]
            met = met or previous == head
            if number == last:
                break
    if met:
        return AuditVerdict(rows=number - pruned, ok=True, head=previous, pruned=pruned)
    problem = "The exported head is not in the chain: rows were cut off the end, or rewritten."
    if pruned:
        problem += f" A head from before the pruning of rows 1 to {pruned} can no longer be checked; use a newer one."
    return AuditVerdict(
        rows=number - pruned, ok=False, first_bad=number + 1, problem=problem, head=previous, pruned=pruned
    )


def _find_start_problem(first: int, previous: str, record: PruneRecord | None, *, any_key: bool) -> str:
    """Return the problem with a chain that starts at this row, after this hash; '' if the rows before it were pruned."""
    if record is None:
        return f"Row 1 is missing: the next row is {first}."
    if record.through < first - 1:
        return f"Row {record.through + 1} is missing: rows were pruned up to {record.through}, but the next row is {first}."
    if record.seal != "valid" and not (any_key and record.seal == "foreign"):
        why = "was sealed with another key" if record.seal == "foreign" else "has no valid seal"
        return f"Rows 1 to {first - 1} are missing, and the record of their pruning (row {record.row}) {why}."
    if record.through == first - 1 and record.hash != previous:
        return f"Row {first} does not follow row {record.through}, the last one that was pruned."
    return ""


def _find_problem(row: dict[str, Any], number: int, previous: str) -> str:
    """Return the problem with the row that should have this number and follow that hash; '' if there is none."""
    if row["number"] != number:
        return f"Row {number} is missing: the next row is {row['number']}."
    if row["previous"] != previous:
        return f"Row {number} does not follow row {number - 1}: one of the two was altered, moved or added."
    try:
        sound = row["hash"] == hash_row({**row, "detail": decode_json(row["detail"])})
    except _DAMAGE:
        sound = False
    return "" if sound else f"Row {number} was changed after it was written."
