"""Store sessions: one row per conversation of an actor, the skills it has enabled, and the budget they use.

A conversation belongs to the actor who opened it. Two agents that use the same name for a conversation have two sessions,
and neither can find the other's, also not by its id.

`budget_used` is the sum of the characters of the enabled blocks after every transaction. It grows by one guarded
statement, which fails if the budget would be exceeded, and only together with the row that it pays for. Every change
locks the session first, so that callers in other threads and processes wait for each other and cannot deadlock.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from prowess.lazy_dataclass import dataclass
from prowess.storage.clock import now
from prowess.storage.owner import Owner
from prowess.storage.rows import LazyStatements, decode_json, make_row
from prowess.storage.seals import seals_of

if TYPE_CHECKING:
    import sqlalchemy as sa

    from prowess.storage.sql import sessions as sql
else:
    sql = LazyStatements("sessions")

FIRST_POSITION = ("9999", "")  # before all sessions in a list: later than any time


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionViewer:
    """Which sessions are visible: those of an actor, by its label; with `shared` also those of the owner's persons, or all."""

    owner: Owner
    actor: str
    kind: Literal["person", "agent"]
    shared: Literal["person", "all", ""] = ""

    @property
    def key(self) -> dict[str, str]:
        """The parameters of the conditions above."""
        return {**self.owner.key, "viewer": self.actor, "shared": self.shared}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRow:
    """One session; `closed_at` is None while it is open."""

    id: str
    organization_id: str
    user_id: str
    conversation_id: str
    actor: str
    actor_kind: str
    role: str
    model: str
    context_window: int | None
    budget_max: int
    budget_used: int
    created_at: str
    updated_at: str
    closed_at: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EnabledRow:
    """One enabled skill. Storing it sets `position`, `content_length` and `enabled_at`.

    `content_length` counts the characters of the block that enters the prompt.
    """

    slug: str
    title: str
    digest: str
    scope: str
    source_type: str
    origin: str
    detail: dict[str, Any] = field(default_factory=dict[str, Any])
    position: int = 0
    content_length: int = 0
    enabled_at: str = ""


class EnabledBlock(NamedTuple):
    """One enabled skill with the block that enters the prompt; `intact` is False if the row was changed outside Prowess."""

    row: EnabledRow
    content: str
    intact: bool


def open_session(
    connection: sa.Connection,
    viewer: SessionViewer,
    *,
    conversation_id: str,
    role: str,
    model: str,
    context_window: int | None,
    budget_max: int,
) -> SessionRow:
    """Return the open session of this conversation that is visible to the viewer; create or reopen it with these values if needed.

    A session that is reopened without a role keeps its role. Concurrent callers get the same session. Without a
    conversation ('') a new session is created, whose id is also its conversation.
    """
    found = get_session(connection, viewer, conversation_id) if conversation_id else None
    if found is not None and found.closed_at is None:
        return found
    moment = now()
    values: dict[str, Any] = {
        "role": role,
        "model": model,
        "context_window": context_window,
        "budget_max": budget_max,
        "updated_at": moment,
    }
    if found is None:
        new_id = str(uuid.uuid4())
        owned = {**viewer.owner.columns, "actor": viewer.actor, "actor_kind": viewer.kind}
        name = conversation_id or new_id
        new = {**owned, **values, "id": new_id, "conversation_id": name, "budget_used": 0, "created_at": moment}
        # The insert does nothing if another caller has just created the session, which is then read below.
        if sql.INSERT.run(connection, [new]):
            return _get(connection, viewer, name)
        found = _get(connection, viewer, name)
    # Another caller may have created it, and even closed it again, in the meantime.
    unchanged = {} if role else {"role": sql.sessions.c.role}  # leaving the role out must not lift its limits
    connection.execute(sql.REOPEN.values(**{**values, **unchanged}, closed_at=None), {"which": found.id})
    return _get(connection, viewer, found.id)


def _get(connection: sa.Connection, viewer: SessionViewer, which: str) -> SessionRow:
    [found] = sql.FIND.rows(connection, {**viewer.key, "which": which})
    return make_row(SessionRow, found)


def get_session(connection: sa.Connection, viewer: SessionViewer, session_id_or_conversation: str) -> SessionRow | None:
    """Return the session with that id, or else with that conversation; None if the viewer has none."""
    found = sql.FIND.first(connection, {**viewer.key, "which": session_id_or_conversation})
    return make_row(SessionRow, found) if found else None


def list_sessions(
    connection: sa.Connection, viewer: SessionViewer, *, limit: int, after: tuple[str, str] = FIRST_POSITION
) -> list[SessionRow]:
    """Return the open sessions that the viewer sees, last changed first, starting after a last change and id."""
    key = {**viewer.key, "most": limit, "changed": after[0], "last": after[1]}
    return [make_row(SessionRow, row) for row in sql.LIST.rows(connection, key)]


def count_sessions(connection: sa.Connection, viewer: SessionViewer) -> int:
    """Return how many open sessions the viewer sees."""
    [(number,)] = sql.COUNT.rows(connection, viewer.key)
    return number


def change_session(
    connection: sa.Connection,
    viewer: SessionViewer,
    session_id: str,
    *,
    budget_max: int | None = None,
    model: str | None = None,
    context_window: int | None = None,
    role: str | None = None,
) -> SessionRow | None:
    """Change the given values of an open session and return it; None if the viewer has none with that id.

    A budget below its current use removes no skill; it only prevents enabling more.
    """
    settings = {"budget_max": budget_max, "model": model, "context_window": context_window, "role": role}
    values = {name: value for name, value in settings.items() if value is not None}
    key = {**viewer.key, "which": session_id}
    changed = connection.execute(sql.CHANGE.values(**values, updated_at=now()), key).rowcount
    return get_session(connection, viewer, session_id) if changed else None


