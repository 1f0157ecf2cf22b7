"""Opening a connection to an address that has been checked."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from typing import Protocol

from prowess.outbound.addresses import Address

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
