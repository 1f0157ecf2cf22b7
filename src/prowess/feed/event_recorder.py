"""Record loads and run progress as events in the background."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Protocol

from prowess.errors import ProwessError, Unavailable
from prowess.storage import ledger
from prowess.storage.background_writer import CLOSE_SECONDS, BackgroundWriter
from prowess.storage.database import Connections
from prowess.storage.ledger import EventEntry

log = logging.getLogger(__name__)

MAX_QUEUED_EVENTS = 10_000
BATCH_EVENTS = 500
LINGER_SECONDS = 0.05
"""So long an event waits for others that can share its transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillLoad:
    """One load of a skill: what was asked for, where it came from, how long it took, and what went wrong, if anything."""

    name: str
    reference: str | None = None
    script: str | None = None
    source: str = ""
    duration_s: float = 0.0
    error: str | None = None
    session_id: str = ""
    user_id: str = ""
    organization_id: str | None = None
    """Whose log it belongs to; None for that of the recorder."""

    def entry(self) -> EventEntry:
        """The event that it becomes."""
        data = {
            "name": self.name,
            "reference": self.reference,
            "script": self.script,
            "source": self.source,
            "duration_s": self.duration_s,
            "error": self.error,
        }
        return EventEntry(
            name="skill_loaded",
            data=data,
            session_id=self.session_id,
            user_id=self.user_id,
            subject=self.name.rpartition(":")[2] if self.source or self.error is None else "",
            source=self.source.partition(":")[0],
            seconds=self.duration_s if self.error is None else None,
        )


class Recordable(Protocol):
    """Something that becomes an event: a load, or a sign of a run."""

    @property
    def organization_id(self) -> str | None:
        """Whose log it belongs to; None for that of the recorder."""
        ...

    def entry(self) -> EventEntry:
        """The event that it becomes."""
        ...


class EventBacklog:
    """News in the order in which they came."""

    def __init__(self) -> None:
        self._queue: deque[Recordable] = deque()
        self._since = 0.0

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, news: Recordable) -> None:
        """Add one at the end."""
        if not self._queue:
            self._since = monotonic()
        self._queue.append(news)

    def wait(self) -> float | None:
        """So many seconds may pass until something must be written; None where nothing waits."""
        if not self._queue:
            return None
        return 0 if len(self._queue) >= BATCH_EVENTS else self._since + LINGER_SECONDS - monotonic()

    def take(self, *, everything: bool) -> list[Recordable]:  # noqa: ARG002  (all that wait are written together anyway)
        """Remove as many as fit one transaction."""
        self._since = monotonic()
        return [self._queue.popleft() for _ in range(min(len(self._queue), BATCH_EVENTS))]

    def clear(self) -> None:
        """Let go of it all."""
        self._queue.clear()


class EventRecorder:
    """Writes news as events, many in one transaction, from a thread of its own.

    What was recorded when the process ends normally is kept. A database that cannot be written to costs a warning
    and the events that it was to hold, never what they tell of. After each transaction `written` is called
    with every organization whose events were in it.
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
        """How many events were not kept: there were too many at once, or the database did not take them."""
        return self._dropped

    def record(self, news: Recordable) -> None:
        """Have it written soon. Never waits and never raises; one too many is counted and dropped."""
        writer = self._writer
        with writer.lock:
            if writer.closed or len(self._backlog) >= self._queue_size:
                self._drop(1, "the recorder is closed" if writer.closed else "too many at once")
                return
            self._backlog.add(news)
            if len(self._backlog) == 1:
                writer.wake(within=LINGER_SECONDS)
            elif len(self._backlog) == BATCH_EVENTS:
                writer.wake()

    def flush(self, seconds: float = CLOSE_SECONDS) -> bool:
        """Wait until what was recorded so far is written or given up; False where that took too long."""
        return self._writer.flush(seconds)

    def close(self) -> None:
        """Write what is left and end the thread; what is recorded later is dropped."""
        self._writer.close()

    def _write(self, batch: Sequence[Recordable]) -> None:
        sorted_out = self._by_organization(batch)
        try:
            with self._database.write() as connection:
                for organization, news in sorted(sorted_out.items()):
                    ledger.append(connection, organization, events=[one.entry() for one in news])
        except Exception as error:  # noqa: BLE001  (whatever happens here must not reach, or end, anything else)
            self._give_up(batch, error)
            return
        if self._written:
            for organization in sorted_out:
                self._written(organization)

    def _by_organization(self, batch: Sequence[Recordable]) -> dict[str, list[Recordable]]:
        sorted_out: dict[str, list[Recordable]] = {}
        for news in batch:
            whose = self._organization if news.organization_id is None else news.organization_id
            sorted_out.setdefault(whose, []).append(news)
        return sorted_out

    def _give_up(self, batch: Sequence[Recordable], error: Exception) -> None:
        if len(batch) > 1 and not isinstance(error, Unavailable):
            for news in batch:  # one of them may be what the database refuses
                self._write([news])
            return
        reason = error.message if isinstance(error, ProwessError) else repr(error)
        with self._writer.lock:
            self._drop(len(batch), reason)

    def _drop(self, count: int, reason: str) -> None:
        self._dropped += count
        if not self._warned:
            self._warned = True
            log.warning("Some loads and runs are not announced: %s", reason)
