"""Looking up the addresses of a host."""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from prowess.errors import RunFailed, TryLater
from prowess.outbound.addresses import Address, address_of


class Resolver(Protocol):
    """Looks names up. `RunFailed` where there is no such host, `TryLater` where that cannot be told just now."""

    async def addresses(self, host: str, port: int) -> tuple[Address, ...]:
        """Every address of a host, the one to try first at the front; never none."""
        ...


class SystemResolver:
    """Asks the system, in threads of its own, so that a name server that is silent holds up nothing else."""

    def __init__(self, at_once: int = 8) -> None:
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix="lookup")

    async def addresses(self, host: str, port: int) -> tuple[Address, ...]:
        """Every address."""
        looked_up = self._pool.submit(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        try:
            found = await asyncio.wrap_future(looked_up)
        except socket.gaierror as error:
            raise _fault(host, error) from error
        except (OSError, UnicodeError) as error:
            raise TryLater(f"The host {host} cannot be looked up ({type(error).__name__}).") from error
        return self._read(host, [str(entry[4][0]) for entry in found])

    def close(self) -> None:
        """Let go of the threads; a lookup that is going on ends in its own time."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    @staticmethod
    def _read(host: str, found: list[str]) -> tuple[Address, ...]:
        addresses = [address_of(text) for text in dict.fromkeys(found)]
        known = tuple(address for address in addresses if address is not None)
        if not known or len(known) < len(addresses):
            raise RunFailed(f"The host {host} has an address that cannot be read.", hint="Use another host.")
        return known


def _fault(host: str, error: socket.gaierror) -> RunFailed | TryLater:
    if error.errno in {socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)}:
        return RunFailed(f"There is no host called {host}.", hint="Check its name.")
    return TryLater(f"The host {host} cannot be looked up just now.", hint="Try again, or check the network.")
