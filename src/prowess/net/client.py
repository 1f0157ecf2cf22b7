"""The guarded HTTP client: requests reach only hosts that were allowed, on public addresses."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from threading import Timer

from prowess.errors import Invalid, ProwessError, Refused, RunFailed, TryLater
from prowess.net.addresses import Address, Resolver, SystemResolver, non_public_reason
from prowess.net.connection import (
    MAX_ADDRESSES,
    CancellableConnection,
    Connector,
    ExchangeFailed,
    SystemConnector,
    WireRequest,
    WireResponse,
    default_tls,
    send_request,
)
from prowess.net.request import (
    METHODS,
    HttpRequest,
    HttpResponse,
    bodyless_headers,
    cross_origin_headers,
    normalize_headers,
    normalize_method,
)
from prowess.net.target import Target, allowed_route, parse_target, redirect_target
from prowess.skill.limits import MIB

_Key = tuple[asyncio.AbstractEventLoop, str]


class KeyedSemaphore:
    """At most so many turns `each` at once and event loop; whoever wants more waits. The party '' may have any number."""

    def __init__(self, each: int) -> None:
        self._each = each
        self._turns: dict[_Key, asyncio.Semaphore] = {}
        self._present: dict[_Key, int] = {}

    @asynccontextmanager
    async def turn(self, party: str) -> AsyncGenerator[None]:
        """One turn, once the party has one left."""
        if not party:
            yield
            return
        key = (asyncio.get_running_loop(), party)
        turns = self._turns.setdefault(key, asyncio.Semaphore(self._each))
        self._present[key] = self._present.get(key, 0) + 1
        try:
            async with turns:
                yield
        finally:
            self._present[key] -= 1
            if not self._present[key]:
                del self._turns[key], self._present[key]


MAX_BODY_BYTES = 16 * MIB
"""The largest body that is sent."""
MAX_SECONDS = 600.0
MAX_CONCURRENT = 16
"""How many requests are under way at a time."""
PARTIES = 4
"""So many parties can have all their requests under way at the same time."""

_REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
_BECOMES_GET = {301: {"POST"}, 302: {"POST"}, 303: METHODS - {"GET", "HEAD"}}
"""The methods that a redirect turns into GET, by its status."""
_USER_AGENT = "prowess"


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


class GuardedHttpClient:
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
        at_once: int = MAX_CONCURRENT,
    ) -> None:
        self._resolver = resolver or SystemResolver()
        self._connector = connector or SystemConnector()
        self._trust = trust or default_tls
        self._pool = ThreadPoolExecutor(at_once, thread_name_prefix="outbound")
        self._shares = KeyedSemaphore(max(1, at_once // PARTIES))
        self._shares_of_hosts = KeyedSemaphore(max(1, at_once // 2))

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Send it and read the answer."""
        hop = _first_hop(request)
        seconds = min(request.seconds, MAX_SECONDS)
        deadline = time.monotonic() + seconds
        limit = asyncio.timeout(seconds)
        hops: list[str] = []
        try:
            async with limit, self._shares.turn(request.party):
                while True:
                    hops.append(hop.target.shown)
                    replied = await self._asked(request, hop, deadline)
                    following = _next_hop(hop, replied) if request.redirects else None
                    if following is None:
                        return _to_response(hop, replied, hops)
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

    async def _asked(self, request: HttpRequest, hop: _Hop, deadline: float) -> WireResponse:
        """What one host answers, if it may be asked."""
        try:
            wired = await self._checked(request, hop)
        except Refused:
            if request.witness:
                request.witness.refuse("hosts", hop.target.shown)
            raise
        if request.witness:
            request.witness.touch("hosts", hop.target.shown)
        line = CancellableConnection()
        async with self._shares_of_hosts.turn(hop.target.shown):
            under_way = self._pool.submit(send_request, wired, line, self._connector, self._trust, deadline)
            try:
                return await asyncio.wrap_future(under_way)
            except asyncio.CancelledError:
                line.cut()
                raise
            except ExchangeFailed as failure:
                raise _to_error(wired, failure) from failure

    async def _checked(self, request: HttpRequest, hop: _Hop) -> WireRequest:
        """The hop with the addresses that it may go to; `Refused` where there are none."""
        target = hop.target
        route = allowed_route(target, hop.shown, request.hosts, request.routes)
        place = route or target
        addresses = (place.address,) if place.address else await self._resolver.addresses(place.host, place.port)
        if route is None:
            self._check_public(hop, addresses)
        named = target if place.address else place
        fields = {"host": named.shown, "connection": "close", "accept-encoding": "identity", **hop.fields}
        return WireRequest(
            asked=target,
            place=place,
            name=named.host,
            addresses=addresses[:MAX_ADDRESSES],
            method=hop.method,
            fields=fields,
            body=hop.body,
            answer_bytes=request.answer_bytes,
        )

    def _check_public(self, hop: _Hop, addresses: Sequence[Address]) -> None:
        for address in addresses:
            why = non_public_reason(address) or ("this machine" if self._connector.is_own(address) else "")
            if why:
                raise Refused(
                    f"{hop.shown} has an address that is not public ({why}).",
                    hint="An administrator can allow it with the setting `host_routes`.",
                )


