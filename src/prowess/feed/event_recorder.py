"""Record loads and run progress as events in the background."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Protocol

from prowess.errors import ProwessError, Unavailable
from prowess.lazy_dataclass import dataclass
from prowess.storage import ledger
from prowess.storage.background_writer import CLOSE_SECONDS, BackgroundWriter
from prowess.storage.database import Connections
from prowess.storage.ledger import EventEntry

log = logging.getLogger(__name__)

MAX_QUEUED_EVENTS = 10_000
BATCH_EVENTS = 500
LINGER_SECONDS = 0.05
"""How long an event waits for others to share its transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillLoad:
    """One load of a skill: what was requested, where it came from, how long it took, and the error if it failed."""

    name: str
    reference: str | None = None
    script: str | None = None
    source: str = ""
    duration_s: float = 0.0
    error: str | None = None
    session_id: str = ""
    user_id: str = ""
    organization_id: str | None = None
    """The organization whose log it belongs to; None for the recorder's."""

    def entry(self) -> EventEntry:
        """Return the event to write."""
        data = {
            "name": self.name,
            "reference": self.reference,
            "script": self.script,
            "source": self.source,
            "duration_s": self.duration_s,
            "error": self.error,
        }
        # The name may have the form `scope:slug`. If nothing was found, it is whatever the client made up, and must not
        # become the label of a metric.
        return EventEntry(
            name="skill_loaded",
            data=data,
            session_id=self.session_id,
            user_id=self.user_id,
            subject=self.name.rpartition(":")[2] if self.source or self.error is None else "",
            # The place of a skill would be too fine for a label; the name of a plugin is not.
            source=self.source if self.source.startswith("plugin:") else self.source.partition(":")[0],
            seconds=self.duration_s if self.error is None else None,
        )


class Recordable(Protocol):
    """Something that becomes an event: a load, or the progress of a run."""

    @property
    def organization_id(self) -> str | None:
        """The organization whose log it belongs to; None for the recorder's."""
        ...

    def entry(self) -> EventEntry:
        """Return the event to write."""
        ...


class EventBacklog:
    """Queued events in the order in which they came."""

    def __init__(self) -> None:
        self._queue: deque[Recordable] = deque()
        self._since = 0.0

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, event: Recordable) -> None:
        """Add an event."""
        if not self._queue:
            self._since = monotonic()
        self._queue.append(event)

    def wait(self) -> float | None:
        """Return the seconds until something must be written, or None if the backlog is empty."""
        if not self._queue:
            return None
        return 0 if len(self._queue) >= BATCH_EVENTS else self._since + LINGER_SECONDS - monotonic()

    def take(self, *, everything: bool) -> list[Recordable]:  # noqa: ARG002  (all queued events are written together anyway)
        """Remove and return as many as one transaction takes."""
        self._since = monotonic()
        return [self._queue.popleft() for _ in range(min(len(self._queue), BATCH_EVENTS))]

    def clear(self) -> None:
        """Drop everything."""
        self._queue.clear()


class EventRecorder:
    """Writes events from a background thread, many per transaction.

    Everything recorded before a normal exit is stored. If the database cannot be written to, events are dropped with a
    warning; what they report never fails because of it. After each transaction `written` is called with every
    organization that had events in it.
    """

    def __init__(
        self,
        database: Connections,
        organization_id: str = "",
        *,
        written: Callable[[str], None] | None = None,
        queue_size: int = MAX_QUEUED_EVENTS,
    ) -> None:
        self._database = database
        self._organization = organization_id
        self._written = written
        self._queue_size = queue_size
        self._dropped = 0
        self._warned = False
        self._backlog = EventBacklog()
        self._writer = BackgroundWriter[Recordable, Sequence[Recordable]](
            self._backlog, prepare=list, write=self._write, name="prowess-events"
        )

    @property
    def dropped(self) -> int:
        """How many events were dropped, because the queue was full or the database rejected them."""
        return self._dropped

    def record(self, event: Recordable) -> None:
        """Queue an event. Never blocks and never raises; if the queue is full, the event is counted and dropped."""
        writer = self._writer
        with writer.lock:
            if writer.closed or len(self._backlog) >= self._queue_size:
                self._drop(1, "the recorder is closed" if writer.closed else "the queue is full")
                return
            self._backlog.add(event)
            # The first event waits for others to share its transaction; a full batch is written at once.
            if len(self._backlog) == 1:
                writer.wake(within=LINGER_SECONDS)
            elif len(self._backlog) == BATCH_EVENTS:
                writer.wake()

    def flush(self, seconds: float = CLOSE_SECONDS) -> bool:
        """Wait until everything recorded so far is written or dropped; return False if that takes too long."""
        return self._writer.flush(seconds)

    def close(self) -> None:
        """Write what is queued and end the thread; later events are dropped."""
        self._writer.close()

    def _write(self, batch: Sequence[Recordable]) -> None:
        grouped = self._by_organization(batch)
        try:
            with self._database.write() as connection:
                # Each organization's log is locked until the commit. Always in the same order, so that two recorders
                # cannot deadlock.
                for organization, queued in sorted(grouped.items()):
                    ledger.append(connection, organization, events=[event.entry() for event in queued])
        except Exception as error:  # noqa: BLE001  (nothing may escape: it would end the writer thread)
            self._give_up(batch, error)
            return
        if self._written:
            for organization in grouped:
                self._written(organization)

    def _by_organization(self, batch: Sequence[Recordable]) -> dict[str, list[Recordable]]:
        grouped: dict[str, list[Recordable]] = {}
        for event in batch:
            organization = self._organization if event.organization_id is None else event.organization_id
            grouped.setdefault(organization, []).append(event)
        return grouped

    def _give_up(self, batch: Sequence[Recordable], error: Exception) -> None:
        # A database that is unavailable would reject every single event, too.
        if len(batch) > 1 and not isinstance(error, Unavailable):
            for event in batch:  # the database may reject only one of them
                self._write([event])
            return
        reason = error.message if isinstance(error, ProwessError) else repr(error)
        with self._writer.lock:
            self._drop(len(batch), reason)

    def _drop(self, count: int, reason: str) -> None:
        self._dropped += count
        if not self._warned:
            self._warned = True
            log.warning("Some events of loads and runs were dropped: %s", reason)
