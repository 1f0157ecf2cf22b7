"""Serve MCP over stdin and stdout. Only protocol messages are written to stdout, and shutdown is fast.

While the server runs, file descriptor 0 is the null device and 1 is stderr, so that no print and no child process can
read or write protocol data. A daemon thread reads the input, because a blocking read cannot be interrupted.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import stat
import sys
import threading
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager, suppress
from typing import Any, cast

from mcp.server.stdio import stdio_server

from prowess.interfaces.mcp.protocol import find_broken_request
from prowess.interfaces.mcp.server import ProwessServer
from prowess.interfaces.stop_signals import stop_on_signals

_CHUNK_BYTES = 65536


async def serve_stdio(server: ProwessServer) -> int:
    """Serve until the input ends or a signal arrives. Return the exit code: 130 after SIGINT, else 0."""
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


async def _serve(server: ProwessServer) -> None:
    with _redirect_stdio() as (given, taken):
        output = _StdoutWriter(taken)
        lines = _StdinLines(given, output)
        try:
            # The SDK declares anyio files, but only iterates the one, and writes to and flushes the other.
            async with stdio_server(cast("Any", lines), cast("Any", output)) as (read, write):
                await server.run(read, write, server.create_initialization_options())
        except* BrokenPipeError:
            pass  # the client went away, so there is nobody to report an error to


@contextmanager
def _redirect_stdio() -> Generator[tuple[int, int]]:
    """Yield descriptors of the client's input and output, while 0 is the null device and 1 is stderr."""
    sys.stdout.flush()
    # Redirected by descriptor, not by `sys.stdout`, so that C libraries and child processes are covered too.
    given, taken = os.dup(0), os.dup(1)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.dup2(2, 1)
    os.close(empty)
    try:
        yield given, taken
    finally:
        sys.stdout.flush()  # to stderr, before 1 is the client again
        os.dup2(taken, 1)
        os.close(taken)
        # `given` stays open: the reader thread may still be blocked in it, and a reused number would be another file.


class _StdinLines:
    """The lines of a descriptor, read by a daemon thread, which does not keep the process alive.

    Requests that the SDK could not even read are answered here.
    """

    def __init__(self, descriptor: int, output: _StdoutWriter) -> None:
        self._output = output
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue()
        loop = asyncio.get_running_loop()

        def read() -> None:
            chunk = b" "
            while chunk:  # the empty chunk at the end is queued too, and ends the iteration
                try:
                    chunk = os.read(descriptor, _CHUNK_BYTES)
                except BlockingIOError:
                    # Some clients pass one socket for both directions, so the writer's setting is the reader's, too.
                    select.select([descriptor], [], [])
                    continue
                except OSError:
                    chunk = b""
                with suppress(RuntimeError):  # the loop is closed, so nobody reads the queue
                    loop.call_soon_threadsafe(self._chunks.put_nowait, chunk)

        threading.Thread(target=read, name="mcp-stdin", daemon=True).start()

    async def __aiter__(self) -> AsyncIterator[str]:
        async for line in self._lines():
            answer = find_broken_request(line)
            if answer is None:
                yield line.decode(errors="replace")
            else:
                await self._output.write(json.dumps(answer) + "\n")

    async def _lines(self) -> AsyncIterator[bytes]:
        # Messages are JSON, one per line. Pieces of a long line are joined once, not at every chunk, which would take
        # quadratic time. Bytes are decoded per line, because a chunk may end inside a character.
        rest: list[bytes] = []
        while chunk := await self._chunks.get():
            *lines, last = chunk.split(b"\n")
            for line in lines:
                yield b"".join([*rest, line])
                rest.clear()
            rest.append(last)
        if any(rest):
            yield b"".join(rest)


class _StdoutWriter:
    """Writes whole messages without blocking the event loop, even if the client reads slowly."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._turn = asyncio.Lock()
        # Only pipes and sockets can be full. A regular file never is, and the event loop cannot wait for one.
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
            os.set_blocking(descriptor, False)

    async def write(self, text: str) -> None:
        data = memoryview(text.encode())
        # A slow client takes a message in pieces. Nobody else may write in between.
        async with self._turn:
            while data:
                try:
                    data = data[os.write(self._descriptor, data) :]
                except BlockingIOError:
                    await self._room()

    async def flush(self) -> None:
        """Do nothing: `write` has no buffer."""

    async def _room(self) -> None:
        loop = asyncio.get_running_loop()
        ready = loop.create_future()
        loop.add_writer(self._descriptor, lambda: ready.done() or ready.set_result(None))
        try:
            await ready
        finally:
            loop.remove_writer(self._descriptor)
