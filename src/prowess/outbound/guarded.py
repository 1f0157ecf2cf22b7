"""Requests that reach the hosts they are meant for and nothing else."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cache

from prowess.errors import Invalid, Refused, RunFailed, TryLater
from prowess.outbound.addresses import Address, why_not_public
from prowess.outbound.allowing import allowed_route
from prowess.outbound.connecting import Connector, SystemConnector
from prowess.outbound.exchange import Replied, Wired, exchange
from prowess.outbound.headers import METHODS, fields_of, kept_elsewhere, method_of, without_body
from prowess.outbound.line import Line
from prowess.outbound.request import OutboundAnswer, OutboundRequest
from prowess.outbound.resolving import Resolver, SystemResolver
from prowess.outbound.shares import Shares
from prowess.outbound.target import Target, redirected, target_of
from prowess.skill.limits import MIB

BODY_BYTES = 16 * MIB
"""The largest body that is sent."""
MOST_ADDRESSES = 4
"""Of a host's addresses, so many are tried."""
MOST_SECONDS = 600.0
AT_ONCE = 16
"""How many requests are under way at a time."""
PARTIES = 4
"""So many parties can have all their requests under way at the same time."""

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_BECOMES_GET = {301: {"POST"}, 302: {"POST"}, 303: METHODS - {"GET", "HEAD"}}
"""The methods that a redirect turns into GET, by its status."""
_AGENT = "prowess"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hop:
    """What is asked next, and of whom."""

    target: Target
    method: str
    fields: dict[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    sent_by: str = ""
    """The host whose redirect led here."""

    @property
    def shown(self) -> str:
        """The host, and how it came to be asked."""
        told = f"The host {self.target.shown}"
        return f"{told}, to which {self.sent_by} redirects," if self.sent_by else told


class GuardedOutbound:
    """Sends requests over the standard library alone, without proxies, cookies or anything kept from earlier ones.

    A host has to be among those of the request, at every hop. Its name is looked up once for each hop; where one of its
    addresses is not public, or is this machine's, none is asked. A routed host is asked where its route leads, whatever address that has: in the
    route's name, or in its own where the route is an address. To another host than the first only harmless header fields go
    along. No party has more than a quarter of all requests under way, and no host more than half. When its time is over, or whoever waits is cancelled, a request ends, however slow the other side is.
    """

    def __init__(
        self,
        *,
        resolver: Resolver | None = None,
        connector: Connector | None = None,
        trust: Callable[[], ssl.SSLContext] | None = None,
        at_once: int = AT_ONCE,
    ) -> None:
        self._resolver = resolver or SystemResolver()
        self._connector = connector or SystemConnector()
        self._trust = trust or _usual_trust
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix="outbound")
        self._shares = Shares(max(1, at_once // PARTIES))
        self._shares_of_hosts = Shares(max(1, at_once // 2))

    async def send(self, request: OutboundRequest) -> OutboundAnswer:
        """Send it and read the answer."""
        hop = _first(request)
        seconds = min(request.seconds, MOST_SECONDS)
        deadline = time.monotonic() + seconds
        limit = asyncio.timeout(seconds)
        hops: list[str] = []
        try:
            async with limit, self._shares.turn(request.party):
                while True:
                    hops.append(hop.target.shown)
                    replied = await self._asked(request, hop, deadline)
                    following = _next(hop, replied) if request.redirects else None
                    if following is None:
                        return _answer(hop, replied, hops)
                    if len(hops) > request.redirects:
                        raise RunFailed(
                            f"{hops[0]} redirects more than {request.redirects} times.",
                            hint="Ask the last host itself.",
                        )
                    hop = following
        except TimeoutError:
            raise TryLater(
                f"{hop.target.shown} does not answer within {seconds:g} seconds.",
                hint="Try again, or allow it more time.",
            ) from None

    def close(self) -> None:
        """Let go of the threads. Requests that are under way end in their own time."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        if isinstance(self._resolver, SystemResolver):
            self._resolver.close()

    async def _asked(self, request: OutboundRequest, hop: _Hop, deadline: float) -> Replied:
        """What one host answers, if it may be asked."""
        try:
            wired = await self._checked(request, hop)
        except Refused:
            if request.witness:
                request.witness.refuse("hosts", hop.target.shown)
            raise
        if request.witness:
            request.witness.touch("hosts", hop.target.shown)
        line = Line()
        async with self._shares_of_hosts.turn(hop.target.shown):
            under_way = self._pool.submit(exchange, wired, line, self._connector, self._trust, deadline)
            try:
                return await asyncio.wrap_future(under_way)
            except asyncio.CancelledError:
                line.cut()
                raise

    async def _checked(self, request: OutboundRequest, hop: _Hop) -> Wired:
        """The hop with the addresses that it may go to; `Refused` where there are none."""
        target = hop.target
        route = allowed_route(target, hop.shown, request.hosts, request.routes)
        place = route or target
        addresses = (place.address,) if place.address else await self._resolver.addresses(place.host, place.port)
        if route is None:
            self._check_public(hop, addresses)
        named = target if place.address else place
        fields = {"host": named.shown, "connection": "close", "accept-encoding": "identity", **hop.fields}
        return Wired(
            asked=target,
            place=place,
            name=named.host,
            addresses=addresses[:MOST_ADDRESSES],
            method=hop.method,
            fields=fields,
            body=hop.body,
            answer_bytes=request.answer_bytes,
        )

    def _check_public(self, hop: _Hop, addresses: Sequence[Address]) -> None:
        for address in addresses:
            why = why_not_public(address) or ("this machine" if self._connector.is_own(address) else "")
            if why:
                raise Refused(
                    f"{hop.shown} has an address that is not public ({why}).",
                    hint="An administrator can allow it with the setting `host_routes`.",
                )


def checked_body(request: OutboundRequest) -> bytes:
    """The body of a request; `Invalid` where it is too large."""
    if len(request.body) > BODY_BYTES:
        raise Invalid(f"The body has {len(request.body):,} bytes; {BODY_BYTES:,} are sent.", hint="Send less at once.")
    return request.body


def _first(request: OutboundRequest) -> _Hop:
    fields = {"accept": "*/*", "user-agent": _AGENT, **fields_of(request.headers)}
    return _Hop(
        target=target_of(request.url), method=method_of(request.method), fields=fields, body=checked_body(request)
    )


def _next(hop: _Hop, replied: Replied) -> _Hop | None:
    """Where a redirect leads, and with what; None where the answer is none."""
    location = replied.fields.get("location", "")
    if replied.status not in _REDIRECTS or not location:
        return None
    try:
        target = redirected(hop.target, location)
    except Invalid as error:
        raise RunFailed(f"{hop.target.shown} redirects to what is no URL.", hint=error.message) from None
    following = replace(hop, target=target, sent_by=hop.target.shown)
    if hop.method in _BECOMES_GET.get(replied.status, ()):
        following = replace(following, method="GET", fields=without_body(hop.fields), body=b"")
    if target.origin != hop.target.origin:
        following = replace(following, fields=kept_elsewhere(following.fields))
    return following


def _answer(hop: _Hop, replied: Replied, hops: Sequence[str]) -> OutboundAnswer:
    return OutboundAnswer(
        status=replied.status, headers=replied.fields, body=replied.body, url=hop.target.url, hops=tuple(hops)
    )


@cache
def _usual_trust() -> ssl.SSLContext:
    return ssl.create_default_context()
