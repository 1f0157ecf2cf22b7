"""A connection that can be cut from another thread, whatever is being waited for on it."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Generator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from threading import Lock


class Line:
    """One connection, or the one that is about to be made; cut once, it stays cut."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._channel: socket.socket | None = None
        self._is_cut = False

    @property
    def is_cut(self) -> bool:
        """Whether somebody has cut it."""
        return self._is_cut

    def cut(self) -> None:
        """End whatever waits on it, now and later."""
        with self._lock:
            self._is_cut = True
            if self._channel is not None:
                _shut(self._channel)

    @contextmanager
    def over(self, plain: socket.socket, trust: ssl.SSLContext | None, name: str) -> Generator[HTTPConnection]:
        """HTTP over a connection, which is closed in the end; with `trust`, over TLS with whoever is called `name`."""
        channel = plain
        try:
            if trust is not None:
                channel = trust.wrap_socket(plain, server_hostname=name, do_handshake_on_connect=False)
            self._take(channel)
            if isinstance(channel, ssl.SSLSocket):
                channel.do_handshake()
            connection = HTTPConnection(name, 0)
            connection.auto_open = 0  # it never connects by itself
            connection.sock = channel
            yield connection
        finally:
            with self._lock:
                self._channel = None
            channel.close()
            plain.close()

    def _take(self, channel: socket.socket) -> None:
        with self._lock:
            self._channel = channel
            if self._is_cut:
                raise TimeoutError


def _shut(channel: socket.socket) -> None:
    with suppress(OSError):
        socket.socket.shutdown(channel, socket.SHUT_RDWR)
