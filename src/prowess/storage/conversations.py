"""Store conversations: their messages, who works on a turn, and remembered facts.

A turn is worked on by one holder of a lease at a time. Everything that a turn writes renews the lease in the same
transaction, and fails if another holder has it, so a process that hung cannot write into the turn that replaced its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import sqlalchemy as sa

from prowess.storage.clock import SKEW_SECONDS, now, seconds_from_now
from prowess.storage.driver_errors import reading
from prowess.storage.owner import Owner, owner_condition
from prowess.storage.rows import CompiledSelect, decode_object, make_row, raw_columns, raw_json, row_values
from prowess.storage.tables import dialect_insert, insert_row, make_table

ConversationState = Literal["idle", "running", "waiting", "stopped", "failed"]
MessageRole = Literal["user", "assistant", "tool"]

LEASE_SECONDS = 90.0
"""How long a turn is locked after its process died."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationRow:
    """One conversation: whose it is, its state, and what it has cost."""

    id: str
    organization_id: str = ""
    user_id: str = ""
    created_by: str
    title: str = ""
    turn: int = 0
    """The number of the last turn."""
    state: ConversationState = "idle"
    pending: dict[str, str] = field(default_factory=dict[str, str])
    """The ids of approvals, by the id of the call that waits."""
    lease: str = ""
    """Identifies who works on a turn; '' for nobody."""
    lease_until: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    created_at: str = field(default_factory=now)
    updated_at: str = field(default_factory=now)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRow:
    """One message of a conversation. `detail` has what else is known: a decision, the tokens, an outcome."""

    conversation_id: str
    number: int
    organization_id: str = ""
    turn: int
    role: MessageRole
    call_id: str = ""
    name: str = ""
    created_at: str = field(default_factory=now)
    calls: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    detail: dict[str, Any] = field(default_factory=dict[str, Any])
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRow:
    """One fact that is remembered for a user."""

    id: str
    organization_id: str = ""
    user_id: str = ""
    created_by: str
    created_at: str = field(default_factory=now)
    text: str


# A conversation is a session. It goes when retention deletes the session.
conversations = make_table(
    "conversations", ConversationRow, sa.ForeignKeyConstraint(["id"], ["sessions.id"], ondelete="CASCADE")
)
conversation_messages = make_table(
    "conversation_messages",
    MessageRow,
    sa.ForeignKeyConstraint(["conversation_id"], ["conversations.id"], ondelete="CASCADE"),
    key=("conversation_id", "number"),
)
memories = make_table("memories", MemoryRow)
_C, _M, _F = conversations.c, conversation_messages.c, memories.c
sa.Index("ix_conversations_updated", _C.organization_id, _C.user_id, _C.updated_at)
sa.Index("ix_memories_created", _F.organization_id, _F.user_id, _F.created_at)
_THIS = _C.id == sa.bindparam("which")
_insert = dialect_insert(conversations, lambda insert: insert.on_conflict_do_nothing())
_FREE = sa.or_(_C.lease == "", _C.lease_until < sa.bindparam("moment"), _C.lease_until > sa.bindparam("latest"))
_TAKE = sa.update(conversations).where(_THIS, _FREE)
_HELD = sa.update(conversations).where(_THIS, _C.lease == sa.bindparam("holder"))
# Every turn reads these, so they are compiled once, and their JSON is decoded without SQLAlchemy.
_GET = CompiledSelect(sa.select(*raw_columns(_C)).where(owner_condition(conversations), _THIS))
_LAST_MESSAGES = CompiledSelect(
    sa.select(*raw_columns(_M))
    .where(_M.conversation_id == sa.bindparam("which"), _M.number > sa.bindparam("after", type_=sa.Integer))
    .order_by(_M.number.desc())
    .limit(sa.bindparam("most", type_=sa.Integer))
)
_IN_CONVERSATION = _M.conversation_id == sa.bindparam("which")
_COUNT_MESSAGES = sa.select(sa.func.count()).where(_IN_CONVERSATION)
_LAST_QUESTION = (
    sa.select(raw_json(_M.detail)).where(_IN_CONVERSATION, _M.role == "user").order_by(_M.number.desc()).limit(1)
)
_LAST_FACTS = CompiledSelect(
    sa.select(memories)
    .where(owner_condition(memories))
    .order_by(_F.created_at.desc(), _F.id)
    .limit(sa.bindparam("most", type_=sa.Integer))
)
_INSERT_MESSAGE = sa.insert(conversation_messages)
_SET_DETAIL = sa.update(conversation_messages).where(
    _M.conversation_id == sa.bindparam("which"), _M.number == sa.bindparam("place")
)


def add_conversation(connection: sa.Connection, row: ConversationRow) -> None:
    """Store a conversation, unless it is there."""
    connection.execute(_insert(connection), row_values(row))


def get_conversation(connection: sa.Connection, owner: Owner, conversation_id: str) -> ConversationRow | None:
    """Return a conversation of the owner, or None."""
    found = _GET.first(connection, {**owner.key, "which": conversation_id})
    return None if found is None else _to_conversation(found)


def list_conversations(
    connection: sa.Connection, owner: Owner, *, created_by: str = "", limit: int
) -> list[ConversationRow]:
    """Return the owner's conversations, the last active first; with `created_by`, only those that this actor started."""
    query = sa.select(*raw_columns(_C)).where(owner_condition(conversations))
    query = query.where(_C.created_by == created_by) if created_by else query
    query = query.order_by(_C.updated_at.desc(), _C.id).limit(limit)
    return [_to_conversation(row) for row in connection.execute(query, owner.key)]


