"""Read the events of an organization, or subscribe to them as they happen."""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import contextmanager

from prowess.errors import Unavailable
from prowess.events import Event
from prowess.feed.event_log import FALLBACK_POLL_SECONDS, CrossThreadEvent, EventFilter, EventLog, EventPage, EventTail
from prowess.feed.wakeups import Wakeups, open_wakeups
from prowess.storage.database import Connections
from prowess.threads import offload

log = logging.getLogger(__name__)

PAGE_EVENTS = 200
_FIRST_DELAY = 0.05
_CLOSE_SECONDS = 5.0


class EventFeed:
    """The events of one organization, in order.

    Any number of tasks, also in different loops, can subscribe; the log is read once for all of them, by a thread that
    runs only while there are subscribers. Feeds of several organizations can share the `wakeups` of their database.
    """

    def __init__(self, database: Connections, organization_id: str = "", *, wakeups: Wakeups | None = None) -> None:
        self.organization_id = organization_id
        self._log = EventLog(database, organization_id)
        self._wakeups = wakeups or open_wakeups(database)
        self._own_wakeups = wakeups is None
        self._lock = threading.Lock()
        self._tail: EventTail | None = None
        self._ending: list[EventTail] = []
        self._leave = _do_nothing
        self._closed = False

    def read(
        self,
        after: int = 0,
        limit: int = PAGE_EVENTS,
        *,
        names: Sequence[str] = (),
        session_id: str = "",
        user: str | None = None,
    ) -> list[Event]:
        """Return at most `limit` events after a number, in order. Blocking."""
        wanted = EventFilter(names=tuple(names), session_id=session_id, user=user)
        return list(self._log.page(after, limit, wanted).events)

    def last(self) -> int:
        """Return the number of the newest event, or 0. Blocking."""
        return self._log.last()

    def wake(self) -> None:
        """Announce that events were committed. Call it after the commit, from any thread; it does not block."""
        self._wakeups.tell(self.organization_id)

    async def follow(
        self,
        after: int | None = None,
        *,
        names: Sequence[str] = (),
        session_id: str = "",
        user: str | None = None,
    ) -> AsyncGenerator[Event]:
        """Yield every event after a number, each once and in order, then new ones as they come, until the feed is closed.

        Without a number, start at the end of the log. Wait for a database that does not exist yet or cannot be reached.
        If the log is replaced by another one, continue from the start of that.
        """
        wanted = EventFilter(names=tuple(names), session_id=session_id, user=user)
        with self._followed() as (tail, bell):
            position = after
            delay = _FIRST_DELAY
            while not tail.stopped:
                bell.reset()  # before the look: later events ring again
                try:
                    page = await self._next(tail, position, wanted)
                except Unavailable as error:
                    log.debug("Subscribers of %s are waiting: %s", self._log.location, error)
                    await bell.wait(delay)
                    delay = min(delay * 2, FALLBACK_POLL_SECONDS)
                    continue
                delay = _FIRST_DELAY
                moved, position = page.position != position, page.position
                for event in page.events:
                    yield event
                if not moved:
                    await bell.wait()

    def close(self) -> None:
        """End all subscriptions, threads and connections, after sending pending wake-ups. Blocking."""
        with self._lock:
            self._closed = True
            self._abandon()
            ending, self._ending = self._ending, []
        for tail in ending:
            tail.join(_CLOSE_SECONDS)
        if self._own_wakeups:  # shared ones are closed by their owner
            self._wakeups.close()

    async def _next(self, tail: EventTail, position: int | None, wanted: EventFilter) -> EventPage:
        """Return what is new after a position: from memory if it reaches back that far, otherwise from the table."""
        if position is None:
            return EventPage(events=(), position=await offload(self._log.last))
        page = tail.after(position)
        if page is None:
            return await offload(self._log.page, position, PAGE_EVENTS, wanted)
        return EventPage(events=[event for event in page.events if wanted.takes(event)], position=page.position)

    @contextmanager
    def _followed(self) -> Generator[tuple[EventTail, CrossThreadEvent]]:
        bell = CrossThreadEvent()
        tail = self._join(bell)
        try:
            yield tail, bell
        finally:
            with self._lock:
                if not tail.remove(bell) and tail is self._tail:
                    self._abandon()

    def _join(self, bell: CrossThreadEvent) -> EventTail:
        with self._lock:
            if self._closed:
                raise Unavailable("This event feed is closed.", hint="Open a new feed.")
            tail = self._tail
            if tail is None:
                tail = EventTail(self._log)
                # Watch before the first look, so that no commit between the two is missed.
                self._leave = self._wakeups.watch(self.organization_id, tail.ring)
                self._tail = tail
                tail.start()
            tail.add(bell)
            return tail

    def _abandon(self) -> None:
        """Stop reading. The thread may still be in its last read; `close` waits for it."""
        self._leave()
        if self._tail:
            self._tail.stop()
            self._ending = [tail for tail in (*self._ending, self._tail) if tail.alive]
        self._tail, self._leave = None, _do_nothing


def _do_nothing() -> None:
    pass