def check_body(request: HttpRequest) -> bytes:
    """The body of a request; `Invalid` where it is too large."""
    if len(request.body) > MAX_BODY_BYTES:
        raise Invalid(
            f"The body has {len(request.body):,} bytes; {MAX_BODY_BYTES:,} are sent.", hint="Send less at once."
        )
    return request.body


def _first_hop(request: HttpRequest) -> _Hop:
    fields = {"accept": "*/*", "user-agent": _USER_AGENT, **normalize_headers(request.headers)}
    return _Hop(
        target=parse_target(request.url),
        method=normalize_method(request.method),
        fields=fields,
        body=check_body(request),
    )


def _next_hop(hop: _Hop, replied: WireResponse) -> _Hop | None:
    """Where a redirect leads, and with what; None where the answer is none."""
    location = replied.fields.get("location", "")
    if replied.status not in _REDIRECT_STATUSES or not location:
        return None
    try:
        target = redirect_target(hop.target, location)
    except Invalid as error:
        raise RunFailed(f"{hop.target.shown} redirects to what is no URL.", hint=error.message) from None
    following = replace(hop, target=target, sent_by=hop.target.shown)
    if hop.method in _BECOMES_GET.get(replied.status, ()):
        following = replace(following, method="GET", fields=bodyless_headers(hop.fields), body=b"")
    if target.origin != hop.target.origin:
        following = replace(following, fields=cross_origin_headers(following.fields))
    return following


def _to_response(hop: _Hop, replied: WireResponse, hops: Sequence[str]) -> HttpResponse:
    return HttpResponse(
        status=replied.status, headers=replied.fields, body=replied.body, url=hop.target.url, hops=tuple(hops)
    )


def _to_error(request: WireRequest, failure: ExchangeFailed) -> ProwessError:
    host, detail, later = request.asked.shown, failure.detail, "Try again later."
    match failure.kind:
        case "timeout":
            return TryLater(f"{host} does not answer in time.", hint=later)
        case "certificate":
            return RunFailed(f"{host} cannot prove that it is {host}: {detail}.", hint="Check its name.")
        case "tls":
            return TryLater(f"{host} cannot be spoken to over TLS ({detail}).", hint=later)
        case "protocol":
            return TryLater(f"{host} {detail}.", hint=later)
        case "network":
            return TryLater(f"{host} cannot be reached, or breaks off ({detail}).", hint=later)
        case "encoding":
            return RunFailed(f"{host} answers in an encoding that was not asked for.", hint="Ask another host.")
        case "size":
            return RunFailed(
                f"The answer of {host} has more than the {request.answer_bytes:,} bytes that are read.",
                hint="Ask for less of it.",
            )


@cache
def _shared_resolver() -> SystemResolver:
    return SystemResolver(2)


def send_to_server(
    target: Target, *, method: str, headers: Mapping[str, str], body: bytes, answer_bytes: int, deadline: float
) -> WireResponse:
    """Send a request to a server that the administrator has configured, and return its response. Blocking.

    The server may have any address, since no skill has chosen it. `ExchangeFailed` if there is no complete response before
    `deadline` on the monotonic clock. Redirects are not followed: they would carry a key elsewhere. The body of a response is
    read only where its status is 200.
    """
    connection = CancellableConnection()
    try:
        addresses = (
            (target.address,)
            if target.address
            else _shared_resolver().lookup(target.host, target.port, deadline - time.monotonic())
        )
    except TimeoutError as error:
        raise ExchangeFailed("timeout") from error
    except (OSError, UnicodeError) as error:
        raise ExchangeFailed("network", type(error).__name__) from error
    request = WireRequest(
        asked=target,
        place=target,
        name=target.host,
        addresses=addresses[:MAX_ADDRESSES],
        method=method,
        fields={"host": target.shown, "connection": "close", "accept-encoding": "identity", **headers},
        body=body,
        answer_bytes=answer_bytes,
        body_of_success_only=True,
    )
    # The timeout of a socket starts anew with every byte that arrives: a slow trickle would outlast it.
    timer = Timer(max(0.0, deadline - time.monotonic()), connection.cut)
    timer.daemon = True
    timer.start()
    try:
        response = send_request(request, connection, SystemConnector(), default_tls, deadline)
    finally:
        timer.cancel()
    if connection.is_cut:
        raise ExchangeFailed("timeout")
    return response
