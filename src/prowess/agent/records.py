"""Read and write conversations for one actor. Blocking.

A conversation belongs to the user of an organization. For everyone else it does not exist.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from prowess.agent.calls import not_made
from prowess.agent.conversation import Conversation, ConversationMessage, to_conversation, to_message
from prowess.agent.journal import Journal, open_calls, storable
from prowess.agent.memory import MAX_FACTS
from prowess.engine.context import Part
from prowess.engine.records import read_rows
from prowess.errors import Conflict, Invalid, NotFound
from prowess.policy.actor import Actor
from prowess.policy.configuration import read_policy
from prowess.policy.organization import OrgPolicy
from prowess.policy.text import clean_text
from prowess.session.session import Session
from prowess.session.sessions import find_open_session, find_session, read_session
from prowess.storage import conversations
from prowess.storage.clock import now
from prowess.storage.conversations import ConversationRow, MessageRow
from prowess.storage.ledger import EventEntry, append

HISTORY_MESSAGES = 2_000
"""How many messages of a conversation a turn reads: more than a turn can have, by the limits of steps and calls."""
EXPORT_MESSAGES = 100_000
_TITLE_CHARS = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunTurn:
    """A turn that this process may work on: the session and the journal of its conversation, and the policy as it starts."""

    session: Session
    journal: Journal
    policy: OrgPolicy
    facts: tuple[str, ...] = ()
    """What is remembered for the user, the newest first, if it was asked for."""


class ConversationRecords(Part):
    """The conversations of the context's actor. An agent finds only those that it started."""

    def open(self, session: Session, title: str) -> Conversation:
        """Return the conversation of a session; create it if necessary."""
        with self._context.resources.records().write() as connection:
            row = self._ensure(connection, session, clean_text(title.strip(), limit=_TITLE_CHARS))
        return to_conversation(row, session)

    def find(self, conversation: str, *, limit: int = 0, after: int = 0) -> Conversation:
        """Return a conversation by its id or name, with its last messages after a number; raise `NotFound`."""
        with self._context.resources.records().read() as connection:
            session = self._find_session(connection, conversation)
            row = self._get(connection, session)
            messages = conversations.list_messages(connection, session.id, limit=limit, after=after) if limit else []
            ended = row.state in ("failed", "stopped")
            detail = conversations.last_question_detail(connection, session.id) if ended else {}
        return to_conversation(row, session, tuple(messages), error=detail.get("error"))

    def page(
        self, conversation: str, *, limit: int, beyond: int | None = None, newest_first: bool = False
    ) -> tuple[list[ConversationMessage], int]:
        """Return the next messages of a conversation beyond a number, and how many it has; raise `NotFound`."""
        with self._context.resources.records().read() as connection:
            found = self._get(connection, self._find_session(connection, conversation)).id
            rows, total = conversations.page_messages(
                connection, found, limit=limit, beyond=beyond, newest_first=newest_first
            )
        return [to_message(row) for row in rows], total

    def rename(self, conversation: str, title: str) -> Conversation:
        """Replace the title of a conversation; raise `NotFound`, or `Invalid` for an empty title."""
        chosen = _make_title(title)
        if not chosen:
            raise Invalid("The title is empty.", hint="Give a title of one or more characters.")
        found = replace(self.find(conversation), title=chosen)
        with self._context.resources.records().write() as connection:
            conversations.set_title(connection, self._context.actor.owner, found.id, chosen)
            self._announce(connection, found, "renamed")
        self._context.resources.wake(self._context.actor.organization)
        return found

    def announce(self, conversation: Conversation, change: str) -> None:
        """Publish that a conversation was changed."""
        with self._context.resources.records().write() as connection:
            self._announce(connection, conversation, change)
        self._context.resources.wake(self._context.actor.organization)

    def _announce(self, connection: sa.Connection, conversation: Conversation, change: str) -> None:
        data = {"conversation": conversation.id, "change": change, "title": conversation.title}
        actor = self._context.actor
        event = EventEntry(name="conversation_changed", data=data, session_id=conversation.id, user_id=actor.user)
        append(connection, actor.organization, events=[event])

    def list(self, limit: int) -> list[Conversation]:
        """Return conversations without their messages, the last active first."""
        actor = self._context.actor
        actor.require("skills.read")

        def read(connection: sa.Connection) -> list[Conversation]:
            by = "" if actor.is_person else actor.label
            rows = conversations.list_conversations(connection, actor.owner, created_by=by, limit=limit)
            return [to_conversation(row, self._find_session(connection, row.id)) for row in rows]

        return read_rows(self._context, read, [])

    def delete(self, conversation: str) -> Conversation:
        """Delete a conversation with its messages; raise `Conflict` while a turn runs."""
        found = self.find(conversation)
        if found.state == "running":
            raise _busy(found.id)
        with self._context.resources.records().write() as connection:
            conversations.delete_conversation(connection, self._context.actor.owner, found.id)
            self._announce(connection, found, "deleted")
        self._context.resources.wake(self._context.actor.organization)
        return found

    def begin(self, conversation: str, agent: Actor, message: str, *, facts: bool = False) -> BegunTurn:
        """Lock a conversation for a turn and store the message; '' continues with the last turn.

        With `facts`, also read what is remembered for the user. Raise `NotFound`, `Invalid` for a closed session, or `Conflict` if another turn runs.
        """
        resources = self._context.resources
        records = resources.records()
        with records.write() as connection:
            key = self._context.session_key(conversation)
            found = find_open_session(connection, self._context.actor, key)
            # The agent must find it too: a session of another agent is not its own to work in.
            find_session(connection, agent, found.id)
            session = read_session(connection, found)
            row = self._ensure(connection, session, _make_title(message))
            changes: dict[str, Any] = {"lease": str(uuid.uuid4())}
            if message:
                changes |= {"turn": row.turn + 1, "pending": {}, "updated_at": now()}
                changes |= {} if row.title else {"title": _make_title(message)}
            if not conversations.take_lease(connection, row.id, changes):
                raise _busy(row.id)
            messages = _whole_turns(conversations.list_messages(connection, row.id, limit=HISTORY_MESSAGES))
            if not message and not messages:
                raise NotFound("This conversation has no message to continue from.", hint="Send a message first.")
            row = replace(row, **changes)
            added = _make_question(row, messages, resources.runner.redact(message)) if message else []
            conversations.add_messages(connection, added)
            # Here, because a transaction of their own would take longer.
            policy = read_policy(connection, self._context.actor.organization)
            owner = self._context.actor.owner
            known = conversations.list_memories(connection, owner, limit=MAX_FACTS) if facts else []
        # Opens the connection that answers what every turn asks again, if the database is a file.
        resources.answers.committed()
        journal = Journal(
            records=records, row=row, holder=row.lease, messages=[*messages, *added], redact=resources.runner.redact
        )
        if "error" in journal.question.detail:  # the turn continues
            journal.note_detail({name: value for name, value in journal.question.detail.items() if name != "error"})
        return BegunTurn(session=session, journal=journal, policy=policy, facts=tuple(fact.text for fact in known))

    def _ensure(self, connection: sa.Connection, session: Session, title: str) -> ConversationRow:
        owner = self._context.actor.owner
        found = conversations.get_conversation(connection, owner, session.id)
        if found is None:
            row = ConversationRow(
                id=session.id,
                organization_id=owner.organization_id,
                user_id=owner.user_id,
                created_by=self._context.actor.label,
                title=title,
            )
            conversations.add_conversation(connection, row)
            found = self._get(connection, session)
        return found

    def _get(self, connection: sa.Connection, session: Session) -> ConversationRow:
        row = conversations.get_conversation(connection, self._context.actor.owner, session.id)
        if row is None:
            raise _unknown(session.conversation)
        return row

    def _find_session(self, connection: sa.Connection, conversation: str) -> Session:
        key = self._context.session_key(conversation)
        try:
            return read_session(connection, find_session(connection, self._context.actor, key))
        except NotFound:
            raise _unknown(conversation) from None


