"""Send one HTTP request over one connection and read the response up to a size limit; redirects are not followed."""

from __future__ import annotations

import ssl
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPResponse
from socket import socket

from prowess.errors import ProwessError, RunFailed, TryLater
from prowess.net.addresses import Address
from prowess.net.connection import CancellableConnection, Connector
from prowess.net.target import Target

CONNECT_SECONDS = 10.0
"""So long one address may take to answer at all."""

_CHUNK = 65_536
_BODYLESS_STATUSES = frozenset({204, 304})


@dataclass(frozen=True, slots=True, kw_only=True)
class WireRequest:
    """A request as it goes over the wire, to whom, and where that is."""

    asked: Target
    """What errors are about."""
    place: Target
    """What is connected to: the same, unless it is routed."""
    name: str
    """What the other side has to prove to be, over TLS."""
    addresses: Sequence[Address]
    """Where it may be, each of them checked."""
    method: str
    fields: Mapping[str, str] = field(repr=False)
    body: bytes = field(default=b"", repr=False)
    answer_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WireResponse:
    """The answer of one host."""

    status: int
    fields: Mapping[str, str]
    body: bytes = field(repr=False)


def send_request(
    wired: WireRequest,
    line: CancellableConnection,
    connector: Connector,
    trust: Callable[[], ssl.SSLContext],
    deadline: float,
) -> WireResponse:
    """Send and read, before `deadline` on the monotonic clock or until the line is cut. It blocks."""
    try:
        context = trust() if wired.place.scheme == "https" else None
        plain = _connect(wired, line, connector, deadline)
        with line.over(plain, context, wired.name) as connection:
            connection.request(wired.method, wired.asked.path, wired.body or None, dict(wired.fields))
            with connection.getresponse() as response:
                return _read_response(response, wired)
    except (OSError, HTTPException, UnicodeError, ValueError) as error:
        raise _to_error(wired.asked.shown, error, is_cut=line.is_cut) from error


def _connect(wired: WireRequest, line: CancellableConnection, connector: Connector, deadline: float) -> socket:
    """A connection to the first address that takes one; each has its share of the time that is left."""
    fault: OSError = TimeoutError()
    for at, address in enumerate(wired.addresses):
        left = deadline - time.monotonic()
        if left <= 0 or line.is_cut:
            raise TimeoutError
        try:
            share = left / (len(wired.addresses) - at)
            channel = connector.connect(address, wired.place.port, min(share, CONNECT_SECONDS))
        except OSError as error:
            fault = error
            continue
        channel.settimeout(max(deadline - time.monotonic(), 0.001))
        return channel
    raise fault


def _read_response(response: HTTPResponse, wired: WireRequest) -> WireResponse:
    if response.status < 200:
        raise HTTPException("answers with what is no answer")
    fields: dict[str, str] = {}
    for name, value in response.getheaders():
        lower = name.lower()
        fields[lower] = f"{fields[lower]}, {value}" if lower in fields else value
    encoding = fields.get("content-encoding", "identity").strip().lower()
    if wired.method == "HEAD" or response.status in _BODYLESS_STATUSES:
        return WireResponse(status=response.status, fields=fields, body=b"")
    body = _read_body(response, wired, encoding)
    if encoding != "identity":
        for stale in ("content-encoding", "content-length"):
            fields.pop(stale, None)
    return WireResponse(status=response.status, fields=fields, body=body)


def _read_body(response: HTTPResponse, wired: WireRequest, encoding: str) -> bytes:
    most, host = wired.answer_bytes, wired.asked.shown
    if encoding not in ("identity", "gzip", "x-gzip", "deflate"):
        raise RunFailed(f"{host} answers in an encoding that was not asked for.", hint="Ask another host.")
    body = bytearray()
    for piece in _body_chunks(response, most) if encoding == "identity" else _decompressed_chunks(response, most):
        body += piece
        if len(body) > most:
            raise RunFailed(
                f"The answer of {host} has more than the {most:,} bytes that are read.", hint="Ask for less of it."
            )
    if response.length:
        raise HTTPException("breaks off in the middle of its answer")
    return bytes(body)


def _body_chunks(response: HTTPResponse, most: int) -> Iterator[bytes]:
    """The body as it comes; of one that is longer, a little more than is wanted."""
    while chunk := response.read1(min(_CHUNK, most + 1)):
        yield chunk


def _decompressed_chunks(response: HTTPResponse, most: int) -> Iterator[bytes]:
    """The body unpacked, never more than a chunk at a time, however small it was packed."""
    unpacking = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
    begun = False
    for chunk in _body_chunks(response, most):
        left, begun = chunk, True
        while left and not unpacking.eof:
            try:
                yield unpacking.decompress(left, _CHUNK)
            except zlib.error as error:
                raise HTTPException("answers with what cannot be unpacked") from error
            left = unpacking.unconsumed_tail
    if begun and not unpacking.eof:
        raise HTTPException("breaks off in the middle of its answer")


def _to_error(host: str, error: Exception, *, is_cut: bool) -> ProwessError:
    later = "Try again later."
    if is_cut or isinstance(error, TimeoutError):
        return TryLater(f"{host} does not answer in time.", hint=later)
    if isinstance(error, ssl.SSLCertVerificationError):
        return RunFailed(f"{host} cannot prove that it is {host}: {error.verify_message}.", hint="Check its name.")
    if isinstance(error, ssl.SSLError):
        return TryLater(f"{host} cannot be spoken to over TLS ({error.reason}).", hint=later)
    if type(error) is HTTPException:
        return TryLater(f"{host} {error}.", hint=later)
    return TryLater(f"{host} cannot be reached, or breaks off ({type(error).__name__}).", hint=later)
