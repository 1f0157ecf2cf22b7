"""Open, find, list, change and close sessions.

A session belongs to the actor who opened it; `viewer_of` says who else finds it. For everyone else it does not exist.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from prowess.errors import Invalid, NotFound, ProwessError, Refused
from prowess.lazy_dataclass import dataclass
from prowess.policy.actor import Actor
from prowess.policy.configuration import read_policy
from prowess.policy.roles import find_role
from prowess.session.session import Budget, EnabledSkill, Session
from prowess.storage import ledger, sessions
from prowess.storage.clock import seconds_from_now
from prowess.storage.database import Connections
from prowess.storage.ledger import EventEntry
from prowess.storage.sessions import FIRST_POSITION, SessionRow, SessionViewer

if TYPE_CHECKING:
    import sqlalchemy as sa

LIST_LIMIT = 200
_NAME_LIMIT = 200
_MARK_SECONDS = 24 * 60 * 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Sessions:
    """The sessions of the asking actor. Blocking; safe to use from many threads and processes."""

    records: Connections
    wake: Callable[[str], None] = lambda _: None
    """Notifies the subscribers of an organization after a write."""

    def open(
        self,
        actor: Actor,
        conversation: str = "",
        *,
        role: str = "",
        model: str = "",
        window: int | None = None,
        budget: int | None = None,
    ) -> Session:
        """Return the session of a conversation, or create it; without a name, always create one.

        Raise `Refused` for a budget above the organization's, except for a person with `admin`.
        """
        actor.require("skills.read")
        _check_values(conversation, model, window, budget)
        with self.records.write() as connection:
            policy = read_policy(connection, actor.organization)
            _check_budget(actor, budget, policy.skills_max_prompt_chars)
            if role:
                find_role(role, policy)
            found = sessions.open_session(
                connection,
                viewer_of(actor),
                conversation_id=conversation,
                role=role or actor.role,
                model=model,
                context_window=window,
                budget_max=policy.skills_max_prompt_chars if budget is None else budget,
            )
            return read_session(connection, found)

    def get(self, actor: Actor, session: str) -> Session:
        """Return a session by its id or conversation, or raise `NotFound`."""
        with self.records.read() as connection:
            row = find_session(connection, actor, session)
            found = read_session(connection, row)
        mark_used(self.records, row)
        return found

    def listed(
        self, actor: Actor, *, limit: int = LIST_LIMIT, after: tuple[str, str] = FIRST_POSITION
    ) -> list[Session]:
        """Return the open sessions, last changed first. `after` is the position of the last one on the page before."""
        with self.records.read() as connection:
            rows = sessions.list_sessions(connection, viewer_of(actor), limit=limit, after=after)
            return [read_session(connection, row) for row in rows]

    def count(self, actor: Actor) -> int:
        """Return the number of open sessions."""
        with self.records.read() as connection:
            return sessions.count_sessions(connection, viewer_of(actor))

    def change(
        self,
        actor: Actor,
        session: str,
        *,
        budget: int | None = None,
        model: str | None = None,
        window: int | None = None,
    ) -> Session:
        """Change the budget, the model or the window. A budget below the current use does not remove skills.

        Only an administrator raises a budget above that of the organization.
        """
        actor.require("skills.read")
        _check_values("", model or "", window, budget)
        with self.records.write() as connection:
            row = lock_open_session(connection, actor, session)
            limit = read_policy(connection, actor.organization).skills_max_prompt_chars
            # An administrator may have given this session more; others may keep that, and lower it.
            _check_budget(actor, budget, max(limit, row.budget_max))
            changed = sessions.change_session(
                connection, viewer_of(actor), row.id, budget_max=budget, model=model, context_window=window
            )
            after = read_session(connection, changed or row)
            if after.budget.limit != row.budget_max:
                ledger.append(connection, after.organization, events=(make_state_event(after),))
        self.wake(actor.organization)
        return after

    def close(self, actor: Actor, session: str) -> None:
        """End a session and disable everything in it."""
        actor.require("skills.read")
        with self.records.write() as connection:
            before = read_session(connection, find_session(connection, actor, session))
            if sessions.close_session(connection, viewer_of(actor), before.id) and before.enabled:
                after = replace(before, enabled=(), budget=replace(before.budget, used=0))
                ledger.append(connection, after.organization, events=(make_state_event(after),))
        self.wake(actor.organization)


def make_state_event(session: Session, slug: str = "") -> EventEntry:
    """Return the event for a skill that was enabled or left, or without a slug for a change of the whole session."""
    return EventEntry(
        name="skills_state_changed",
        data=session.state,
        session_id=session.id,
        user_id=session.user,
        subject=slug,
    )


def viewer_of(actor: Actor) -> SessionViewer:
    """Return whose sessions an actor finds: its own, and those it may be handed.

    A person finds all sessions of their user, with those of the agents that work for them. An agent in the application's own process finds those of its
    person, because the application opens them for it. An agent that comes in by a protocol names conversations itself,
    so it finds only its own.
    """
    shared: Literal["person", "all", ""] = "all" if actor.is_person else ""
    if actor.is_hosted:
        shared = "person"
    return SessionViewer(owner=actor.owner, actor=actor.label, kind=actor.kind, shared=shared)


def mark_used(records: Connections, row: SessionRow) -> None:
    """Record that an open session is used, once a day, so that it is not pruned as idle. Never raises."""
    if row.closed_at is None and row.updated_at < seconds_from_now(-_MARK_SECONDS):
        # Reading a session must not fail because the database cannot be written to.
        with suppress(ProwessError), records.write() as connection:
            sessions.mark_used(connection, row.id)


def find_session(connection: sa.Connection, actor: Actor, session: str) -> SessionRow:
    """Return the row of a session, or raise `NotFound`; a session of someone else gives the same error."""
    # PostgreSQL rejects NUL in a text; such a name is simply unknown.
    row = sessions.get_session(connection, viewer_of(actor), session) if session.isprintable() else None
    if row is None and session.startswith("default:"):
        raise NotFound("No skill is enabled in 'default'.", hint="Run `prowess enable SLUG` to enable one.")
    if row is None:
        raise NotFound(
            f"Session {session[:80]!r} not found.",
            hint="Run `prowess sessions` to list the sessions, or open it with `prowess sessions open`, in Python with "
            "`sessions.open`.",
        )
    return row


def find_open_session(connection: sa.Connection, actor: Actor, session: str) -> SessionRow:
    """Return the row of an open session; raise `Invalid` if it is closed."""
    row = find_session(connection, actor, session)
    if row.closed_at is not None:
        raise Invalid(
            f"The session {row.conversation_id[:80]!r} is closed.",
            hint="Run `prowess sessions open` to open it again or start a new one.",
        )
    return row


def lock_open_session(connection: sa.Connection, actor: Actor, session: str) -> SessionRow:
    """Lock an open session until the transaction ends, and return its row as it is then."""
    # The session is read again under the lock: another process may have closed it while this one waited. On SQLite the
    # whole transaction has waited already.
    if connection.dialect.name == "postgresql":
        sessions.lock_session(connection, find_session(connection, actor, session).id)
    return find_open_session(connection, actor, session)


def with_session_role(row: SessionRow | Session, actor: Actor) -> Actor:
    """Return the actor with the session's role, if it has none of its own."""
    return replace(actor, role=row.role) if row.role and not actor.role else actor