_AGAIN = "Call it again if it is still needed."


def _whole_turns(messages: list[MessageRow]) -> list[MessageRow]:
    """Return the messages from the first turn on that is whole: a model API rejects a result without its call."""
    first = next((index for index, one in enumerate(messages) if one.role == "user"), 0)
    return messages[first:]


def _make_question(row: ConversationRow, messages: list[MessageRow], text: str) -> list[MessageRow]:
    """Return the person's message, after results for calls that the last turn left without."""
    last = messages[-1].number if messages else 0
    # A model API rejects a call without a result.
    answer = json.dumps(not_made("not-made", "The user wrote another message before this call had a result.", _AGAIN))
    added = [
        _message(row, last + index, messages[-1].turn, role="tool", call_id=call.id, name=call.name, text=answer)
        for index, call in enumerate(open_calls(messages), 1)
    ]
    return [*added, _message(row, last + len(added) + 1, row.turn, role="user", text=storable(text))]


def _message(row: ConversationRow, number: int, turn: int, **fields: Any) -> MessageRow:
    return MessageRow(conversation_id=row.id, organization_id=row.organization_id, number=number, turn=turn, **fields)


def _make_title(message: str) -> str:
    return clean_text(" ".join(message.split()), limit=_TITLE_CHARS)


def _unknown(conversation: str) -> NotFound:
    return NotFound(
        f"Conversation {conversation[:80]!r} not found.", hint="Run `prowess conversations` to list the conversations."
    )


def _busy(conversation: str) -> Conflict:
    return Conflict(
        f"The conversation {conversation[:80]} is answering another message.",
        hint="Wait until it is done, and try again.",
    )
