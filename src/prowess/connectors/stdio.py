"""The stdio transport: an MCP server as a process, one JSON message a line.

The transport of the SDK buffers a line without limit and gives the server variables of this process. Here a message has a
limit, the environment is exactly what was chosen, and the whole process group ends with the connection.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prowess.child.process import has_exited
from prowess.errors import RunFailed, Unavailable

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
"""The longest message of a server."""
STDERR_BYTES = 4_096
"""How much of the end of its error output is kept."""
GRACE_SECONDS = 0.5
"""How long a server may take to exit by itself, once its input is closed."""
_MAX_BAD_LINES = 100
"""How many lines that are not messages are skipped: many programs print a greeting."""
_REQUEST_BYTES = 1_024
"""What a request of a server counts at least: each one that is not answered yet takes memory."""
_INHERITED = (
    "HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "SSL_CERT_DIR", "SSL_CERT_FILE", "TMPDIR", "TZ", "USER",
)  # fmt: skip
"""The variables that every server gets. All others are named in its configuration."""


def process_environment(environment: Mapping[str, str], chosen: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a server: a few harmless variables, and those that were chosen for it."""
    return {name: environment[name] for name in _INHERITED if name in environment} | dict(chosen)


class ServerProcess:
    """A running MCP server. Its process group is killed when it ends."""

    def __init__(self, command: Sequence[str], *, env: Mapping[str, str], cwd: Path) -> None:
        program = shutil.which(command[0], path=env.get("PATH")) if "/" not in command[0] else command[0]
        if program is None:
            raise Unavailable(f"The program {command[0]!r} was not found.", hint="Install it, or give its full path.")
        self.failure: RunFailed | None = None
        self.asked_bytes = 0
        """The size of the requests that it has sent since the last one that it was sent."""
        self._tail = b""
        self._ended = False
        try:
            # Pipes, not a socket: some servers cannot use one for both directions.
            self._process = subprocess.Popen(  # noqa: S603  (a command line that a person has accepted, without a shell)
                [program, *command[1:]],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                env=dict(env),
                cwd=cwd,
                # Its own session: Ctrl-C is for this process alone, and the group can be killed whole.
                start_new_session=True,
            )
        except OSError as error:
            raise Unavailable(
                f"The program {command[0]!r} could not be started ({error.strerror}).",
                hint="Check the command of the connector.",
            ) from error
        stdin, stdout, stderr = self._process.stdin, self._process.stdout, self._process.stderr
        assert stdin is not None and stdout is not None and stderr is not None  # noqa: S101, PT018  (they were asked for)
        self.stdin, self.stdout, self._stderr = stdin, stdout, stderr
        self._errors = stderr.fileno()
        os.set_blocking(self._errors, False)

    @property
    def stderr(self) -> str:
        """The end of what it wrote to its error output."""
        return self._tail.decode(errors="replace").strip()

    def watch_errors(self, loop: asyncio.AbstractEventLoop) -> None:
        """Keep the end of its error output from now on."""

        def read() -> None:
            try:
                data = os.read(self._errors, 65_536)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            self._tail = (self._tail + data)[-STDERR_BYTES:]
            if not data:
                loop.remove_reader(self._errors)

        loop.add_reader(self._errors, read)

    async def exited(self, seconds: float) -> None:
        """Wait until it has exited by itself, for at most these seconds. It is not reaped."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and not has_exited(self._process):  # noqa: ASYNC110  (the exit of a process sets no event)
            await asyncio.sleep(0.01)

    def end(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Kill it and everything that it has started, and release what it holds. It does not wait for anything else."""
        if self._ended:
            return
        self._ended = True
        if loop is not None and not loop.is_closed():
            loop.remove_reader(self._errors)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(2)
        with suppress(OSError):
            self._tail = (self._tail + os.read(self._errors, 65_536))[-STDERR_BYTES:]
        for pipe in (self._stderr, self.stdin, self.stdout):
            with suppress(OSError):
                pipe.close()


@asynccontextmanager
async def process_streams(process: ServerProcess) -> AsyncGenerator[TransportStreams]:
    """Exchange messages with a server, as the SDK wants it. At the end the server is stopped, also when cancelled."""
    import anyio
    from mcp.shared.message import SessionMessage

    loop = asyncio.get_running_loop()
    received, incoming = anyio.create_memory_object_stream["SessionMessage | Exception"](0)
    outgoing, sending = anyio.create_memory_object_stream["SessionMessage"](0)
    tasks: list[asyncio.Task[None]] = []
    reading: asyncio.ReadTransport | None = None
    writing: asyncio.WriteTransport | None = None
    try:
        process.watch_errors(loop)
        reader = asyncio.StreamReader(limit=MAX_MESSAGE_BYTES)
        reading, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), process.stdout)
        writing, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), process.stdin
        )
        writer = asyncio.StreamWriter(writing, protocol, None, loop)
        tasks = [
            loop.create_task(_receive(process, reader, received, SessionMessage)),
            loop.create_task(_send(process, writer, sending)),
        ]
        yield incoming, outgoing
        writer.close()
        await process.exited(GRACE_SECONDS)
    finally:
        for task in tasks:
            task.cancel()
        # Aborted, because closing would wait until the server has read what is still buffered. One that is closing and
        # has nothing buffered is closed already, or in the next step of the loop; asyncio would close it twice.
        if writing is not None and (not writing.is_closing() or writing.get_write_buffer_size()):
            writing.abort()
        if reading is not None:
            reading.close()
        process.end(loop)
        for stream in (received, incoming, outgoing, sending):
            stream.close()
        # The tasks end at once: what they wait for is closed.
        await asyncio.gather(*tasks, return_exceptions=True)


async def _receive(process: ServerProcess, reader: asyncio.StreamReader, received: Any, make: Any) -> None:
    from mcp_types import JSONRPCNotification, JSONRPCRequest, jsonrpc_message_adapter

    bad = 0
    async with received:
        while True:
            try:
                line = await reader.readline()
            # A `ValueError` is a line that is longer than the limit.
            except (ValueError, ConnectionError) as error:
                if isinstance(error, ValueError):
                    process.failure = RunFailed(
                        f"The server sent a message of more than {MAX_MESSAGE_BYTES:,} bytes.",
                        hint="Ask for less data.",
                    )
                return
            if not line:
                return
            try:
                message = jsonrpc_message_adapter.validate_json(line, by_name=False)
            except (ValueError, RecursionError):
                bad += 1
                if bad > _MAX_BAD_LINES:
                    process.failure = RunFailed("The server does not support MCP.", hint="Check the command.")
                    return
                continue
            if isinstance(message, JSONRPCNotification):
                # Nothing is done with them, and a server may send any number.
                await asyncio.sleep(0)
                continue
            if isinstance(message, JSONRPCRequest):
                process.asked_bytes += max(len(line), _REQUEST_BYTES)
                if process.asked_bytes > MAX_MESSAGE_BYTES:
                    process.failure = RunFailed("The server sent too many messages.", hint="Use another server.")
                    return
            await received.send(make(message))


async def _send(process: ServerProcess, writer: asyncio.StreamWriter, sending: Any) -> None:
    from mcp_types import JSONRPCRequest

    async with sending:
        async for message in sending:
            if isinstance(message.message, JSONRPCRequest):
                process.asked_bytes = 0
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            with suppress(ConnectionError):
                writer.write(text.encode() + b"\n")
                await writer.drain()
