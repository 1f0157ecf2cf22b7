"""Pipes to and from another process, for one event loop, without blocking it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import IO

_CHUNK = 1 << 16


class PipeReader:
    """Reads what another process writes, up to a limit; beyond it, `on_full` is called once, and the rest is discarded."""

    def __init__(self, descriptor: int, most: int, on_full: Callable[[], None]) -> None:
        self._descriptor = descriptor
        self._most = most
        self._on_full = on_full
        self._loop = asyncio.get_running_loop()
        self._read = bytearray()
        self.full = False
        self.ended: asyncio.Future[None] = self._loop.create_future()
        """Done when the other side has closed the pipe."""
        os.set_blocking(descriptor, False)
        self._loop.add_reader(descriptor, self._take)

    @property
    def read(self) -> bytes:
        """What was read so far."""
        return bytes(self._read)

    def close(self) -> None:
        """Stop reading."""
        self._loop.remove_reader(self._descriptor)
        self.ended.cancel()

    def _take(self) -> None:
        try:
            piece = os.read(self._descriptor, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        if not piece:
            self._loop.remove_reader(self._descriptor)
            if not self.ended.done():
                self.ended.set_result(None)
            return
        # It continues reading when it is full: a process that waits for room in the pipe could not end.
        room = self._most - len(self._read)
        self._read += piece[:room]
        if len(piece) > room and not self.full:
            self.full = True
            self._on_full()


class PipeWriter:
    """Writes what another process reads; the pipe is closed when everything was written, or the other side has closed it."""

    def __init__(self, pipe: IO[bytes], content: bytes) -> None:
        self._pipe = pipe
        self._left = memoryview(content)
        self._loop = asyncio.get_running_loop()
        os.set_blocking(pipe.fileno(), False)
        self._loop.add_writer(pipe.fileno(), self._give)

    def close(self) -> None:
        """Stop writing."""
        if not self._pipe.closed:
            self._loop.remove_writer(self._pipe.fileno())
            self._pipe.close()

    def _give(self) -> None:
        try:
            if self._left:
                self._left = self._left[os.write(self._pipe.fileno(), self._left[:_CHUNK]) :]
        except BlockingIOError:
            return
        except OSError:
            self._left = self._left[:0]  # the process has closed its input: it need not read everything
        if not self._left:
            self.close()


class ExitWatcher:
    """Waits for a child process to exit, through its pidfd; it does not reap it."""

    def __init__(self, pid: int) -> None:
        self._loop = asyncio.get_running_loop()
        # Readable once the process exits, in any thread; a handler of SIGCHLD would need the main thread.
        self._descriptor = os.pidfd_open(pid)
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(self._descriptor, self._note)

    def close(self) -> None:
        """Stop waiting."""
        self._loop.remove_reader(self._descriptor)
        self.ended.cancel()
        os.close(self._descriptor)

    def _note(self) -> None:
        self._loop.remove_reader(self._descriptor)
        if not self.ended.done():
            self.ended.set_result(None)
