"""MCP over stdin and stdout: nothing but the protocol leaves by stdout, and the end comes quickly.

While it serves, file descriptor 0 is the null device and 1 is stderr, so that no print and no child process can read or
write what belongs to the protocol. A thread of its own reads, since a wait for input cannot be interrupted otherwise.
"""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import sys
import threading
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any, cast

from mcp.server.stdio import stdio_server

from prowess.interfaces.mcp.server import ProwessServer

_CHUNK_BYTES = 65536
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def serve_stdio(server: ProwessServer) -> int:
    """Serve until the input ends or a signal comes, and give the exit code: 130 after an interruption, else 0."""
    received: list[int] = []
    work = asyncio.create_task(_serve(server))

    def stop(number: int) -> None:
        received.append(number)
        work.cancel()

    with stop_on_signals(stop):
        try:
            await work
        except asyncio.CancelledError:
            if not received:
                raise
    return 130 if signal.SIGINT in received else 0


@contextmanager
def stop_on_signals(stop: Callable[[int], None]) -> Generator[None]:
    """Call `stop` with the number of each signal that asks the server to end."""
    loop = asyncio.get_running_loop()
    # A parent has signals ignored so that they do not end this process: SIGINT in the background of a script, SIGHUP
    # under nohup. A handler would undo that.
    heeded = [number for number in _SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    for number in heeded:
        loop.add_signal_handler(number, stop, number)
    try:
        yield
    finally:
        for number in heeded:
            loop.remove_signal_handler(number)


async def _serve(server: ProwessServer) -> None:
    with _redirect_stdio() as (given, taken):
        lines, output = _StdinLines(given), _StdoutWriter(taken)
        try:
            # The SDK asks no more of the two than to be iterated, written to and flushed.
            async with stdio_server(cast("Any", lines), cast("Any", output)) as (read, write):
                await server.run(read, write, server.create_initialization_options())
        except* BrokenPipeError:
            pass  # the client went away: nobody is left to tell


@contextmanager
def _redirect_stdio() -> Generator[tuple[int, int]]:
    """The descriptors that the client is at, with stdin and stdout led elsewhere meanwhile."""
    sys.stdout.flush()
    given, taken = os.dup(0), os.dup(1)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.dup2(2, 1)
    os.close(empty)
    try:
        yield given, taken
    finally:
        sys.stdout.flush()
        os.dup2(taken, 1)
        os.close(taken)


class _StdinLines:
    """The lines of an input, read by a thread that does not outlive the process."""

    def __init__(self, descriptor: int) -> None:
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def read() -> None:
            chunk = b" "
            while chunk:
                try:
                    chunk = os.read(descriptor, _CHUNK_BYTES)
                except OSError:
                    chunk = b""
                with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                    loop.call_soon_threadsafe(self._chunks.put_nowait, chunk)

        threading.Thread(target=read, name="mcp-stdin", daemon=True).start()

    async def __aiter__(self) -> AsyncIterator[str]:
        rest: list[bytes] = []
        while chunk := await self._chunks.get():
            *lines, last = chunk.split(b"\n")
            for line in lines:
                yield b"".join([*rest, line]).decode(errors="replace")
                rest.clear()
            rest.append(last)
        if any(rest):
            yield b"".join(rest).decode(errors="replace")


class _StdoutWriter:
    """Writes whole messages; a client that reads slowly holds up nothing but what is written to it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
            os.set_blocking(descriptor, False)

    async def write(self, text: str) -> None:
        data = memoryview(text.encode())
        while data:
            try:
                data = data[os.write(self._descriptor, data) :]
            except BlockingIOError:
                await self._room()

    async def flush(self) -> None:
        """Nothing waits here to be written."""

    async def _room(self) -> None:
        loop = asyncio.get_running_loop()
        ready = loop.create_future()
        loop.add_writer(self._descriptor, lambda: ready.done() or ready.set_result(None))
        try:
            await ready
        finally:
            loop.remove_writer(self._descriptor)
