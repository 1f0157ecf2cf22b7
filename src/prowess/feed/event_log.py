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


ALL_EVENTS = EventFilter()


@dataclass(frozen=True, slots=True, kw_only=True)
class EventPage:
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

    def page(self, after: int, limit: int, wanted: EventFilter = ALL_EVENTS) -> EventPage:
        """At most `limit` events that are wanted, from `after` on.

        A log that ends before `after` is not the one in which that position was, but one that was put in its place:
        it is read from its beginning.
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
        # Both queries saw one state, and numbers are given in the order of commit: up to `last` nothing is missing.
        return EventPage(events=found, position=found[-1].number if found and len(found) >= limit else last)


class CrossThreadEvent:
    """Made by the task that waits, in its loop. Many rings before the task looks are one."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._heard = asyncio.Event()
        self._rung = False

    def ring(self) -> None:
        """Wake the task, from any thread; a loop that is closed has nobody to wake."""
        if self._rung:
            return
        self._rung = True
        try:
            self._loop.call_soon_threadsafe(self._heard.set)
        except RuntimeError:
            return

    def reset(self) -> None:
        """Forget the rings so far: what is looked at from now on is newer than them."""
        self._rung = False
        self._heard.clear()

    async def wait(self, seconds: float | None = None) -> None:
        """Wait for a ring since the last reset, or so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._heard.wait()
        except TimeoutError:
            return


log = logging.getLogger(__name__)

TAIL_EVENTS = 256
"""So many events are kept; who is further behind reads the table."""

FALLBACK_POLL_SECONDS = 5.0
"""After so long the log is looked at, though nobody rang."""

_FIRST_DELAY = 0.05


class EventTail:
    """Reads each event once, however many follow; each takes what is new for it, at its own pace.

    What waits for a slow follower is in the table, not here.
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
        """Begin to read, at the end that the log has now."""
        self._rung.set()
        self._thread.start()

    def stop(self) -> None:
        """Read no more, and let nobody wait for more."""
        self._stopped = True
        self._rung.set()
        self._ring_bells()

    def join(self, seconds: float) -> None:
        """Wait until the thread has ended."""
        if self._thread is not threading.current_thread():
            self._thread.join(seconds)

    @property
    def alive(self) -> bool:
        """Whether the thread still runs."""
        return self._thread.is_alive()

    @property
    def stopped(self) -> bool:
        """Whether it was told to stop."""
        return self._stopped

    def add(self, bell: CrossThreadEvent) -> None:
        """Ring this bell whenever there is something new."""
        with self._lock:
            self._bells.add(bell)

    def remove(self, bell: CrossThreadEvent) -> bool:
        """Ring it no longer; whether others are left."""
        with self._lock:
            self._bells.discard(bell)
            return bool(self._bells)

    def after(self, position: int) -> EventPage | None:
        """What came after a position; None where that must be read from the table."""
        with self._lock:
            if self._position is None or not self._position - len(self._events) <= position <= self._position:
                return None
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
        """Take in what is new; how long to wait for a ring before the next look."""
        try:
            while self._advance():
                pass
        except Exception as error:  # noqa: BLE001  (a thread that ended would leave all who follow without a word)
            return self._complain(error)
        self._delay = _FIRST_DELAY
        return FALLBACK_POLL_SECONDS

    def _complain(self, error: Exception) -> float:
        known = isinstance(error, ProwessError)
        level = logging.WARNING if self._delay == _FIRST_DELAY else logging.DEBUG
        log.log(level, "Events of %s cannot be read now: %s", self._log.location, error, exc_info=not known)
        self._delay = min(self._delay * 2, FALLBACK_POLL_SECONDS)
        return self._delay

    def _advance(self) -> bool:
        """Take in one page; whether there may be another."""
        if self._position is None:
            self._begin(self._log.last())
            return False
        page = self._log.page(self._position, TAIL_EVENTS)
        if page.position < self._position or len(page.events) != page.position - self._position:
            self._begin(page.position)  # the log was exchanged
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
