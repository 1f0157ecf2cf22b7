"""Read the events of one organization page by page, and keep the newest in memory for all subscribers."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from prowess.errors import ProwessError
from prowess.events import EVENTS_PRUNED, SHARED_EVENTS, Event
from prowess.storage import ledger
from prowess.storage.clock import now
from prowess.storage.database import Connections
from prowess.storage.database_url import database_exists

if TYPE_CHECKING:
    import asyncio


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
            and (self.user is None or event.user == self.user or (not event.user and event.name in SHARED_EVENTS))
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

    def first(self) -> int:
        """Return the number of the oldest event that is kept, or 1."""
        if not database_exists(self._database.url):
            return 1
        with self._database.read() as connection:
            return ledger.first_event(connection, self._organization)

    def page(
        self, after: int, limit: int, event_filter: EventFilter = ALL_EVENTS, *, report_pruned: bool = False
    ) -> EventPage:
        """Return at most `limit` matching events after a number.

        A log that ends before `after` has been replaced by another one (a restored backup), so it is read from the start.
        With `report_pruned`, an event `events_pruned` takes the place of events after that number which are no longer kept.
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
                names=event_filter.names,
                session_id=event_filter.session_id,
                user_id=event_filter.user,
            )
            first = ledger.first_event(connection, self._organization) if report_pruned else 1
        # All queries saw one state, and numbers are assigned in commit order: nothing up to `last` is missing.
        position = found[-1].number if found and len(found) >= limit else last
        if after < first - 1:
            found.insert(0, _pruned_event(after, first))
        return EventPage(events=found, position=position)


def _pruned_event(after: int, first: int) -> Event:
    # Its number is that of the last missing event, so that anyone who resumes there gets the first one that is kept.
    return Event(number=first - 1, name=EVENTS_PRUNED, data={"after": after, "first": first}, at=now())


class CrossThreadEvent:
    """An event that any thread can set and one task waits for. Create it in the loop of that task."""

    def __init__(self) -> None:
        import asyncio  # only those who wait for events need an event loop

        self.loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._rung = False
        self.set = self._event.set

    def ring(self) -> None:
        """Wake the task, from any thread. Does nothing if its loop is closed."""
        ring_all([self])

    def mark(self) -> bool:
        """Return True the first time after a reset: one callback until then is enough, even for a busy log."""
        first, self._rung = not self._rung, True
        return first

    def reset(self) -> None:
        """Clear the event. Call it before looking for events, so that none between the look and `wait` is missed."""
        self._rung = False
        self._event.clear()

    async def wait(self, seconds: float | None = None) -> None:
        """Wait until `ring` was called since the last reset, or until the timeout."""
        from asyncio import timeout

        try:
            async with timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return


def ring_all(bells: Iterable[CrossThreadEvent]) -> None:
    """Set these events, from any thread. Those whose loop is closed are left out."""
    # One callback per loop: each call wakes the loop through a pipe, which is slow for hundreds of subscribers.
    by_loop: dict[asyncio.AbstractEventLoop, list[CrossThreadEvent]] = {}
    for bell in bells:
        if bell.mark():
            by_loop.setdefault(bell.loop, []).append(bell)
    for loop, some in by_loop.items():
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_set_all, some)


def _set_all(bells: Sequence[CrossThreadEvent]) -> None:
    for bell in bells:
        bell.set()


log = logging.getLogger(__name__)

TAIL_EVENTS = 1_000
"""How many events are kept in memory; slower subscribers read the table. More than one recorder writes at a time."""

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
        """Stop reading, and wake everyone who waits."""
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

    @property
    def position(self) -> int:
        """The number of the newest event that was read, or 0."""
        return self._position or 0

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
        ring_all(bells)
