"""One HTTP request and its answer, within a deadline for the whole of it, over the standard library alone."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.client import HTTPException, HTTPResponse
from ipaddress import ip_address
from threading import Timer
from typing import Self
from urllib.parse import SplitResult, urlsplit

from prowess.errors import Invalid
from prowess.outbound.line import Line

LARGEST_ANSWER = 64 * 1024**2
_CHUNK = 65_536


class Interrupted(Exception):
    """There is no whole answer: no connection, a broken one, or none in time. It may work the next time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where to send requests, and the key that opens the door there, which is never shown."""

    url: str
    host: str
    port: int
    path: str
    tls: bool
    key: str = field(repr=False)

    @classmethod
    def parse(cls, base_url: str, key: str) -> Self:
        """The address of `/embeddings` below a base URL; `Invalid` where that or the key cannot be right."""
        url = base_url.rstrip("/")
        parts, port = _split(url)
        host = parts.hostname or ""
        if parts.scheme not in ("http", "https") or not host:
            raise Invalid("the address of an embedding server is a URL with http or https", hint=_EXAMPLE)
        if parts.username is not None or parts.query or parts.fragment:
            raise Invalid("the address of an embedding server has no user, query or fragment", hint=_EXAMPLE)
        if not (key.isascii() and key.isprintable()) or key != key.strip():
            raise Invalid("the API key has characters that no key has", hint="Was a line feed copied with it?")
        if key and parts.scheme == "http" and not _is_loopback(host):
            raise Invalid("an API key is not sent over http, where others can read it", hint="Use https, or no key.")
        tls = parts.scheme == "https"
        return cls(
            url=url, host=host, port=port or (443 if tls else 80), path=f"{parts.path}/embeddings", tls=tls, key=key
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back. `retry_after` is what the server asks for, in seconds.

    The body is read only where the status is 200. A body larger than `LARGEST_ANSWER` is not read to its end.
    """

    status: int
    body: bytes = b""
    retry_after: float = 0.0


def post(address: Address, body: bytes, deadline: float) -> Answer:
    """Send JSON and take the answer, both before `deadline` on the monotonic clock; `Interrupted` otherwise."""
    headers = {"Content-Type": "application/json", "Accept": "application/json", "Connection": "close"}
    headers["Host"] = urlsplit(address.url).netloc
    if address.key:
        headers["Authorization"] = f"Bearer {address.key}"
    line = Line()
    trust = _trust() if address.tls else None
    try:
        plain = _connected(address, deadline)
        with _cut_at(deadline, line), line.over(plain, trust, address.host) as connection:
            connection.request("POST", address.path, body, headers)
            with connection.getresponse() as response:
                answer = _answer(response)
    except (OSError, HTTPException, UnicodeError) as error:
        raise Interrupted(_told(error, is_cut=line.is_cut)) from error
    if line.is_cut:
        raise Interrupted("does not answer in time")
    return answer


def _answer(response: HTTPResponse) -> Answer:
    if response.status != 200:
        asked = response.getheader("Retry-After", "")
        return Answer(status=response.status, retry_after=float(asked) if asked.isdecimal() and len(asked) < 6 else 0.0)
    body = bytearray()
    while len(body) <= LARGEST_ANSWER and (chunk := response.read1(_CHUNK)):
        body += chunk
    if response.length and len(body) <= LARGEST_ANSWER:
        raise HTTPException("breaks off in the middle of its answer")
    return Answer(status=200, body=bytes(body))


def _connected(address: Address, deadline: float) -> socket.socket:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return socket.create_connection((address.host, address.port), timeout=left)


@contextmanager
def _cut_at(deadline: float, line: Line) -> Generator[None]:
    """Ends what is being waited for at the deadline: a slow trickle does not extend it."""
    timer = Timer(max(0.0, deadline - time.monotonic()), line.cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _told(error: Exception, *, is_cut: bool) -> str:
    if is_cut or isinstance(error, TimeoutError):
        return "does not answer in time"
    if isinstance(error, ssl.SSLError):
        return f"cannot be trusted or spoken to over TLS ({error.reason})"
    if type(error) is HTTPException:
        return str(error)
    return f"cannot be reached or breaks off ({type(error).__name__})"


def _split(url: str) -> tuple[SplitResult, int | None]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise Invalid("the address of an embedding server is not a URL", hint=_EXAMPLE) from error
    if not (url.isascii() and url.isprintable()) or " " in url:
        raise Invalid("the address of an embedding server has characters that no URL has", hint=_EXAMPLE)
    return parts, port


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


@cache
def _trust() -> ssl.SSLContext:
    return ssl.create_default_context()


_EXAMPLE = "It looks like https://api.example.com/v1."