def read_session(connection: sa.Connection, row: SessionRow) -> Session:
    """Return the session of a row, with what is enabled in it."""
    enabled = tuple(
        EnabledSkill(
            slug=item.slug,
            title=item.title,
            digest=item.digest,
            scope=item.scope,
            source_type="registry" if item.source_type == "registry" else "catalog",
            content_length=item.content_length,
            tokens=item.detail.get("tokens", 0),
            approval=item.detail.get("approval_id", ""),
            by=item.detail.get("by", ""),
            by_admin=item.detail.get("by_admin") is True,
            place=item.detail.get("place", ""),
            rules=item.detail.get("rules", ""),
            trust=item.detail.get("trust", ""),
            enabled_at=item.enabled_at,
        )
        for item in sessions.list_enabled(connection, row.id)
    )
    return Session(
        id=row.id,
        conversation=row.conversation_id,
        organization=row.organization_id,
        user=row.user_id,
        actor=row.actor,
        role=row.role,
        model=row.model,
        window=row.context_window,
        budget=Budget(limit=row.budget_max, used=row.budget_used),
        enabled=enabled,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )


def _check_budget(actor: Actor, budget: int | None, limit: int) -> None:
    if budget is not None and budget > limit and not actor.admin:
        raise Refused(
            f"The budget {budget:,} is above the limit of {limit:,} for {actor.name}.",
            hint=f"Use at most {limit:,}, or ask an administrator to raise the limit.",
        )


def _check_values(conversation: str, model: str, window: int | None, budget: int | None) -> None:
    for what, name in (("conversation", conversation), ("model", model)):
        if len(name) > _NAME_LIMIT or not name.isprintable():
            raise Invalid(
                f"Invalid {what} name: use at most {_NAME_LIMIT} characters, without invisible ones.",
                hint="Use a plain name, for example `support-4711`.",
            )
    for name, value in (("window", window), ("budget", budget)):
        if value is None:
            continue
        if not isinstance(value, int):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise Invalid(f"The {name} must be a whole number, not {type(value).__name__}.")
        if not 0 <= value <= 1_000_000_000:
            raise Invalid(f"The {name} {value} is out of range.", hint="Use a number from 0 to 1,000,000,000.")
