"""Serve MCP over stdin and stdout. Only protocol messages are written to stdout, and shutdown is fast.

While the server runs, file descriptor 0 is the null device and 1 is stderr, so that no print and no child process can
read or write protocol data.
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
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Self, cast

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from pydantic import ValidationError

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
    with _redirect_stdio() as (input_fd, output_fd):
        output = _StdoutWriter(output_fd)
        lines = _StdinLines(input_fd, output)
        output.on_broken = lines.end
        # The SDK declares a stream, but only iterates over it and closes it.
        messages = cast("Any", lines.messages())
        await server.run(messages, output, server.create_initialization_options())


@contextmanager
def _redirect_stdio() -> Generator[tuple[int, int]]:
    """Yield descriptors of the client's input and output, while 0 is the null device and 1 is stderr."""
    sys.stdout.flush()
    # Redirected by descriptor, not by `sys.stdout`, so that C libraries and child processes are covered too.
    input_fd, output_fd = os.dup(0), os.dup(1)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.dup2(2, 1)
    os.close(empty)
    try:
        yield input_fd, output_fd
    finally:
        sys.stdout.flush()  # to stderr, before 1 is the client again
        os.dup2(output_fd, 1)
        os.close(output_fd)
        # `given` stays open: the reader thread may still be blocked in it, and a reused number would be another file.


def _can_wait_for(descriptor: int) -> bool:
    """Return True for a pipe or a socket. The event loop cannot wait for a file, nor on every system for a terminal."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


class _StdinLines:
    """The lines of a descriptor. The event loop reads a pipe itself: to be woken by a thread would cost it more.

    Requests that the SDK could not even read are answered here.
    """

    def __init__(self, descriptor: int, output: _StdoutWriter) -> None:
        self._output = output
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue()
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        if _can_wait_for(descriptor):
            self._loop.add_reader(descriptor, self._on_readable)
        else:
            # A daemon does not keep the process alive, and nothing can interrupt its read.
            threading.Thread(target=self._read_on, name="mcp-stdin", daemon=True).start()

    def _on_readable(self) -> None:
        with suppress(BlockingIOError):  # another process reads the same pipe, and was faster
            self._chunks.put_nowait(chunk := self._read())
            if not chunk:
                self._loop.remove_reader(self._descriptor)

    def _read_on(self) -> None:
        chunk = b" "
        while chunk:  # the empty chunk at the end is queued too, and ends the iteration
            try:
                chunk = self._read()
            except BlockingIOError:  # another process that has the terminal open may set it to non-blocking
                select.select([self._descriptor], [], [])
                continue
            with suppress(RuntimeError):  # the loop is closed, so nobody reads the queue
                self._loop.call_soon_threadsafe(self._chunks.put_nowait, chunk)

    def _read(self) -> bytes:
        """Return the next bytes, or b"" at the end."""
        try:
            return os.read(self._descriptor, _CHUNK_BYTES)
        except BlockingIOError:
            raise
        except OSError:
            return b""

    def end(self) -> None:
        """End the iteration after the lines that have arrived."""
        self._chunks.put_nowait(b"")

    async def messages(self) -> AsyncIterator[SessionMessage | Exception]:
        """Yield each message, or what is wrong with it."""
        async for line in self._lines():
            answer = find_broken_request(line)
            if answer is not None:
                with suppress(anyio.BrokenResourceError):
                    await self._output.write(json.dumps(answer) + "\n")
                continue
            try:
                message = jsonrpc_message_adapter.validate_json(line.decode(errors="replace"), by_name=False)
            except ValidationError as error:
                yield error
            else:
                yield SessionMessage(message)

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
    """The stream that the SDK sends to. It writes whole messages and does not block the event loop if the client is slow."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._turn = asyncio.Lock()
        self._is_closed = False
        self.on_broken: Callable[[], None] = lambda: None
        """Called when the client has gone away, so that nobody reads what is written."""
        # Only pipes and sockets can be full.
        if _can_wait_for(descriptor):
            os.set_blocking(descriptor, False)

    async def send(self, item: SessionMessage, /) -> None:
        if self._is_closed:
            raise anyio.ClosedResourceError
        await self.write(item.message.model_dump_json(by_alias=True, exclude_unset=True) + "\n")

    async def aclose(self) -> None:
        """Refuse further messages."""
        self._is_closed = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()

    async def write(self, text: str) -> None:
        await self._turn.acquire()
        left = memoryview(b"")
        try:
            left = self._write_some(memoryview(text.encode()))
        finally:
            if not left:
                self._turn.release()
        if left:
            # The request may be cancelled now, but a message that has started must be finished, and nobody else may write
            # in between: this task releases the lock.
            await asyncio.shield(asyncio.create_task(self._finish(left)))

    def _write_some(self, data: memoryview) -> memoryview:
        """Return what did not fit into the pipe. Raise `BrokenResourceError`, which the SDK expects, if nobody reads it."""
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except BlockingIOError:
            pass
        except BrokenPipeError as error:
            self.on_broken()
            raise anyio.BrokenResourceError from error
        return data

    async def _finish(self, data: memoryview) -> None:
        try:
            while data:
                await self._room()
                data = self._write_some(data)
        finally:
            self._turn.release()

    async def _room(self) -> None:
        loop = asyncio.get_running_loop()
        ready = loop.create_future()
        loop.add_writer(self._descriptor, lambda: ready.done() or ready.set_result(None))
        try:
            await ready
        finally:
            loop.remove_writer(self._descriptor)
