"""The guarded HTTP client: requests reach only hosts that were allowed, on public addresses."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field, replace
from functools import cache
from threading import Timer

from prowess.errors import Invalid, ProwessError, Refused, RunFailed, TryLater
from prowess.lazy_dataclass import dataclass
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
from prowess.threads import KeyedSemaphore, PartyShares, tenant

MAX_BODY_BYTES = 16 * MIB
"""The largest request body."""
MAX_SECONDS = 600.0
MAX_CONCURRENT = 16
"""How many requests run at a time."""
PARTIES = 4
"""How many parties share the requests that run at a time: no party gets more than its share."""

_REDIRECT_STATUSES = frozenset({301, 302, 303, 307, 308})
# As browsers do, and as RFC 9110 allows. 307 and 308 keep the method and the body.
_BECOMES_GET = {301: {"POST"}, 302: {"POST"}, 303: METHODS - {"GET", "HEAD"}}
"""The methods that a redirect turns into GET, by its status."""
_USER_AGENT = "prowess"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hop:
    """One request of a chain of redirects."""

    target: Target
    method: str
    fields: dict[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    sent_by: str = ""
    """The host that redirected here."""

    @property
    def shown(self) -> str:
        """The host, and which other host redirected to it."""
        name = f"The host {self.target.shown}"
        return f"{name} (redirected from {self.sent_by})" if self.sent_by else name


class GuardedHttpClient:
    """Sends requests with the standard library alone, without proxies, cookies or any state of earlier requests.

    Every host on the way must be one of the request's hosts. Its name is looked up once per hop; if one of its addresses is
    not public, or is this machine's, the request is refused. A routed host is reached at its route, whatever address that has,
    and must prove the name of the route, or its own name if the route is an address. After a redirect to another host only
    harmless headers are sent. No party has more than a quarter of all running requests, no host more than half, and no member
    of an organization all of them.

    A request ends when its time is up or its caller is cancelled, however slow the other side is.
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
        self._party_permits = KeyedSemaphore(max(1, at_once // PARTIES))
        self._shares = PartyShares(at_once)
        self._host_permits = KeyedSemaphore(max(1, at_once // 2))

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Send a request and return the response."""
        hop = _first_hop(request)
        seconds = min(request.seconds, MAX_SECONDS)
        # The same limit twice: `limit` ends the coroutine, `deadline` ends the thread that blocks in a socket.
        deadline = time.monotonic() + seconds
        limit = asyncio.timeout(seconds)
        hops: list[str] = []
        try:
            # Waiting for a permit counts as time of the request: the caller asked for an answer within `seconds`.
            async with limit, self._party_permits.permit(request.party), self._shares.permit(tenant()):
                while True:
                    hops.append(hop.target.shown)
                    response = await self._send_hop(request, hop, deadline)
                    next_hop = _next_hop(hop, response) if request.redirects else None
                    if next_hop is None:
                        return _to_response(hop, response, hops)
                    if len(hops) > request.redirects:
                        raise RunFailed(
                            f"{hops[0]} exceeded the limit of {request.redirects} redirects.",
                            hint="Use the URL of the last host directly.",
                        )
                    hop = next_hop
        except TimeoutError:
            raise TryLater(
                f"{hop.target.shown} timed out after {seconds:g} seconds.", hint="Try again, or raise the timeout."
            ) from None

    def close(self) -> None:
        """Release the threads. Running requests end by themselves."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        if isinstance(self._resolver, SystemResolver):
            self._resolver.close()

    async def _send_hop(self, request: HttpRequest, hop: _Hop, deadline: float) -> WireResponse:
        """Send one hop and return the response, if its host is allowed."""
        try:
            wire_request = await self._check_hop(request, hop)
        except Refused:
            if request.witness:
                request.witness.refuse("hosts", hop.target.shown)
            raise
        if request.witness:
            request.witness.touch("hosts", hop.target.shown)
        connection = CancellableConnection()
        async with self._host_permits.permit(hop.target.shown):
            # The standard library's HTTP client blocks, so each exchange has a thread.
            pending = self._pool.submit(send_request, wire_request, connection, self._connector, self._trust, deadline)
            try:
                return await asyncio.wrap_future(pending)
            except asyncio.CancelledError:
                connection.cut()  # or its thread would continue, and take one from the next request
                raise
            except ExchangeFailed as failure:
                raise _to_error(wire_request, failure) from failure

    async def _check_hop(self, request: HttpRequest, hop: _Hop) -> WireRequest:
        """Return the hop with addresses that were checked; raise `Refused` if it may not be sent."""
        target = hop.target
        route = allowed_route(target, hop.shown, request.hosts, request.routes, any_host=request.any_host)
        address = route or target
        # One lookup for the check and the connection: a second one could give another answer (DNS rebinding).
        addresses = (
            (address.address,) if address.address else await self._resolver.addresses(address.host, address.port)
        )
        # A route is the administrator's choice, so it may lead to a private address.
        if route is None:
            self._check_public(hop, addresses)
        # Certificates name hosts. A route that is an address has no name to prove, so it proves the one that was asked
        # for.
        named = target if address.address else address
        # `hop.fields` cannot override these: `normalize_headers` ignores or refuses such names. `identity`, because the
        # size limit is for the body as it is used, and a compressed one can expand a thousandfold.
        fields = {"host": named.shown, "connection": "close", "accept-encoding": "identity", **hop.fields}
        return WireRequest(
            asked=target,
            place=address,
            name=named.host,
            addresses=addresses[:MAX_ADDRESSES],
            method=hop.method,
            fields=fields,
            body=hop.body,
            answer_bytes=request.answer_bytes,
        )

    def _check_public(self, hop: _Hop, addresses: Sequence[Address]) -> None:
        # All addresses count, also those that would not be tried: a host that mixes public and private ones is refused.
        for address in addresses:
            why = non_public_reason(address) or ("this machine" if self._connector.is_own(address) else "")
            if why:
                raise Refused(
                    f"{hop.shown} has an address that is not public ({why}).",
                    hint="An administrator can allow it with `prowess policy set host_routes`.",
                )


def check_body(request: HttpRequest) -> bytes:
    """Return the body of a request; raise `Invalid` if it is too large."""
    if len(request.body) > MAX_BODY_BYTES:
        raise Invalid(
            f"The body has {len(request.body):,} bytes, more than the limit of {MAX_BODY_BYTES:,}.",
            hint="Send less data.",
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


def _next_hop(hop: _Hop, response: WireResponse) -> _Hop | None:
    """Return the request that follows a redirect; None if the response is not one."""
    location = response.fields.get("location", "")
    if response.status not in _REDIRECT_STATUSES or not location:
        return None
    try:
        target = redirect_target(hop.target, location)
    except Invalid as error:
        raise RunFailed(f"{hop.target.shown} redirects to an invalid URL.", hint=error.message) from None
    next_hop = replace(hop, target=target, sent_by=hop.target.shown)
    if hop.method in _BECOMES_GET.get(response.status, ()):
        next_hop = replace(next_hop, method="GET", fields=bodyless_headers(hop.fields), body=b"")
    # A header such as `authorization` is meant for the first host: the second could be anyone's.
    if target.origin != hop.target.origin:
        next_hop = replace(next_hop, fields=cross_origin_headers(next_hop.fields))
    return next_hop


def _to_response(hop: _Hop, response: WireResponse, hops: Sequence[str]) -> HttpResponse:
    return HttpResponse(
        status=response.status, headers=response.fields, body=response.body, url=hop.target.url, hops=tuple(hops)
    )


def _to_error(request: WireRequest, failure: ExchangeFailed) -> ProwessError:
    host, detail, later = request.asked.shown, failure.detail, "Try again later."
    match failure.kind:
        case "timeout":
            return TryLater(f"{host} timed out.", hint=later)
        case "certificate":
            return RunFailed(f"The certificate of {host} is not valid: {detail}.", hint="Check the host name.")
        case "tls":
            return TryLater(f"The TLS connection to {host} failed ({detail}).", hint=later)
        case "protocol":
            return TryLater(f"{host} {detail}.", hint=later)
        case "network":
            return TryLater(f"The connection to {host} failed ({detail}).", hint=later)
        case "encoding":
            return RunFailed(f"{host} sent an unsupported content encoding.", hint="Use another host.")
        case "size":
            return RunFailed(
                f"The response of {host} exceeds the limit of {request.answer_bytes:,} bytes.",
                hint="Request less data.",
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
    # To the reader a cut looks like the end of the stream. A body without a declared length would pass as complete.
    if connection.is_cut:
        raise ExchangeFailed("timeout")
    return response
