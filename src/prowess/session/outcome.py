"""What came of a change in a session, and what is written down about it: audit rows and events."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from prowess.errors import ProwessError
from prowess.policy.actor import Actor
from prowess.session.session import EnabledSkill, Session
from prowess.session.sessions import found, session_of
from prowess.storage import ledger, sessions
from prowess.storage.ledger import AuditEntry, EventEntry
from prowess.storage.sessions import SessionRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The session after a change; `error` is what the caller raises once all is committed."""

    session: Session
    error: ProwessError | None = None
    audits: tuple[AuditEntry, ...] = ()
    events: tuple[EventEntry, ...] = ()

    def then(self, other: Outcome) -> Outcome:
        """The outcome of both, in order; the error is that of the first."""
        return replace(other, error=self.error, audits=self.audits + other.audits, events=self.events + other.events)

    def append(self, connection: sa.Connection) -> None:
        """Write it down; the last step of its transaction, since all others of the organization wait."""
        if self.audits or self.events:
            ledger.append(connection, self.session.organization, audits=self.audits, events=self.events)


def left(
    connection: sa.Connection, actor: Actor, row: SessionRow, skill: EnabledSkill, outcome: str, **detail: Any
) -> Outcome:
    """Take an enabled skill out of a locked session."""
    sessions.release(connection, row.id, skill.slug)
    after = session_of(connection, found(connection, actor, row.id))
    entry = audit_entry(actor, "disable", skill.slug, skill.digest, outcome, row.id, **detail)
    return Outcome(session=after, audits=(entry,), events=(state_changed(after, skill.slug),))


def state_changed(session: Session, slug: str) -> EventEntry:
    """The event of a skill that entered or left."""
    return EventEntry(
        name="skills_state_changed",
        data=session.state,
        session_id=session.id,
        user_id=session.user,
        subject=slug,
    )


def audit_entry(
    actor: Actor, action: str, slug: str, digest: str, outcome: str, session_id: str, **detail: Any
) -> AuditEntry:
    """The row about one skill in a session."""
    return AuditEntry(
        actor=actor.label,
        action=action,
        slug=slug,
        digest=digest,
        outcome=outcome,
        detail={"session_id": session_id, **detail},
    )
