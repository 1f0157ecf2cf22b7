"""Write queued items to the database from a background thread."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from math import inf
from time import monotonic
from typing import Any, Generic, Protocol, TypeVar

CLOSE_SECONDS = 15.0
IDLE_POLL_SECONDS = 0.02
"""How long the thread keeps polling after a write. Items that may wait this long need not wake it, which is cheaper."""

SECOND_THREAD_ITEMS = 100
"""If this many items are due while a batch is being written, a second thread prepares the next batch in the meantime."""

Item_co = TypeVar("Item_co", covariant=True)
Item = TypeVar("Item")
Prepared = TypeVar("Prepared")


class Backlog(Protocol[Item_co]):
    """The queue of items to write. Every call holds the writer's lock; hold it to add items, too."""

    def __len__(self) -> int:
        """Return how many items are queued."""
        ...

    def wait(self) -> float | None:
        """Return the seconds until something must be written, or None if the queue is empty."""
        ...

    def take(self, *, everything: bool) -> Sequence[Item_co]:
        """Remove and return the next batch: the items that are due, or with `everything` the first of all."""
        ...

    def clear(self) -> None:
        """Drop everything."""
        ...


class BackgroundWriter(Generic[Item, Prepared]):
    """Passes queued items to `prepare`, and its result to `write`, in a background thread. Neither may raise.

    The thread starts with the first item. Batches are written one at a time, in the order in which they were taken; under
    load a second thread prepares the next batch in the meantime. Everything queued at a normal exit is written. A forked child
    starts with an empty queue, because the parent writes its own items.
    """

    def __init__(
        self,
        backlog: Backlog[Item],
        *,
        prepare: Callable[[Sequence[Item]], Prepared],
        write: Callable[[Prepared], None],
        name: str,
    ) -> None:
        self._backlog = backlog
        self._prepare = prepare
        self._write = write
        self._name = name
        self.closed = False
        self.forget()
        _writers.add(self)

    def forget(self) -> None:
        """Drop the queue and the thread, as a forked child must."""
        self._backlog.clear()
        # New locks: one that another thread of the parent held during the fork would stay locked in the child forever.
        # The lock itself, because entering it through the condition takes four times as long, and every item needs it.
        self.lock = threading.RLock()
        self._changed = threading.Condition(self.lock)
        self._preparing = threading.Lock()
        self._writing = threading.Lock()
        self._thread: threading.Thread | None = None
        self._second: threading.Thread | None = None
        self._flush_requests = self._flushed = 0
        self._looks_at = 0.0  # 0 while it does not sleep

    def wake(self, *, within: float = 0.0) -> None:
        """Announce, under the lock, an item that is due `within` seconds, sooner than those queued before."""
        if self._thread is None or not self._thread.is_alive():
            self._start()
        # A thread that looks soon enough by itself is not woken, because switching threads for every item costs more.
        elif self._looks_at > monotonic() + within:
            self._changed.notify_all()

    def pause(self, seconds: float) -> None:
        """Sleep in the writing thread; return early on close."""
        with self.lock:
            if not self.closed:
                self._changed.wait_for(lambda: self.closed, seconds)

    def flush(self, seconds: float = CLOSE_SECONDS) -> bool:
        """Wait until everything queued so far is written or dropped; return False if that takes too long."""
        deadline = monotonic() + seconds
        with self.lock:
            self._flush_requests += 1
            requested = self._flush_requests
            self._changed.notify_all()
            while self._flushed < requested and self._thread is not None and self._thread.is_alive():
                # At most a second at a time: a thread that died does not notify.
                if not self._changed.wait(min(deadline - monotonic(), 1.0)) and monotonic() >= deadline:
                    return False
            if self._flushed >= requested:
                return True
        # No thread is running, so this one writes.
        self._drain()
        return True

    def close(self) -> None:
        """Write what is queued and end the thread."""
        atexit.unregister(self.close)
        with self.lock:
            self.closed = True
            self._changed.notify_all()
            thread = self._thread
        if thread and thread is not threading.current_thread():
            thread.join(CLOSE_SECONDS)
        if thread is None or not thread.is_alive():
            self._drain()

    def _start(self) -> None:
        self._looks_at = 0.0
        self._thread = self._started(self._run)
        # Unregister first: a forked child inherits the registration and starts its own thread.
        atexit.unregister(self.close)
        atexit.register(self.close)

    def _started(self, work: Callable[[], None]) -> threading.Thread | None:
        # A daemon, so that it does not keep the process alive. `close` runs at exit and writes what is left.
        thread = threading.Thread(target=work, name=self._name, daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no thread can be started, as during shutdown; flush or close writes instead
            return None
        return thread

    def _run(self) -> None:
        while self._await_work():
            if self._flushed < self._flush_requests or self.closed:
                self._drain()
            else:
                self._write_batch(everything=False)

    def _await_work(self) -> bool:
        """Wait until something must be written; return False if nothing more can come."""
        with self.lock:
            polled = False
            while not self.closed and self._flushed >= self._flush_requests:
                seconds = self._backlog.wait()
                if seconds is not None and seconds <= 0:
                    return True
                # Poll once before sleeping for good: under load the next item comes soon, and adding it is then cheap.
                if seconds is None and not polled:
                    seconds, polled = IDLE_POLL_SECONDS, True
                self._sleep(seconds)
            return bool(self._backlog) or not self.closed

    def _sleep(self, seconds: float | None) -> None:
        self._looks_at = inf if seconds is None else monotonic() + seconds
        self._changed.wait(seconds)
        self._looks_at = 0.0

    def _help(self) -> None:
        """Write alongside the first thread while there is a backlog."""
        while self._has_backlog():
            self._write_batch(everything=False)

    def _has_backlog(self) -> bool:
        with self.lock:
            seconds = self._backlog.wait()
            return len(self._backlog) >= SECOND_THREAD_ITEMS and seconds is not None and seconds <= 0

    def _drain(self) -> None:
        """Write everything queued so far; later items are left."""
        with self.lock:
            requested, backlog = self._flush_requests, len(self._backlog)
        while backlog > 0 and (written := self._write_batch(everything=True)):
            backlog -= written
        with self._preparing, self._writing:
            pass  # the other thread may have taken a batch; wait until it is written
        with self.lock:
            self._flushed = max(self._flushed, requested)
            self._changed.notify_all()

    def _write_batch(self, *, everything: bool) -> int:
        """Take, prepare and write one batch, and return its size.

        The write lock is taken before the prepare lock is released, so that batches are written in the order in which they
        were taken, while the next one can already be prepared.
        """
        with self._preparing:
            with self.lock:
                batch = self._backlog.take(everything=everything)
            if not batch:
                return 0
            prepared = self._prepare(batch)
            self._writing.acquire()
        try:
            self._start_second_thread()
            self._write(prepared)
        finally:
            self._writing.release()
        return len(batch)

    def _start_second_thread(self) -> None:
        if self._has_backlog() and (self._second is None or not self._second.is_alive()):
            self._second = self._started(self._help)


_writers: weakref.WeakSet[BackgroundWriter[Any, Any]] = weakref.WeakSet()


def _reset_writers() -> None:
    for writer in _writers:
        writer.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_writers)
