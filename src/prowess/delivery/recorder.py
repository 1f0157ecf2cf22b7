"""Loads of skills, written down in the background: the one who loads never waits for it."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic

from prowess.errors import ProwessError, Unavailable
from prowess.storage import ledger
from prowess.storage.database import Connections
from prowess.storage.ledger import EventEntry

log = logging.getLogger(__name__)

QUEUE_LOADS = 10_000
BATCH_LOADS = 500
LINGER_SECONDS = 0.05
"""So long a load waits for others that can share its transaction."""

_CLOSE_SECONDS = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
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


class LoadRecorder:
    """Writes loads as `skill_loaded` events, many in one transaction, from a thread of its own.

    What was recorded when the process ends normally is kept. A database that cannot be written to costs a warning
    and the loads that it was to hold, never a load itself. After each transaction `written` is called
    with every organization whose loads were in it.
    """

    def __init__(
        self,
        database: Connections,
        organization_id: str = "",
        *,
        written: Callable[[str], None] | None = None,
        queue_size: int = QUEUE_LOADS,
    ) -> None:
        self._database = database
        self._organization = organization_id
        self._written = written
        self._queue_size = queue_size
        self._dropped = 0
        self._closed = self._warned = False
        self.forget()
        _recorders.add(self)

    def forget(self) -> None:
        """Let go of what waits, and of the thread: in a forked child both are the parent's, which writes its loads."""
        self._queue: deque[Load] = deque()
        self._changed = threading.Condition()
        self._writing = threading.Lock()
        self._thread: threading.Thread | None = None
        self._recorded = self._settled = 0
        self._hurry = False

    @property
    def dropped(self) -> int:
        """How many loads were not kept: there were too many at once, or the database did not take them."""
        return self._dropped

    def record(self, load: Load) -> None:
        """Have it written soon. Never waits and never raises; a load too many is counted and dropped."""
        with self._changed:
            if self._closed or len(self._queue) >= self._queue_size:
                self._drop(1, "too many at once" if not self._closed else "the recorder is closed")
                return
            self._queue.append(load)
            self._recorded += 1
            if self._thread is None or not self._thread.is_alive():
                self._start()
            elif len(self._queue) in (1, BATCH_LOADS):
                self._changed.notify_all()

    def flush(self, seconds: float = _CLOSE_SECONDS) -> bool:
        """Wait until what was recorded so far is written or given up; False where that took too long."""
        deadline = monotonic() + seconds
        with self._changed:
            until = self._recorded
            self._hurry = True
            self._changed.notify_all()
            while self._settled < until and self._thread is not None and self._thread.is_alive():
                if not self._changed.wait(min(deadline - monotonic(), 1.0)) and monotonic() >= deadline:
                    return False
        while self._settled < until and self._write_batch():
            pass
        return self._settled >= until

    def close(self) -> None:
        """Write what is left and end the thread; loads recorded later are dropped."""
        atexit.unregister(self.close)
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            thread = self._thread
        if thread and thread is not threading.current_thread():
            thread.join(_CLOSE_SECONDS)
        if thread is None or not thread.is_alive():
            while self._write_batch():
                pass

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="prowess-loads", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # no thread can be had, as at the end of the process; flush or close writes instead
            self._thread = None
        atexit.unregister(self.close)
        atexit.register(self.close)

    def _run(self) -> None:
        while self._await_work():
            self._write_batch()

    def _await_work(self) -> bool:
        """Wait for loads, and for others to share their transaction; False when there will be no more."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._closed)
            self._changed.wait_for(
                lambda: self._hurry or self._closed or len(self._queue) >= BATCH_LOADS, LINGER_SECONDS
            )
            self._hurry = False
            return bool(self._queue)

    def _write_batch(self) -> bool:
        """Write the loads that wait, as many as fit one transaction; False when there were none."""
        with self._writing:
            with self._changed:
                batch = [self._queue.popleft() for _ in range(min(len(self._queue), BATCH_LOADS))]
            if not batch:
                return False
            try:
                self._write(batch)
            finally:
                with self._changed:
                    self._settled += len(batch)
                    self._changed.notify_all()
            return True

    def _write(self, batch: Sequence[Load]) -> None:
        sorted_out = self._by_organization(batch)
        try:
            with self._database.write() as connection:
                for organization, loads in sorted(sorted_out.items()):
                    ledger.append(connection, organization, events=[load.entry() for load in loads])
        except Exception as error:  # noqa: BLE001  (whatever happens here must not reach, or end, anything else)
            self._give_up(batch, error)
            return
        if self._written:
            for organization in sorted_out:
                self._written(organization)

    def _by_organization(self, batch: Sequence[Load]) -> dict[str, list[Load]]:
        sorted_out: dict[str, list[Load]] = {}
        for load in batch:
            whose = self._organization if load.organization_id is None else load.organization_id
            sorted_out.setdefault(whose, []).append(load)
        return sorted_out

    def _give_up(self, batch: Sequence[Load], error: Exception) -> None:
        if len(batch) > 1 and not isinstance(error, Unavailable):
            for load in batch:  # one of them may be what the database refuses
                self._write([load])
            return
        reason = error.message if isinstance(error, ProwessError) else repr(error)
        with self._changed:
            self._drop(len(batch), reason)

    def _drop(self, count: int, reason: str) -> None:
        self._dropped += count
        if not self._warned:
            self._warned = True
            log.warning("Some loads of skills are not recorded: %s", reason)


_recorders: weakref.WeakSet[LoadRecorder] = weakref.WeakSet()


def _forget_loads() -> None:
    for recorder in _recorders:
        recorder.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_loads)
