"""Read the events of one organization page by page, and keep the newest in memory for all subscribers."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from prowess.errors import ProwessError
from prowess.events import Event
from prowess.storage import ledger
from prowess.storage.database import Connections
from prowess.storage.database_url import database_exists


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """Selects events by name, session and user; everything by default."""

    names: tuple[str, ...] = ()
    session_id: str = ""
    user: str | None = None

    def takes(self, event: Event) -> bool:
        """Return True if the event matches."""
        return (
            (not self.names or event.name in self.names)
            and (not self.session_id or event.session == self.session_id)
            and (self.user is None or event.user == self.user)
        )


ALL_EVENTS = EventFilter()


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPage:
    """Events in order, and the number of the last event that was looked at to find them."""

    events: Sequence[Event]
    position: int


class EventLog:
    """Reads the events of one organization. Blocking. A database that does not exist is an empty log and is not created."""

    def __init__(self, database: Connections, organization_id: str) -> None:
        self.location = database.location
        self._database = database
        self._organization = organization_id

    def last(self) -> int:
        """Return the number of the newest event, or 0."""
        if not database_exists(self._database.url):
            return 0
        with self._database.read() as connection:
            return ledger.last_event(connection, self._organization)

    def page(self, after: int, limit: int, wanted: EventFilter = ALL_EVENTS) -> EventPage:
        """Return at most `limit` matching events after a number.

        A log that ends before `after` has been replaced by another one (a restored backup), so it is read from the start.
        """
        if not database_exists(self._database.url):
            return EventPage(events=(), position=after)
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
        # Both queries saw one state, and numbers are assigned in commit order: nothing up to `last` is missing.
        return EventPage(events=found, position=found[-1].number if found and len(found) >= limit else last)


class CrossThreadEvent:
    """An event that any thread can set and one task waits for. Create it in the loop of that task."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._rung = False

    def ring(self) -> None:
        """Wake the task, from any thread. Does nothing if its loop is closed."""
        # One callback until the next reset is enough; a busy log would otherwise flood the queue of the loop.
        if self._rung:
            return
        self._rung = True
        try:
            self._loop.call_soon_threadsafe(self._event.set)
        except RuntimeError:
            return

    def reset(self) -> None:
        """Clear the event. Call it before looking for events, so that none between the look and `wait` is missed."""
        self._rung = False
        self._event.clear()

    async def wait(self, seconds: float | None = None) -> None:
        """Wait until `ring` was called since the last reset, or until the timeout."""
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return


log = logging.getLogger(__name__)

TAIL_EVENTS = 256
"""How many events are kept in memory; slower subscribers read the table."""

FALLBACK_POLL_SECONDS = 5.0
"""How often the log is read without a wake-up, in case one was lost."""

_FIRST_DELAY = 0.05


class EventTail:
    """Reads each event once for all subscribers, who take what is new at their own pace.

    Memory stays bounded: a slow subscriber reads what it missed from the table.
    """

    def __init__(self, events: EventLog) -> None:
        self._log = events
        self._lock = threading.Lock()
        self._bells: set[CrossThreadEvent] = set()
        self._events: deque[Event] = deque(maxlen=TAIL_EVENTS)
        self._position: int | None = None
        self._rung = threading.Event()
        self._stopped = False
        self._delay = _FIRST_DELAY
        self._thread = threading.Thread(target=self._run, name="prowess-events", daemon=True)
        self.ring = self._rung.set

    def start(self) -> None:
        """Start reading at the current end of the log."""
        self._rung.set()
        self._thread.start()

    def stop(self) -> None:
        """Stop reading, and wake everybody who waits."""
        self._stopped = True
        self._rung.set()
        self._ring_bells()

    def join(self, seconds: float) -> None:
        """Wait for the thread to end."""
        if self._thread is not threading.current_thread():
            self._thread.join(seconds)

    @property
    def alive(self) -> bool:
        """True while the thread runs."""
        return self._thread.is_alive()

    @property
    def stopped(self) -> bool:
        """True once `stop` was called."""
        return self._stopped

    def add(self, bell: CrossThreadEvent) -> None:
        """Set this event whenever there is something new."""
        with self._lock:
            self._bells.add(bell)

    def remove(self, bell: CrossThreadEvent) -> bool:
        """Remove a subscriber; return True if others are left."""
        with self._lock:
            self._bells.discard(bell)
            return bool(self._bells)

    def after(self, position: int) -> EventPage | None:
        """Return what came after a position; None if that must be read from the table."""
        with self._lock:
            if self._position is None or not self._position - len(self._events) <= position <= self._position:
                return None
            # Numbers have no gaps, so the distance to the first event in memory is its index.
            first = position - (self._position - len(self._events))
            return EventPage(events=tuple(islice(self._events, first, None)), position=self._position)

    def _run(self) -> None:
        seconds = 0.0
        while True:
            self._rung.wait(seconds)
            self._rung.clear()
            if self._stopped:
                return
            seconds = self._look()

    def _look(self) -> float:
        """Read what is new; return how long to wait for a wake-up before the next look."""
        try:
            while self._advance():
                pass
        except Exception as error:  # noqa: BLE001  (if this thread ended, all subscribers would wait forever)
            return self._log_failure(error)
        self._delay = _FIRST_DELAY
        return FALLBACK_POLL_SECONDS

    def _log_failure(self, error: Exception) -> float:
        known = isinstance(error, ProwessError)
        # One warning per outage; retries are logged for debugging only.
        level = logging.WARNING if self._delay == _FIRST_DELAY else logging.DEBUG
        log.log(level, "Failed to read events from %s: %s", self._log.location, error, exc_info=not known)
        self._delay = min(self._delay * 2, FALLBACK_POLL_SECONDS)
        return self._delay

    def _advance(self) -> bool:
        """Read one page; return True if there may be another."""
        if self._position is None:
            self._begin(self._log.last())
            return False
        page = self._log.page(self._position, TAIL_EVENTS)
        if page.position < self._position or len(page.events) != page.position - self._position:
            # Numbers have no gaps: if fewer events came than the number grew by, the log was replaced by another one.
            self._begin(page.position)
        elif page.events:
            with self._lock:
                self._events.extend(page.events)
                self._position = page.position
            self._ring_bells()
        return len(page.events) == TAIL_EVENTS

    def _begin(self, position: int) -> None:
        with self._lock:
            self._events.clear()
            self._position = position
        self._ring_bells()

    def _ring_bells(self) -> None:
        with self._lock:
            bells = tuple(self._bells)
        for bell in bells:
            bell.ring()
