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
        """Return at most `limit` events after a number, in order. Those older than `first` are no longer kept. Blocking."""
        event_filter = EventFilter(names=tuple(names), session_id=session_id, user=user)
        return list(self._log.page(after, limit, event_filter).events)

    def first(self) -> int:
        """Return the number of the oldest event that is kept, or 1. Blocking."""
        return self._log.first()

    def last(self) -> int:
        """Return the number of the newest event, or 0. Blocking."""
        return self._log.last()

    @property
    def is_followed(self) -> bool:
        """True while there are subscribers."""
        return self._tail is not None

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

        Without a number, start at the end of the log. If events after that number were pruned, yield one event
        `events_pruned` in their place, whatever the filter. Wait for a database that does not exist yet or cannot be reached.
        If the log is replaced by another one, continue from the start of that.
        """
        with self.subscribe(after, names=names, session_id=session_id, user=user) as subscription:
            while not subscription.ended:
                for event in await subscription.next():
                    yield event

    @contextmanager
    def subscribe(
        self,
        after: int | None = None,
        *,
        names: Sequence[str] = (),
        session_id: str = "",
        user: str | None = None,
    ) -> Generator[Subscription]:
        """Return a subscription that starts after a number, or at the end of the log. Use it in the running loop."""
        event_filter = EventFilter(names=tuple(names), session_id=session_id, user=user)
        bell = CrossThreadEvent()
        tail = self._join(bell)
        try:
            yield Subscription(self._log, tail, bell, event_filter, after)
        finally:
            with self._lock:
                if not tail.remove(bell) and tail is self._tail:
                    self._abandon()

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


class Subscription:
    """One subscriber's place in the log. The subscriber takes events at its own pace; nothing is queued for it."""

    def __init__(
        self, log: EventLog, tail: EventTail, bell: CrossThreadEvent, event_filter: EventFilter, after: int | None
    ) -> None:
        self._log = log
        self._tail = tail
        self._bell = bell
        self._filter = event_filter
        self._ended = False
        self._delay = _FIRST_DELAY
        self.position = after
        """The number after which the next events come; None for the end of the log at the first call of `next`."""

    @property
    def ended(self) -> bool:
        """True once `end` was called or the feed was closed."""
        return self._ended or self._tail.stopped

    @property
    def behind(self) -> int:
        """How many events the organization's log has after the last ones that were taken, wanted or not."""
        return max(0, self._tail.position - (self.position or 0))

    def end(self) -> None:
        """Let `next` return at once. Call it in the subscriber's loop."""
        self._ended = True
        self._bell.ring()

    async def start(self) -> int:
        """Return the position; if it was not given, take the end of the log. Raise `Unavailable` if that cannot be read."""
        if self.position is None:
            self.position = await offload(self._log.last)
        return self.position

    async def next(self, seconds: float | None = None) -> Sequence[Event]:
        """Wait for matching events and return them in order; return none after `seconds`, or once the subscription ended."""
        clock = self._bell.loop.time
        until = None if seconds is None else clock() + seconds
        while not self.ended:
            self._bell.reset()  # before the look: later events ring again
            left = None if until is None else max(0.0, until - clock())
            try:
                page = await self._look()
            except Unavailable as error:
                log.debug("Subscribers of %s are waiting: %s", self._log.location, error)
                await self._bell.wait(self._delay if left is None else min(self._delay, left))
                self._delay = min(self._delay * 2, FALLBACK_POLL_SECONDS)
                if left == 0:
                    break
                continue
            self._delay = _FIRST_DELAY
            moved, self.position = page.position != self.position, page.position
            if page.events or left == 0:
                return page.events
            if not moved:
                await self._bell.wait(left)
        return ()

    async def _look(self) -> EventPage:
        """Return what is new: from memory if it reaches back that far, otherwise from the table."""
        position = self.position
        if position is None:
            return EventPage(events=(), position=await offload(self._log.last))
        page = self._tail.after(position)
        if page is None:
            return await offload(lambda: self._log.page(position, PAGE_EVENTS, self._filter, report_pruned=True))
        # The position also passes events that the filter drops, or every look would read them again.
        return EventPage(events=[event for event in page.events if self._filter.takes(event)], position=page.position)