def _to_conversation(values: Sequence[Any]) -> ConversationRow:
    with reading(f"The conversation {values[0]}"):
        row = make_row(ConversationRow, values, ("pending",))
        if not all(isinstance(approval, str) for approval in cast("dict[str, Any]", row.pending).values()):
            raise TypeError("the id of an approval is not text")
    return row


def delete_conversation(connection: sa.Connection, owner: Owner, conversation_id: str) -> bool:
    """Delete a conversation with its messages; return False if the owner has none with this id."""
    query = sa.delete(conversations).where(owner_condition(conversations), _THIS)
    return connection.execute(query, {**owner.key, "which": conversation_id}).rowcount == 1


def set_title(connection: sa.Connection, owner: Owner, conversation_id: str, title: str) -> None:
    """Replace the title of a conversation of the owner. It stays where it is in the list."""
    query = sa.update(conversations).where(owner_condition(conversations), _THIS).values(title=title)
    connection.execute(query, {**owner.key, "which": conversation_id})


def take_lease(connection: sa.Connection, conversation_id: str, values: Mapping[str, Any]) -> bool:
    """Lock a conversation for a turn and change these columns, the holder of the lease among them.

    Return False, with nothing changed, if someone else works on a turn.
    """
    changed = {"lease_until": seconds_from_now(LEASE_SECONDS), "state": "running", **values}
    key = {"which": conversation_id, "moment": now(), "latest": seconds_from_now(SKEW_SECONDS)}
    return connection.execute(_TAKE, {**key, **changed}).rowcount == 1


def hold_lease(connection: sa.Connection, conversation_id: str, holder: str, values: Mapping[str, Any]) -> bool:
    """Renew the lease and change these columns; return False, with nothing changed, if the lease is lost."""
    changed = {"lease_until": seconds_from_now(LEASE_SECONDS), **values}
    return connection.execute(_HELD, {"which": conversation_id, "holder": holder, **changed}).rowcount == 1


def add_messages(connection: sa.Connection, rows: Sequence[MessageRow]) -> None:
    """Store messages."""
    if rows:
        values = [row_values(row) for row in rows]
        connection.execute(_INSERT_MESSAGE, values)


def set_detail(connection: sa.Connection, row: MessageRow) -> None:
    """Replace the detail of a message."""
    connection.execute(_SET_DETAIL, {"which": row.conversation_id, "place": row.number, "detail": row.detail})


def list_messages(connection: sa.Connection, conversation_id: str, *, limit: int, after: int = 0) -> list[MessageRow]:
    """Return the last messages of a conversation, oldest first; only those after a number."""
    newest = _LAST_MESSAGES.rows(connection, {"which": conversation_id, "most": limit, "after": after})
    return [_to_message(values) for values in reversed(newest)]


_CALL_FIELDS = frozenset({"id", "name", "arguments"})


def _to_message(values: Sequence[Any]) -> MessageRow:
    with reading(f"Message {values[1]} of the conversation {values[0]}"):
        row = make_row(MessageRow, values, ("calls", "detail"))
        calls, detail = cast("tuple[Any, Any]", (row.calls, row.detail))
        if not isinstance(calls, list) or not isinstance(detail, dict):
            raise TypeError("its calls or its detail are something else")
        if not all(call.keys() >= _CALL_FIELDS for call in row.calls):
            raise LookupError("a call lacks a field")
    return row


def page_messages(
    connection: sa.Connection,
    conversation_id: str,
    *,
    limit: int,
    beyond: int | None = None,
    newest_first: bool = False,
) -> tuple[list[MessageRow], int]:
    """Return the next messages beyond a number in the chosen order, and how many the conversation has."""
    query = sa.select(*raw_columns(_M)).where(_IN_CONVERSATION)
    if beyond is not None:
        query = query.where(_M.number < beyond if newest_first else _M.number > beyond)
    query = query.order_by(_M.number.desc() if newest_first else _M.number).limit(limit)
    key = {"which": conversation_id}
    messages = [_to_message(row) for row in connection.execute(query, key)]
    return messages, connection.execute(_COUNT_MESSAGES, key).scalar_one()


def last_question_detail(connection: sa.Connection, conversation_id: str) -> dict[str, Any]:
    """Return the detail of the last message of a person; {} if there is none."""
    found = connection.execute(_LAST_QUESTION, {"which": conversation_id}).scalar()
    return {} if found is None else decode_object(found, f"The last question of the conversation {conversation_id}")


def add_memory(connection: sa.Connection, row: MemoryRow) -> None:
    """Store a fact."""
    insert_row(connection, memories, row)


def list_memories(connection: sa.Connection, owner: Owner, *, limit: int) -> list[MemoryRow]:
    """Return the owner's facts, the newest first."""
    rows = _LAST_FACTS.rows(connection, {**owner.key, "most": limit})
    return [make_row(MemoryRow, row) for row in rows]


def delete_memories(connection: sa.Connection, owner: Owner, ids: Sequence[str]) -> int:
    """Delete facts of the owner by id; return how many there were."""
    query = sa.delete(memories).where(owner_condition(memories), _F.id.in_(ids))
    return connection.execute(query, owner.key).rowcount