def close_session(connection: sa.Connection, viewer: SessionViewer, session_id: str) -> bool:
    """Close a session: remove its skills and keep its row. Return False if the viewer has no open one with that id."""
    # This also locks the row, so that no skill is enabled between the two statements.
    closed = connection.execute(sql.CLOSE, {**viewer.key, "which": session_id, "moment": now()}).rowcount == 1
    if closed:
        connection.execute(sql.REMOVE_ALL, {"which": session_id})
    return closed


def mark_used(connection: sa.Connection, session_id: str) -> None:
    """Record that an open session is used, so that it is not pruned as idle."""
    sql.MARK_USED.run(connection, [{"which": session_id, "moment": now()}])


def list_enabled(connection: sa.Connection, session_id: str) -> list[EnabledRow]:
    """Return the enabled skills of a session in order, without their texts."""
    rows = sql.ENABLED.rows(connection, {"which": session_id})
    return [_enabled_row(row) for row in rows]


def list_contents(connection: sa.Connection, session_id: str) -> list[EnabledBlock]:
    """Return the enabled skills of a session, each with the block that enters the prompt."""
    seals = seals_of(connection)
    found: list[EnabledBlock] = []
    for *values, content, seal in sql.CONTENTS.rows(connection, {"which": session_id}):
        row = _enabled_row(values)
        intact = seals.check(str(seal), 0, _sealed(session_id, row, content)) == "valid"
        found.append(EnabledBlock(row, content, intact))
    return found


def _enabled_row(values: Sequence[Any]) -> EnabledRow:
    """Return a row. A document that another program damaged is empty, so that the seal does not match."""
    row = make_row(EnabledRow, values)
    try:
        return replace(row, detail=dict(decode_json(row.detail)))
    except (ValueError, TypeError):
        return replace(row, detail={})


def reserve(
    connection: sa.Connection, session_id: str, row: EnabledRow, content: str
) -> Literal["done", "over", "there", "gone"]:
    """Enable a skill with this block if the whole block fits the budget.

    Return `over` if it does not fit, `there` if that digest is enabled already, and `gone` if there is no such open
    session; nothing changes then. Another digest of the same slug is replaced by this one.
    """
    if not lock_session(connection, session_id):
        return "gone"
    stored = sql.STORED.first(connection, {"which": session_id, "of": row.slug})
    if stored is not None:
        return "there" if stored[0] == row.digest else _exchange(connection, session_id, row, content, stored[1])
    if not _change_budget(connection, session_id, len(content)):
        return "over"
    values = {**_values(connection, session_id, row, content), "slug": row.slug, "enabled_at": now()}
    sql.ADD.run(connection, [{**values, "session_id": session_id, "which": session_id}])
    return "done"


def exchange(
    connection: sa.Connection, session_id: str, row: EnabledRow, content: str
) -> Literal["done", "over", "gone"]:
    """Replace the digest and block of an enabled slug, at its position, if the difference fits the budget.

    Return `over` if it does not fit (a shorter block always does), and `gone` if the slug is not enabled.
    """
    is_open = lock_session(connection, session_id)
    stored = sql.STORED.first(connection, {"which": session_id, "of": row.slug}) if is_open else None
    return "gone" if stored is None else _exchange(connection, session_id, row, content, stored[1])


def release(connection: sa.Connection, session_id: str, slug: str) -> int | None:
    """Disable a skill and return how many characters that freed; None if it was not enabled."""
    if not lock_session(connection, session_id):
        return None
    key = {"which": session_id, "of": slug}
    stored = sql.STORED.first(connection, key)
    if stored is None:
        return None
    sql.REMOVE.run(connection, [key])
    _change_budget(connection, session_id, -stored[1])
    return stored[1]


def lock_session(connection: sa.Connection, session_id: str) -> bool:
    """Lock an open session against other writers until the transaction ends; return False if it does not exist.

    On SQLite this only checks that: it has one writer at a time anyway.
    """
    return sql.LOCK.first(connection, {"which": session_id}) is not None


def _change_budget(connection: sa.Connection, session_id: str, characters: int) -> bool:
    """Reserve characters of the budget, or free them if negative; return False if they do not fit.

    One guarded UPDATE, so that concurrent callers cannot exceed the budget together.
    """
    return sql.TAKE.run(connection, [{"which": session_id, "by": characters, "moment": now()}]) == 1


def _exchange(
    connection: sa.Connection, session_id: str, row: EnabledRow, content: str, before: int
) -> Literal["done", "over"]:
    if not _change_budget(connection, session_id, len(content) - before):
        return "over"
    values = _values(connection, session_id, row, content)
    sql.REPLACE.run(connection, [{**values, "which": session_id, "of": row.slug}])
    return "done"


def _sealed(session_id: str, row: EnabledRow, content: str) -> tuple[str, ...]:
    """Return the values that the seal of a row covers: everything that decides what enters the prompt, and who approved it."""
    detail = json.dumps(row.detail, sort_keys=True)
    return (session_id, row.slug, row.title, row.digest, row.scope, row.source_type, row.origin, detail, content)


def _values(connection: sa.Connection, session_id: str, row: EnabledRow, content: str) -> dict[str, Any]:
    return {
        **{name: getattr(row, name) for name in ("title", "digest", "scope", "source_type", "origin", "detail")},
        "content_length": len(content),
        "content": content,
        "seal": seals_of(connection).make(_sealed(session_id, row, content)),
    }
