"""The HTTP transport: every request of the SDK goes through the guarded client, with its rules for hosts and addresses."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

import httpx2

from prowess.connectors.config import ConnectorConfig
from prowess.errors import ProwessError, Refused, RunFailed, TryLater
from prowess.net.request import HttpClient, HttpRequest
from prowess.net.target import parse_target

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

MAX_ANSWER_BYTES = 4 * 1024 * 1024
_MAX_EVENTS = 10_000
"""The most messages in an answer: the SDK answers each request among them with a request of its own."""
_NO_SUCH_METHOD = b"-32601"
_HOP_HEADERS = frozenset({"host", "connection", "content-length", "accept-encoding", "transfer-encoding"})


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Sends requests to one server. `failure` is the last request that could not be sent, or whose answer was refused."""

    def __init__(self, config: ConnectorConfig, client: HttpClient, *, routes: Mapping[str, str], party: str) -> None:
        target = parse_target(config.url)
        self.failure: ProwessError | None = None
        self._client = client
        self._host = target.shown
        # A route is how a person allows an address that is not public, or a server without encryption.
        self._routes = {target.shown: f"{target.scheme}://{target.shown}", **routes} if config.private else routes
        self._seconds = float(config.seconds)
        self._party = party

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request. A failure becomes a response, because an exception here would end the session at once."""
        # The stream of a server's own messages never ends, and nothing is done with them.
        if request.method == "GET":
            return httpx2.Response(405, request=request)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP_HEADERS}
        try:
            answer = await self._client.send(
                HttpRequest(
                    url=str(request.url),
                    method=request.method,
                    headers=headers,
                    body=await request.aread(),
                    hosts=(self._host,),
                    routes=self._routes,
                    seconds=self._seconds,
                    answer_bytes=MAX_ANSWER_BYTES,
                    redirects=0,
                    party=self._party,
                )
            )
        except ProwessError as error:
            self.failure = error
            return httpx2.Response(599, request=request)
        if answer.status in (401, 403):
            self.failure = Refused(
                f"The server refused the request (status {answer.status}).",
                hint="Check the headers of the connector and the variables that they refer to.",
            )
        elif answer.status == 404 and "mcp-session-id" in request.headers and _NO_SUCH_METHOD not in answer.body:
            # It was restarted, for example. The next request begins another session.
            self.failure = TryLater("The server has ended the session.", hint="Try again.")
        elif answer.body.count(b"\ndata:") + answer.body.count(b"\rdata:") > _MAX_EVENTS:
            self.failure = RunFailed("The server sent too many messages.", hint="Use another server.")
            return httpx2.Response(599, request=request)
        return httpx2.Response(answer.status, headers=dict(answer.headers), content=answer.body, request=request)


def http_streams(
    config: ConnectorConfig, transport: GuardedTransport, headers: Mapping[str, str]
) -> tuple[httpx2.AsyncClient, AbstractAsyncContextManager[TransportStreams]]:
    """Return a client for the SDK and the streams over it. Close the client after the streams."""
    from mcp.client.streamable_http import streamable_http_client

    client = httpx2.AsyncClient(transport=transport, headers=dict(headers), timeout=None, follow_redirects=False)
    return client, streamable_http_client(config.url, http_client=client, max_sse_event_size=MAX_ANSWER_BYTES)
