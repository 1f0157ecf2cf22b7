"""One request to the world outside, and its answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from prowess.skill.limits import MIB


class Witness(Protocol):
    """Notes which hosts are asked and refused, hop by hop, as a receipt does."""

    def touch(self, sort: Literal["hosts"], name: str) -> None:
        """Note a host that is asked."""
        ...

    def refuse(self, sort: Literal["hosts"], name: str) -> None:
        """Note a host that may not be asked."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboundRequest:
    """What is asked, of which of the `hosts` that may be asked."""

    url: str = field(repr=False)
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    body: bytes = field(default=b"", repr=False)
    hosts: tuple[str, ...] = ()
    """`name` for port 443 of a host, `name:port` for another one, `*.name` for any below it."""
    routes: Mapping[str, str] = field(default_factory=dict[str, str])
    """Where requests for a host go instead, by its name: `http://127.0.0.1:8080`. What is routed may be private, and plain."""
    seconds: float = 30.0
    """For the whole of it, every redirect included."""
    answer_bytes: int = 4 * MIB
    redirects: int = 5
    """How many are followed; with 0, a redirect is the answer."""
    party: str = ""
    """For whom it is sent, such as a run: one that sends many at once waits for itself, and no other for it."""
    witness: Witness | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboundAnswer:
    """What came back, whatever its status."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    """Names in lower case."""
    body: bytes = field(repr=False)
    url: str = field(repr=False)
    """Where it came from in the end."""
    hops: tuple[str, ...] = ()
    """The hosts that were asked, in order."""


class Outbound(Protocol):
    """Sends requests that code of skills wants to be sent.

    Only https, only to the hosts that the request names, and only to public addresses: a name is looked up once, every
    address that it has is checked, and the connection goes to one of those; each redirect is checked again. `Refused` names
    the host that may not be asked; `Invalid` a request that is none; `TryLater` where there was no whole answer in time;
    `RunFailed` for an answer that is too large, for too many redirects, and for a host that there is not or that cannot prove
    who it is. No error shows more of a request than its host.
    """

    async def send(self, request: OutboundRequest) -> OutboundAnswer:
        """Send it and read the answer."""
        ...
