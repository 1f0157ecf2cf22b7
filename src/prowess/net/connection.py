"""Connect to an address that was checked, and cancel a connection from another thread, whatever it waits for."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Generator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from ipaddress import ip_address
from threading import Lock
from typing import Protocol

from prowess.net.addresses import Address

_ANY_PORT = 9


class Connector(Protocol):
    """Opens connections; `OSError` where there is none in time."""

    def connect(self, address: Address, port: int, seconds: float) -> socket.socket:
        """A connection to exactly this address. It blocks; whoever calls it has a thread for that."""
        ...

    def is_own(self, address: Address) -> bool:
        """Whether an address is one of this machine, public or not. It does not block."""
        ...


class SystemConnector:
    """Connects over TCP. An address is taken as it is: nothing is looked up again."""

    def connect(self, address: Address, port: int, seconds: float) -> socket.socket:
        """A connection."""
        channel = socket.socket(_family(address), socket.SOCK_STREAM)
        try:
            channel.settimeout(seconds)
            channel.connect((str(address), port))
        except BaseException:
            channel.close()
            raise
        return channel

    def is_own(self, address: Address) -> bool:
        """Whether the way to an address begins at the address itself. Nothing is sent to find out."""
        with socket.socket(_family(address), socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((str(address), _ANY_PORT))
            except OSError:
                return False
            return ip_address(str(probe.getsockname()[0])) == address


def _family(address: Address) -> socket.AddressFamily:
    return socket.AF_INET if address.version == 4 else socket.AF_INET6


class CancellableConnection:
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
                _shut_down(self._channel)

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


def _shut_down(channel: socket.socket) -> None:
    with suppress(OSError):
        socket.socket.shutdown(channel, socket.SHUT_RDWR)
