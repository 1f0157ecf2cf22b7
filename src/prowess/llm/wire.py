"""The HTTP connections to providers: no redirect is followed, and no answer may grow without end."""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import AsyncIterator
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

import httpx2

from prowess.errors import AnswerUnusable, Unavailable


@dataclass(slots=True)
class Exchange:
    """One request and its answer: whether the server has begun to give one that is no error."""

    answered: bool = False


ANSWER_LIMIT = 32 * 1024 * 1024
"""How many bytes an answer may have."""

_exchange: ContextVar[Exchange | None] = ContextVar("exchange", default=None)
_TIMEOUT = httpx2.Timeout(600, connect=10)


def new_exchange() -> Exchange:
    """The exchange that the next request of this task belongs to."""
    exchange = Exchange()
    _exchange.set(exchange)
    return exchange


def http_client(url: str, *, limit: int = ANSWER_LIMIT) -> httpx2.AsyncClient:
    """A client for this server. To one on this machine it goes past any proxy that the environment names."""

    async def check(response: httpx2.Response) -> None:
        exchange = _exchange.get()
        if exchange is not None and response.is_success:
            exchange.answered = True
        if 300 <= response.status_code < 400:
            raise Unavailable(
                f"The server sends elsewhere: status {response.status_code}.",
                hint="Give the address that it moved to; none is followed, since the key would go there.",
            )
        if response.headers.get("content-encoding", "identity") != "identity":
            raise AnswerUnusable("The answer is compressed, which was not asked for.", hint="Check the server.")
        response.stream = _Capped(response.stream, limit)

    return httpx2.AsyncClient(
        timeout=_TIMEOUT,
        follow_redirects=False,
        trust_env=not is_loopback(url),
        verify=_authorities() if urlsplit(url).scheme == "https" else _nobody(),
        headers={"Accept-Encoding": "identity"},
        event_hooks={"response": [check]},
    )


@lru_cache(maxsize=1)
def _authorities() -> ssl.SSLContext:
    """Whose certificates are trusted: reading them takes long, so they are read once."""
    return httpx2.create_ssl_context()


@lru_cache(maxsize=1)
def _nobody() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def is_loopback(url: str) -> bool:
    """Whether the address is one of this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class _Capped(httpx2.AsyncByteStream):
    """A stream of bytes that ends with `AnswerUnusable` where it grows too long."""

    def __init__(self, stream: httpx2.AsyncByteStream | httpx2.SyncByteStream | None, limit: int) -> None:
        self._stream = stream
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if not isinstance(self._stream, httpx2.AsyncByteStream):
            return
        size = 0
        async for piece in self._stream:
            size += len(piece)
            if size > self._limit:
                raise AnswerUnusable(
                    f"The answer is longer than {self._limit:,} bytes.", hint="Ask for less, with max_tokens."
                )
            yield piece

    async def aclose(self) -> None:
        if isinstance(self._stream, httpx2.AsyncByteStream):
            await self._stream.aclose()
