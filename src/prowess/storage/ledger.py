"""Append to and read the two logs of an organization: the audit and the events. Rows never change.

Each log is numbered from 1 without gaps, in commit order: a writer takes the organization's lock, continues from the
last row and holds the lock until its transaction ends. Call `append` last in a transaction, after the locks on sessions
and approvals, to avoid deadlocks.

The audit is a hash chain, see `audit_chain`. `retention` removes old rows from the start of a log, never its newest row,
so numbering continues.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from prowess.errors import Invalid
from prowess.events import Event
from prowess.storage.audit_chain import hash_row
from prowess.storage.clock import now
from prowess.storage.driver_errors import PLAIN_TEXT_HINT
from prowess.storage.owner import Owner, Tenant
from prowess.storage.rows import LazyStatements, decode_object, lock_name, make_row, row_values

if TYPE_CHECKING:
    import sqlalchemy as sa

    from prowess.storage.sql import ledger as sql
else:
    sql = LazyStatements("ledger")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """One row of the audit, as stored."""

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


EVENT_COLUMNS = ("number", "id", "at", "user_id", "session_id", "name", "data")
"""The columns that are read for an event, in this order."""
# Above every number, and still a 64-bit integer, which is what both databases can compare.
_AFTER_ALL = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """The content of a new audit row; `detail` is any JSON object. `channel` is the interface that the actor used ('' if unknown).

    The channel is stored in `detail`, because the hash of a row covers a fixed list of columns.
    """

    actor: str
    channel: str = ""
    action: str
    slug: str = ""
    digest: str = ""
    outcome: str
    detail: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class EventEntry:
    """The content of a new event, and the session, user and skill that it is about.

    Metrics count events by `subject` (the slug), `source` (the scope it was loaded from) and `seconds` (the duration,
    None for a failed load).
    """

    name: str
    data: dict[str, Any]
    session_id: str = ""
    user_id: str = ""
    subject: str = ""
    source: str = ""
    seconds: float | None = None


def catalog_events(action: str, count: int, *, slug: str = "", user: str = "") -> tuple[EventEntry, ...]:
    """Return the event for a change of some skills; none if `count` is 0. With `user`, only that user receives it."""
    data = {"action": action, "skill": slug or None, "count": count}
    return (EventEntry(name="catalog_changed", data=data, user_id=user),) if count else ()


def settings_event(names: Iterable[str]) -> EventEntry:
    """Return the event for a change of settings. It does not have their values."""
    return EventEntry(name="settings_changed", data={"settings": sorted(names)})


def append(
    connection: sa.Connection,
    organization_id: str,
    *,
    audits: Sequence[AuditEntry] = (),
    events: Sequence[EventEntry] = (),
) -> list[int]:
    """Append to both logs in the caller's transaction, and return the numbers of the new events.

    Raise `Invalid` if a detail or the data of an event is not JSON.
    """
    if not audits and not events:
        return []
    # One transaction at a time for an organization, so that numbers follow commit order without gaps.
    lock_name(connection, "ledger", organization_id)
    moment = now()  # after the lock, so that times follow the numbers
    if audits:
        _append_audits(connection, organization_id, audits, moment)
    return _append_events(connection, organization_id, events, moment) if events else []


def read_events(
    connection: sa.Connection,
    organization_id: str,
    *,
    after: int,
    limit: int,
    names: Sequence[str] = (),
    session_id: str = "",
    user_id: str | None = None,
) -> list[Event]:
    """Return the next events after a number, in order, filtered by name, session and user if given.

    A user also gets those that concern everyone.
    """
    key: dict[str, Any] = {"of": organization_id, "after": after, "most": limit, "session": session_id}
    key |= {"everyone": int(user_id is None), "user": user_id or ""}
    if names:
        rows = sql.READ_NAMED_EVENTS.rows(connection, {**key, "names": list(names)})
    else:
        rows = sql.READ_EVENTS.rows(connection, key)
    return [_to_event(row) for row in rows]


def last_event(connection: sa.Connection, organization_id: str) -> int:
    """Return the number of the newest event, or 0."""
    [number] = sql.LAST_EVENT.first(connection, {"of": organization_id}) or (0,)
    return number or 0


def first_event(connection: sa.Connection, organization_id: str) -> int:
    """Return the number of the oldest event that is kept, or 1 if there is none."""
    [number] = sql.FIRST_EVENT.first(connection, {"of": organization_id}) or (1,)
    return number or 1


def read_audit(connection: sa.Connection, organization_id: str, *, after: int, limit: int) -> list[AuditRow]:
    """Return the next audit rows after a number, in order, unverified; see `audit_chain.verify_audit`."""
    rows = sql.READ_AUDIT.rows(connection, {"of": organization_id, "after": after, "most": limit})
    return [_to_audit_row(row) for row in rows]


def find_audit(
    connection: sa.Connection,
    organization_id: str,
    *,
    before: int | None,
    limit: int,
    actor: str = "",
    slug: str = "",
    since: str = "",
    **filters: str,
) -> list[AuditRow]:
    """Return the audit rows before a number, newest first, unverified.

    `actor` and `slug` are parts of those columns, in any case, `since` is a time as `clock` formats it, and `filters` are
    values of the columns `action` and `outcome`. An empty one matches everything.
    """
    key = {"of": organization_id, "before": _AFTER_ALL if before is None else before, "most": limit}
    if not any((actor, slug, since, *filters.values())):
        return [_to_audit_row(row) for row in sql.FIND_AUDIT.rows(connection, key)]
    query = sql.NEWEST_AUDIT.where(*_audit_conditions(actor, slug, since, filters))
    return [_to_audit_row(tuple(row)) for row in connection.execute(query, key)]


def count_audit(
    connection: sa.Connection, organization_id: str, *, actor: str = "", slug: str = "", since: str = "", **filters: str
) -> int:
    """Return how many audit rows `find_audit` finds with the same filters and no limit."""
    if not any((actor, slug, since, *filters.values())):
        [(count,)] = sql.COUNT_AUDIT.rows(connection, {"of": organization_id})
        return count
    query = sql.AUDIT_ROWS.where(*_audit_conditions(actor, slug, since, filters))
    return connection.execute(query, {"of": organization_id}).scalar_one()


def _audit_conditions(actor: str, slug: str, since: str, filters: Mapping[str, str]) -> list[sa.ColumnElement[bool]]:
    conditions = [sql.audit.c[name] == value for name, value in filters.items() if value]
    conditions += [
        column.icontains(part, autoescape=True)
        for column, part in ((sql.audit.c.actor, actor), (sql.audit.c.slug, slug))
        if part
    ]
    return [*conditions, sql.audit.c.at >= since] if since else conditions


def _append_audits(connection: sa.Connection, organization_id: str, entries: Sequence[AuditEntry], moment: str) -> None:
    last, previous = sql.LAST_AUDIT.first(connection, {"of": organization_id}) or (0, "")
    rows: list[dict[str, Any]] = []
    for number, entry in enumerate(entries, last + 1):
        row: dict[str, Any] = {
            "previous": previous,
            "organization_id": organization_id,
            "number": number,
            "at": moment,
            "actor": entry.actor,
            "action": entry.action,
            "slug": entry.slug,
            "digest": entry.digest,
            "outcome": entry.outcome,
            "detail": _plain_json({**entry.detail, "channel": entry.channel} if entry.channel else entry.detail),
        }
        previous = hash_row(row)
        rows.append({**row, "hash": previous})
    sql.INSERT_AUDIT.run(connection, rows)


def _append_events(
    connection: sa.Connection, organization_id: str, entries: Sequence[EventEntry], moment: str
) -> list[int]:
    rows: list[dict[str, Any]] = [
        {
            "organization_id": organization_id,
            "number": number,
            "id": str(uuid.uuid4()),
            "at": moment,
            **row_values(entry),
        }
        for number, entry in enumerate(entries, last_event(connection, organization_id) + 1)
    ]
    sql.INSERT_EVENTS.run(connection, rows)
    return [row["number"] for row in rows]


def _to_event(values: tuple[Any, ...]) -> Event:
    number, event_id, at, user, session, name, data = values
    data = decode_object(data, f"The data of the event {number}")
    return Event(number=number, name=name, data=data, at=at, id=event_id, session=session, user=user)


def _to_audit_row(values: tuple[Any, ...]) -> AuditRow:
    row: Any = make_row(AuditRow, values)
    return replace(row, detail=decode_object(row.detail, f"The detail of the audit row {row.number}"))


def _plain_json(value: dict[str, Any]) -> dict[str, Any]:
    """Return the value as it will be read back (tuples as lists, keys as text), because the hash covers that form."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (ValueError, TypeError) as error:
        raise Invalid(f"The log cannot store this value: {error}.", hint=PLAIN_TEXT_HINT) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogState:
    """The state of an organization's skills in a database, and whether a user has skills that nobody else sees.

    Skills of the database have not changed as long as the `mark` is the same: anyone who writes one adds a row to the audit
    before the write is acknowledged. The same is true of settings and of what was accepted.
    """

    mark: str
    private: bool


def read_catalog_state(connection: sa.Connection, owner: Owner) -> CatalogState:
    """Return the state for a user of an organization."""
    tenant = Tenant(organization_id=owner.organization_id, user_id=owner.user_id, scope="user")
    [(mark, private)] = sql.CATALOG_STATE.rows(connection, tenant.key)
    return CatalogState(mark=mark or "", private=bool(private))
