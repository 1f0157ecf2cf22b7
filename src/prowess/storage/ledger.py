"""The logs of an organization: what was decided (`audit`) and what is announced (`events`). Rows are only ever added.

Each log counts from 1 without a gap, in the order of commit: a writer takes the organization's lock, counts on from
the last row and holds the lock until its transaction ends. So `append` comes last in a transaction, after the locks
on sessions and approvals, and nobody waits for anybody while holding it.

Every audit row carries the hash of the one before it, and its own hash covers that and all else that it says. So a row
that was altered, removed, added or moved inside the chain is found by `storage.audit_chain`.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from prowess.errors import Invalid
from prowess.events import Event
from prowess.storage.audit_chain import AuditRow, AuditVerdict, hash_of, verify_audit
from prowess.storage.clock import now
from prowess.storage.faults import PLAIN_HINT
from prowess.storage.policy_tables import audit, events

__all__ = [
    "AuditEntry",
    "AuditRow",
    "AuditVerdict",
    "EventEntry",
    "append",
    "last_event",
    "read_audit",
    "read_events",
    "verify_audit",
]

_AUDIT_OF = audit.c.organization_id == sa.bindparam("of")
_EVENTS_OF = events.c.organization_id == sa.bindparam("of")
_AFTER = sa.bindparam("after", type_=sa.BigInteger)
_MOST = sa.bindparam("most", type_=sa.Integer)

_LAST_AUDIT = sa.select(audit.c.number, audit.c.hash).where(_AUDIT_OF).order_by(audit.c.number.desc()).limit(1)
_LAST_EVENT = sa.select(sa.func.max(events.c.number)).where(_EVENTS_OF)
_INSERT_AUDIT = sa.insert(audit)
_INSERT_EVENTS = sa.insert(events)
_READ_AUDIT = sa.select(audit).where(_AUDIT_OF, audit.c.number > _AFTER).order_by(audit.c.number).limit(_MOST)
_READ_EVENTS = sa.select(events).where(_EVENTS_OF, events.c.number > _AFTER).order_by(events.c.number).limit(_MOST)
_OF_NAMES = events.c.name.in_(sa.bindparam("names", expanding=True))
_OF_SESSION = events.c.session_id == sa.bindparam("session")
_OF_USER = events.c.user_id == sa.bindparam("user")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """What a new audit row says; `detail` is any JSON object."""

    actor: str
    action: str
    slug: str = ""
    digest: str = ""
    outcome: str
    detail: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class EventEntry:
    """What a new event says, and the session, user and skill that it is about.

    Events are counted by `subject`, the slug of that skill, by `source`, the scope that it was loaded from, and by
    `seconds`, how long that took; a load that gave nothing has none.
    """

    name: str
    data: dict[str, Any]
    session_id: str = ""
    user_id: str = ""
    subject: str = ""
    source: str = ""
    seconds: float | None = None


def append(
    connection: sa.Connection,
    organization_id: str,
    *,
    audits: Sequence[AuditEntry] = (),
    events: Sequence[EventEntry] = (),
) -> list[Event]:
    """Add rows to both logs, kept when the transaction is; the events as everybody will read them.

    `Invalid` where a detail or the data of an event is not JSON.
    """
    if not audits and not events:
        return []
    _lock(connection, organization_id)
    moment = now()
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
    """The next events after a number, in order: all, or those of these names, of one session, of one user."""
    query = _READ_EVENTS
    key: dict[str, Any] = {"of": organization_id, "after": after, "most": limit}
    if names:
        query, key["names"] = query.where(_OF_NAMES), list(names)
    if session_id:
        query, key["session"] = query.where(_OF_SESSION), session_id
    if user_id is not None:
        query, key["user"] = query.where(_OF_USER), user_id
    return [_event(row) for row in connection.execute(query, key)]


def last_event(connection: sa.Connection, organization_id: str) -> int:
    """The number of the newest event; 0 where there is none."""
    return connection.execute(_LAST_EVENT, {"of": organization_id}).scalar() or 0


def read_audit(connection: sa.Connection, organization_id: str, *, after: int, limit: int) -> list[AuditRow]:
    """The next audit rows after a number, in order, as they stand; `verify_audit` says whether they can be believed."""
    rows = connection.execute(_READ_AUDIT, {"of": organization_id, "after": after, "most": limit})
    return [AuditRow(**row) for row in rows.mappings()]


def _lock(connection: sa.Connection, organization_id: str) -> None:
    """Let one transaction at a time append for an organization; SQLite has one writer anyway."""
    if connection.dialect.name == "postgresql":
        name = f"ledger\n{organization_id}"
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(sa.func.hashtextextended(name, 0))))


def _append_audits(connection: sa.Connection, organization_id: str, entries: Sequence[AuditEntry], moment: str) -> None:
    last = connection.execute(_LAST_AUDIT, {"of": organization_id}).first()
    first, previous = (last.number + 1, last.hash) if last else (1, "")
    rows: list[dict[str, Any]] = []
    for number, entry in enumerate(entries, first):
        said: dict[str, Any] = {
            "previous": previous,
            "organization_id": organization_id,
            "number": number,
            "at": moment,
            "actor": entry.actor,
            "action": entry.action,
            "slug": entry.slug,
            "digest": entry.digest,
            "outcome": entry.outcome,
            "detail": _plain(entry.detail),
        }
        previous = hash_of(said)
        rows.append({**said, "hash": previous})
    connection.execute(_INSERT_AUDIT, rows)


def _append_events(
    connection: sa.Connection, organization_id: str, entries: Sequence[EventEntry], moment: str
) -> list[Event]:
    first = last_event(connection, organization_id) + 1
    made = [
        Event(
            number=number,
            name=entry.name,
            data=_plain(entry.data),
            at=moment,
            id=str(uuid.uuid4()),
            session=entry.session_id,
            user=entry.user_id,
        )
        for number, entry in enumerate(entries, first)
    ]
    rows = [_row(organization_id, event, entry) for event, entry in zip(made, entries, strict=True)]
    connection.execute(_INSERT_EVENTS, rows)
    return made


def _row(organization_id: str, event: Event, entry: EventEntry) -> dict[str, Any]:
    return {
        "organization_id": organization_id,
        "number": event.number,
        "id": event.id,
        "at": event.at,
        "user_id": event.user,
        "session_id": event.session,
        "name": event.name,
        "subject": entry.subject,
        "source": entry.source,
        "seconds": entry.seconds,
        "data": event.data,
    }


def _event(row: Any) -> Event:
    return Event(
        number=row.number,
        name=row.name,
        data=row.data,
        at=row.at,
        id=row.id,
        session=row.session_id,
        user=row.user_id,
    )


def _plain(value: dict[str, Any]) -> dict[str, Any]:
    """The value as it will be read again: tuples are lists by then, and numbers as keys are text."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (ValueError, TypeError) as error:
        raise Invalid(f"This cannot be kept in a log: {error}.", hint=PLAIN_HINT) from error
