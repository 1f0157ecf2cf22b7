"""Resolve host names, and decide which addresses are public.

The list of ranges is our own: what the standard library calls global differs between Python versions, and includes
translated and tunnelled addresses through which private ones can be reached. An address is public only if no range below
contains it; for IPv6, only if it lies in the block that is allocated for the internet.
"""

from __future__ import annotations

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Protocol

from prowess.errors import RunFailed, TryLater

Address = IPv4Address | IPv6Address

# The special-purpose registries of IANA, and addresses that only look public: 168.63.129.16 is a service that Azure
# offers to each of its virtual machines. As an example of what the standard library lets through: Python 3.11.7 calls
# 64:ff9b::/96, 2002::/16, 192.0.0.8 and 224.0.0.1 global.
_IPV4_RANGES: dict[str, str] = {
    "0.0.0.0/8": "this network",
    "10.0.0.0/8": "private",
    "100.64.0.0/10": "carrier-grade NAT",
    "127.0.0.0/8": "this machine",
    "168.63.129.16/32": "a virtual machine host",
    "169.254.0.0/16": "link-local",
    "172.16.0.0/12": "private",
    "192.0.0.0/24": "for protocols",
    "192.0.2.0/24": "for documentation",
    "192.31.196.0/24": "for reverse lookups",
    "192.52.193.0/24": "for tunnels",
    "192.88.99.0/24": "for tunnels",
    "192.168.0.0/16": "private",
    "192.175.48.0/24": "for reverse lookups",
    "198.18.0.0/15": "for benchmarks",
    "198.51.100.0/24": "for documentation",
    "203.0.113.0/24": "for documentation",
    "224.0.0.0/4": "multicast",
    "240.0.0.0/4": "reserved",
}
_IPV6_ALLOCATED = IPv6Network("2000::/3")
_IPV6_RANGES: dict[str, str] = {
    "::/128": "this network",
    "::1/128": "this machine",
    "::ffff:0:0/96": "IPv4-mapped",
    "64:ff9b::/96": "translated to IPv4",
    "64:ff9b:1::/48": "translated to IPv4",
    "2001::/23": "for protocols and tunnels",
    "2001:db8::/32": "for documentation",
    "2002::/16": "tunnelled to IPv4",
    "2620:4f:8000::/48": "for reverse lookups",
    "3ffe::/16": "returned",
    "3fff::/20": "for documentation",
    "fc00::/7": "private",
    "fe80::/10": "link-local",
    "ff00::/8": "multicast",
}
_NON_PUBLIC_IPV4 = tuple((IPv4Network(network), why) for network, why in _IPV4_RANGES.items())
_NON_PUBLIC_IPV6 = tuple((IPv6Network(network), why) for network, why in _IPV6_RANGES.items())


def non_public_reason(address: Address) -> str:
    """Return why an address is not public; '' if it is."""
    if isinstance(address, IPv4Address):
        return next((why for network, why in _NON_PUBLIC_IPV4 if address in network), "")
    # A zone names a network card of this machine: such an address is never on the internet.
    if address.scope_id is not None:
        return "limited to one network interface"
    found = next((why for network, why in _NON_PUBLIC_IPV6 if address in network), "")
    return found or ("" if address in _IPV6_ALLOCATED else "reserved")


def parse_address(text: str) -> Address | None:
    """Return the address that a text spells in its usual form; None if it is not an address, or has a zone."""
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return None if isinstance(address, IPv6Address) and address.scope_id is not None else address


def is_loopback(host: str) -> bool:
    """Return True if only this machine can reach a host, which is a name or an address."""
    try:
        return host == "localhost" or ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Resolver(Protocol):
    """Looks up host names. `RunFailed` if there is no such host, `TryLater` if the lookup itself fails."""

    async def addresses(self, host: str, port: int) -> tuple[Address, ...]:
        """Return all addresses of a host, at least one, in the order in which to try them."""
        ...


class SystemResolver:
    """Asks the system, in its own threads: a silent name server blocks `getaddrinfo` for a long time, and nothing else."""

    def __init__(self, at_once: int = 8) -> None:
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix="lookup")

    async def addresses(self, host: str, port: int) -> tuple[Address, ...]:
        """Return every address of a host."""
        try:
            found = await asyncio.wrap_future(self._pool.submit(_lookup, host, port))
        except socket.gaierror as error:
            raise _lookup_error(host, error) from error
        except (OSError, UnicodeError) as error:
            raise TryLater(f"DNS lookup of {host} failed ({type(error).__name__}).") from error
        known = tuple(address for address in found if address is not None)
        # Fail closed: if one address cannot be judged, the host is not used at all.
        if not known or len(known) < len(found):
            raise RunFailed(f"The host {host} has an invalid address.", hint="Use another host.")
        return known

    def lookup(self, host: str, port: int, seconds: float) -> tuple[Address, ...]:
        """Return the addresses of a host; `OSError` if there are none in time. Blocking."""
        found = self._pool.submit(_lookup, host, port).result(timeout=max(seconds, 0.0))
        return tuple(address for address in found if address is not None)

    def close(self) -> None:
        """Release the threads; a lookup in progress cannot be stopped and ends by itself."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _lookup(host: str, port: int) -> list[Address | None]:
    """Return each address that the system knows, None for one that cannot be used."""
    # Without a type, every address comes once for each kind of socket.
    entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    # Duplicates are dropped and the order is kept: the system lists the addresses to prefer first (RFC 6724).
    return [parse_address(text) for text in dict.fromkeys(str(entry[4][0]) for entry in entries)]


def _lookup_error(host: str, error: socket.gaierror) -> RunFailed | TryLater:
    # EAI_NODATA (the name exists but has no address) is missing on some systems.
    if error.errno in {socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)}:
        return RunFailed(f"Host {host} not found.", hint="Check the host name.")
    return TryLater(f"DNS lookup of {host} failed temporarily.", hint="Try again, or check the network.")
