"""Serve with several processes on one machine: they share a listening socket and the database, and no memory.

Python runs one thread at a time, so that one process serves as much as one core can.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType

_RESTART_SECONDS = 1.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """One of the processes that serve."""

    is_first: bool
    """True for the first one that was started. The others wait for it, because it prepares what they share."""
    ready: Callable[[], None]
    """Has to be called once the process serves."""


class _Supervisor:
    """Starts the processes, and replaces those that are killed. It forks, so no thread may run before."""

    def __init__(self) -> None:
        self._children: set[int] = set()
        self._stopped_by = 0
        self._code = 0
        self._ready = os.pipe()
        self._alive = os.pipe()
        # An ignored signal was meant not to end this process.
        heeded = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
        self._handlers = {one: signal.getsignal(one) for one in heeded if signal.getsignal(one) != signal.SIG_IGN}
        for one in self._handlers:
            signal.signal(one, self._receive)

    def run(self, count: int) -> ServerProcess | int:
        """Return the process in each child. In the parent, return the exit code once all of them have ended."""
        if child := self._start(is_first=True):
            return child
        os.close(self._ready[1])
        others = count - 1 if os.read(self._ready[0], 1) else 0
        for _ in range(others):
            if child := self._start():
                return child
        while self._children:
            ended, status = os.wait()
            self._children.remove(ended)
            code = os.waitstatus_to_exitcode(status)
            if self._stopped_by or self._code:
                continue
            if code > 0:
                # It would fail again, and has said why.
                self._code = code
                self._stop()
                continue
            _log.warning("Process %d of the server has ended (%d). Starting another one.", ended, code)
            time.sleep(_RESTART_SECONDS)
            if child := self._start():
                return child
        return self._code or (130 if self._stopped_by == signal.SIGINT else 0)

    def _start(self, *, is_first: bool = False) -> ServerProcess | None:
        """Return the process in the child, and None in the parent."""
        sys.stdout.flush()
        sys.stderr.flush()
        if child := os.fork():
            self._children.add(child)
            if self._stopped_by:  # since before the child was known
                self._stop()
            return None
        for one, handler in self._handlers.items():
            signal.signal(one, handler)
        if self._stopped_by:
            os._exit(0)
        os.close(self._alive[1])
        threading.Thread(target=self._end_with_parent, daemon=True).start()
        return ServerProcess(is_first, self._tell_ready if is_first else lambda: None)

    def _tell_ready(self) -> None:
        os.write(self._ready[1], b"1")
        os.close(self._ready[1])

    def _end_with_parent(self) -> None:
        # The other end is closed when the parent ends, however that happens.
        os.read(self._alive[0], 1)
        os.kill(os.getpid(), signal.SIGTERM)

    def _receive(self, number: int, _: FrameType | None) -> None:
        self._stopped_by = self._stopped_by or number
        self._stop()

    def _stop(self) -> None:
        for child in self._children:
            with suppress(ProcessLookupError):  # a signal may arrive just after the end of a child was noticed
                os.kill(child, signal.SIGTERM)


def start_processes(count: int) -> ServerProcess | int:
    """Start several processes. Return in each of them; in this one, return the exit code after all have ended.

    They end on SIGINT, SIGTERM and SIGHUP, and if one of them fails. One that is killed is replaced.
    """
    return _Supervisor().run(count)
