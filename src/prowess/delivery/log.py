"""The log of events of one organization, read page by page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from prowess.events import Event
from prowess.storage import ledger
from prowess.storage.database import Connections
from prowess.storage.location import database_exists


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which events somebody wants: every one, unless names, a session or a user are said."""

    names: tuple[str, ...] = ()
    session_id: str = ""
    user: str | None = None

    def takes(self, event: Event) -> bool:
        """Whether it is one of them."""
        return (
            (not self.names or event.name in self.names)
            and (not self.session_id or event.session == self.session_id)
            and (self.user is None or event.user == self.user)
        )


EVERYTHING = Wanted()


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Events in order, and the position up to which the log was looked through for them."""

    events: Sequence[Event]
    position: int


class EventLog:
    """Blocking; a database that nobody made yet is a log without events, and is not made by reading it."""

    def __init__(self, database: Connections, organization_id: str) -> None:
        self.location = database.location
        self._database = database
        self._organization = organization_id

    def last(self) -> int:
        """The number of the newest event, 0 where there is none."""
        if not database_exists(self._database.url):
            return 0
        with self._database.read() as connection:
            return ledger.last_event(connection, self._organization)

    def page(self, after: int, limit: int, wanted: Wanted = EVERYTHING) -> Page:
        """At most `limit` events that are wanted, from `after` on.

        A log that ends before `after` is not the one in which that position was, but one that was put in its place:
        it is read from its beginning.
        """
        if not database_exists(self._database.url):
            return Page(events=(), position=after)
        with self._database.read() as connection:
            last = ledger.last_event(connection, self._organization)
            after = after if after <= last else 0
            found = ledger.read_events(
                connection,
                self._organization,
                after=after,
                limit=limit,
                names=wanted.names,
                session_id=wanted.session_id,
                user_id=wanted.user,
            )
        # Both queries saw one state, and numbers are given in the order of commit: up to `last` nothing is missing.
        return Page(events=found, position=found[-1].number if found and len(found) >= limit else last)
