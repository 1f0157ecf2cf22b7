"""Subscribers to server-sent events that reconnect as a browser does, and remember everything they received."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass, field

RETRY_SECONDS = 0.05
PAUSE_SECONDS = 0.05


@dataclass
class Subscriber:
    """One client of `GET /api/v1/events`.

    A slow one reads through a small window and pauses after each piece, so that what it does not read piles up at the
    server, which may then drop it.
    """

    port: int
    token: str
    after: int = 0
    slow: bool = False
    path: str = "/api/v1/events"
    ids: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    connections: int = 0

    async def follow(self, last: int) -> None:
        """Receive events up to this number, over as many connections as it takes."""
        while not self.ids or self.ids[-1] < last:
            with suppress(OSError, EOFError, asyncio.IncompleteReadError, ValueError):
                reader, writer = await self._connect()
                try:
                    await self._receive(reader, last)
                finally:
                    writer.close()
            await asyncio.sleep(RETRY_SECONDS)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        opened = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            if self.slow:
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            opened.setblocking(False)
            await asyncio.get_running_loop().sock_connect(opened, ("127.0.0.1", self.port))
            reader, writer = await asyncio.open_connection(sock=opened, limit=4096 if self.slow else 2**16)
        except BaseException:
            opened.close()
            raise
        self.connections += 1
        seen = self.ids[-1] if self.ids else self.after
        writer.write(
            f"GET {self.path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nAuthorization: Bearer {self.token}\r\n"
            f"Accept: text/event-stream\r\nLast-Event-ID: {seen}\r\n\r\n".encode()
        )
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            writer.close()
            raise EOFError(head.decode())
        return reader, writer

    async def _receive(self, reader: asyncio.StreamReader, last: int) -> None:
        number, name, has_data = 0, "", False
        async for line in self._lines(reader):
            if line.startswith("id:"):
                number = int(line[3:])
            elif line.startswith("event:"):
                name = line[6:].strip()
            elif line.startswith("data:"):
                has_data = True
            elif not line:
                if has_data:  # without data, a frame only says where to resume
                    self.ids.append(number)
                    self.names.append(name)
                    if number >= last:
                        return
                name, has_data = "", False

    async def _lines(self, reader: asyncio.StreamReader) -> AsyncGenerator[str]:
        held = b""
        while size := int(await reader.readline(), 16):
            held += await reader.readexactly(size)
            await reader.readexactly(2)
            *lines, held = held.replace(b"\r\n", b"\n").split(b"\n")
            for line in lines:
                yield line.decode()
            if self.slow:
                await asyncio.sleep(PAUSE_SECONDS)
