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
"""So long the thread still looks by itself after it has written: what may wait as long need not wake it."""

SECOND_THREAD_ITEMS = 100
"""Where so many must be written while others are, a second thread prepares them meanwhile."""

Item_co = TypeVar("Item_co", covariant=True)
Item = TypeVar("Item")
Prepared = TypeVar("Prepared")


class Backlog(Protocol[Item_co]):
    """What waits to be written. The writer calls it under its lock, as whoever adds to it must hold it."""

    def __len__(self) -> int:
        """How many wait."""
        ...

    def wait(self) -> float | None:
        """So many seconds may pass until something must be written; None where nothing waits."""
        ...

    def take(self, *, everything: bool) -> Sequence[Item_co]:
        """Remove what goes into the next transaction: what must be written by now, or the first of everything."""
        ...

    def clear(self) -> None:
        """Let go of it all."""
        ...


class BackgroundWriter(Generic[Item, Prepared]):
    """A thread that hands what waits to `prepare`, and what comes of it to `write`; neither may raise.

    It begins when there is first something to do. What is taken first is written first, one batch at a time; in a crowd a
    second thread prepares the next batch meanwhile. What waits when the process ends normally is written. A forked child
    begins with nothing, since what waited is its parent's, who writes it.
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
        """Let go of what waits, and of the thread."""
        self._backlog.clear()
        self.lock = threading.Condition(threading.RLock())
        self._preparing = threading.Lock()
        self._writing = threading.Lock()
        self._thread: threading.Thread | None = None
        self._second: threading.Thread | None = None
        self._asked = self._drained = 0
        self._looks_at = 0.0  # while it does not sleep

    def wake(self, *, within: float = 0.0) -> None:
        """Say, under the lock, that something was added that must be written in so many seconds, sooner than what waited."""
        if self._thread is None or not self._thread.is_alive():
            self._start()
        elif self._looks_at > monotonic() + within:
            self.lock.notify_all()

    def pause(self, seconds: float) -> None:
        """Wait, in the writing thread, unless it is time to end."""
        with self.lock:
            if not self.closed:
                self.lock.wait_for(lambda: self.closed, seconds)

    def flush(self, seconds: float = CLOSE_SECONDS) -> bool:
        """Wait until what waits by now is written or given up; False where that takes too long."""
        deadline = monotonic() + seconds
        with self.lock:
            self._asked += 1
            asked = self._asked
            self.lock.notify_all()
            while self._drained < asked and self._thread is not None and self._thread.is_alive():
                if not self.lock.wait(min(deadline - monotonic(), 1.0)) and monotonic() >= deadline:
                    return False
            if self._drained >= asked:
                return True
        self._drain()
        return True

    def close(self) -> None:
        """Write what is left and end the thread."""
        atexit.unregister(self.close)
        with self.lock:
            self.closed = True
            self.lock.notify_all()
            thread = self._thread
        if thread and thread is not threading.current_thread():
            thread.join(CLOSE_SECONDS)
        if thread is None or not thread.is_alive():
            self._drain()

    def _start(self) -> None:
        self._looks_at = 0.0
        self._thread = self._started(self._run)
        atexit.unregister(self.close)
        atexit.register(self.close)

    def _started(self, work: Callable[[], None]) -> threading.Thread | None:
        thread = threading.Thread(target=work, name=self._name, daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no thread can be had, as at the end of the process; flush or close writes instead
            return None
        return thread

    def _run(self) -> None:
        while self._await_work():
            if self._drained < self._asked or self.closed:
                self._drain()
            else:
                self._write_batch(everything=False)

    def _await_work(self) -> bool:
        """Wait until something must be written; False when there will be nothing more."""
        with self.lock:
            dozed = False
            while not self.closed and self._drained >= self._asked:
                seconds = self._backlog.wait()
                if seconds is not None and seconds <= 0:
                    return True
                if seconds is None and not dozed:
                    seconds, dozed = IDLE_POLL_SECONDS, True
                self._sleep(seconds)
            return bool(self._backlog) or not self.closed

    def _sleep(self, seconds: float | None) -> None:
        self._looks_at = inf if seconds is None else monotonic() + seconds
        self.lock.wait(seconds)
        self._looks_at = 0.0

    def _help(self) -> None:
        """Write along with the first thread while there is a crowd."""
        while self._is_crowded():
            self._write_batch(everything=False)

    def _is_crowded(self) -> bool:
        with self.lock:
            seconds = self._backlog.wait()
            return len(self._backlog) >= SECOND_THREAD_ITEMS and seconds is not None and seconds <= 0

    def _drain(self) -> None:
        """Write all that waits by now; what comes meanwhile is for later."""
        with self.lock:
            asked, left = self._asked, len(self._backlog)
        while left > 0 and (written := self._write_batch(everything=True)):
            left -= written
        with self._preparing, self._writing:
            pass  # what the other thread had taken is written by now
        with self.lock:
            self._drained = max(self._drained, asked)
            self.lock.notify_all()

    def _write_batch(self, *, everything: bool) -> int:
        """Write one batch after those that were taken before it; the next can be prepared meanwhile."""
        with self._preparing:
            with self.lock:
                batch = self._backlog.take(everything=everything)
            if not batch:
                return 0
            prepared = self._prepare(batch)
            self._writing.acquire()
        try:
            self._call_second()
            self._write(prepared)
        finally:
            self._writing.release()
        return len(batch)

    def _call_second(self) -> None:
        if self._is_crowded() and (self._second is None or not self._second.is_alive()):
            self._second = self._started(self._help)


_writers: weakref.WeakSet[BackgroundWriter[Any, Any]] = weakref.WeakSet()


def _reset_writers() -> None:
    for writer in _writers:
        writer.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_writers)
