"""The end of a log, kept in memory and up to date by one thread for all who follow it."""

from __future__ import annotations

import logging
import threading
from collections import deque
from itertools import islice

from prowess.delivery.bell import Bell
from prowess.delivery.log import EventLog, Page
from prowess.errors import ProwessError
from prowess.events import Event

log = logging.getLogger(__name__)

TAIL_EVENTS = 256
"""So many events are kept; who is further behind reads the table."""

SAFETY_SECONDS = 5.0
"""After so long the log is looked at, though nobody rang."""

_FIRST_DELAY = 0.05


class Tail:
    """Reads each event once, however many follow; each takes what is new for it, at its own pace.

    What waits for a slow follower is in the table, not here.
    """

    def __init__(self, events: EventLog) -> None:
        self._log = events
        self._lock = threading.Lock()
        self._bells: set[Bell] = set()
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

    def add(self, bell: Bell) -> None:
        """Ring this bell whenever there is something new."""
        with self._lock:
            self._bells.add(bell)

    def remove(self, bell: Bell) -> bool:
        """Ring it no longer; whether others are left."""
        with self._lock:
            self._bells.discard(bell)
            return bool(self._bells)

    def after(self, position: int) -> Page | None:
        """What came after a position; None where that must be read from the table."""
        with self._lock:
            if self._position is None or not self._position - len(self._events) <= position <= self._position:
                return None
            first = position - (self._position - len(self._events))
            return Page(events=tuple(islice(self._events, first, None)), position=self._position)

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
        return SAFETY_SECONDS

    def _complain(self, error: Exception) -> float:
        known = isinstance(error, ProwessError)
        level = logging.WARNING if self._delay == _FIRST_DELAY else logging.DEBUG
        log.log(level, "Events of %s cannot be read now: %s", self._log.location, error, exc_info=not known)
        self._delay = min(self._delay * 2, SAFETY_SECONDS)
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
