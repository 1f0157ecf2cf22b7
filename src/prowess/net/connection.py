"""One HTTP request over one connection: connect to addresses that were checked, send, and read the response up to a size.

Redirects are not followed here. Everything blocks; a connection can be cut from another thread, whatever it waits for.
"""

from __future__ import annotations

import re
import socket
import ssl
import time
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field
from functools import cache
from http.client import HTTPConnection, HTTPException, HTTPResponse
from ipaddress import ip_address
from threading import Lock
from typing import Literal, Protocol

from prowess.lazy_dataclass import dataclass
from prowess.net.addresses import Address
from prowess.net.target import Target

CONNECT_SECONDS = 10.0
"""How long one address may take to accept a connection: another address of the host may be faster."""
MAX_ADDRESSES = 4
"""How many addresses of a host are tried."""

_CHUNK = 65_536
_LENGTH = re.compile(r"[0-9]{1,18}", re.ASCII)
_BODYLESS_STATUSES = frozenset({204, 304})
# Any port will do: connecting a datagram socket sends nothing.
_ANY_PORT = 9

FailureKind = Literal["timeout", "certificate", "tls", "protocol", "network", "encoding", "size"]


class ExchangeFailed(Exception):
    """There is no complete response. Callers word the error for their users; `detail` is safe to show."""

    def __init__(self, kind: FailureKind, detail: str = "") -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind: FailureKind = kind
        self.detail = detail


class Connector(Protocol):
    """Opens connections; raise `OSError` if that fails or takes too long."""

    def connect(self, address: Address, port: int, seconds: float) -> socket.socket:
        """Return a connection to exactly this address. Blocking."""
        ...

    def is_own(self, address: Address) -> bool:
        """Return True if an address, public or not, belongs to this machine. It does not block."""
        ...


class SystemConnector:
    """Connects over TCP. The address is used as it is: nothing is looked up again."""

    def connect(self, address: Address, port: int, seconds: float) -> socket.socket:
        """Return a connection."""
        channel = socket.socket(_family(address), socket.SOCK_STREAM)
        try:
            channel.settimeout(seconds)
            channel.connect((str(address), port))
        except BaseException:
            channel.close()
            raise
        return channel

    def is_own(self, address: Address) -> bool:
        """Return True if the route to an address starts at the address itself.

        Connecting a datagram socket only selects the route, with its source address; no packet is sent.
        """
        with socket.socket(_family(address), socket.SOCK_DGRAM) as probe:
            try:
                probe.connect((str(address), _ANY_PORT))
            except OSError:
                return False
            return ip_address(str(probe.getsockname()[0])) == address


def _family(address: Address) -> socket.AddressFamily:
    return socket.AF_INET if address.version == 4 else socket.AF_INET6


class CancellableConnection:
    """One connection, or the one that is about to be made; once cut, it stays cut."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._channel: socket.socket | None = None
        self._is_cut = False

    @property
    def is_cut(self) -> bool:
        """True if `cut` was called."""
        return self._is_cut

    def cut(self) -> None:
        """End whatever waits on the connection, now and later. Any thread may call this."""
        with self._lock:
            self._is_cut = True
            if self._channel is not None:
                _shut_down(self._channel)

    @contextmanager
    def over(self, plain: socket.socket, tls: ssl.SSLContext | None, name: str) -> Generator[HTTPConnection]:
        """Speak HTTP over a socket, which is closed at the end; with `tls`, encrypted, to a server that proves to be `name`."""
        channel = plain
        try:
            if tls is not None:
                # The handshake waits until `cut` knows the socket: a silent server would block this thread forever.
                channel = tls.wrap_socket(plain, server_hostname=name, do_handshake_on_connect=False)
            self._take(channel)
            if isinstance(channel, ssl.SSLSocket):
                channel.do_handshake()
            # The port is never used: the connection is given its socket.
            connection = HTTPConnection(name, 0)
            connection.auto_open = 0  # or it would look the name up and connect by itself, to an unchecked address
            connection.sock = channel
            yield connection
        finally:
            # Under the lock, so that `cut` never shuts down a closed socket: its descriptor number may be in use again.
            with self._lock:
                self._channel = None
            channel.close()
            plain.close()  # `wrap_socket` takes over its descriptor, but not if it fails

    def _take(self, channel: socket.socket) -> None:
        with self._lock:
            self._channel = channel
            # `cut` may have come before there was a socket to shut down.
            if self._is_cut:
                raise TimeoutError


def _shut_down(channel: socket.socket) -> None:
    # Not the method of an SSL socket, which changes its state while another thread reads from it.
    with suppress(OSError):
        socket.socket.shutdown(channel, socket.SHUT_RDWR)


@dataclass(frozen=True, slots=True, kw_only=True)
class WireRequest:
    """A request as it is sent, and where to."""

    asked: Target
    """What the request is for."""
    place: Target
    """The host to connect to: the same, unless it is routed elsewhere."""
    name: str
    """The name that the server must prove over TLS."""
    addresses: Sequence[Address]
    """Where the server may be; all of them were checked."""
    method: str
    fields: Mapping[str, str] = field(repr=False)
    body: bytes = field(default=b"", repr=False)
    answer_bytes: int
    body_of_success_only: bool = False
    """Read no body unless the status is 200."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WireResponse:
    """The response of one host."""

    status: int
    fields: Mapping[str, str]
    body: bytes = field(repr=False)


def send_request(
    request: WireRequest,
    connection: CancellableConnection,
    connector: Connector,
    tls: Callable[[], ssl.SSLContext],
    deadline: float,
) -> WireResponse:
    """Send a request and return the response; `ExchangeFailed` at `deadline` on the monotonic clock, or when cut. Blocking."""
    try:
        context = tls() if request.place.scheme == "https" else None
        plain = _connect(request, connection, connector, deadline)
        with connection.over(plain, context, request.name) as http:
            http.request(request.method, request.asked.path, request.body or None, dict(request.fields))
            with http.getresponse() as response:
                return _read_response(response, request)
    except (OSError, HTTPException, UnicodeError, ValueError) as error:
        raise _to_failure(error, is_cut=connection.is_cut) from error


@cache
def default_tls() -> ssl.SSLContext:
    """Return the TLS settings of the system; reading its certificates takes long, so they are read once."""
    return ssl.create_default_context()


def _connect(
    request: WireRequest, connection: CancellableConnection, connector: Connector, deadline: float
) -> socket.socket:
    """Return a connection to the first address that accepts one; each gets its share of the time that is left."""
    failure: OSError = TimeoutError()
    for index, address in enumerate(request.addresses):
        seconds_left = deadline - time.monotonic()
        if seconds_left <= 0 or connection.is_cut:
            raise TimeoutError
        try:
            share = seconds_left / (len(request.addresses) - index)
            channel = connector.connect(address, request.place.port, min(share, CONNECT_SECONDS))
        except OSError as error:
            failure = error
            continue
        # Never 0, which would make the socket non-blocking.
        channel.settimeout(max(deadline - time.monotonic(), 0.001))
        return channel
    raise failure


def _read_response(response: HTTPResponse, request: WireRequest) -> WireResponse:
    # `http.client` skips 100 only. Any other interim response would be taken for the answer.
    if response.status < 200:
        raise HTTPException("sent an invalid response")
    fields: dict[str, str] = {}
    for name, value in response.getheaders():
        lower = name.lower()
        # Repeated fields are equivalent to one with a comma (RFC 9110, 5.3).
        fields[lower] = f"{fields[lower]}, {value}" if lower in fields else value
    _check_length(fields)
    encoding = fields.get("content-encoding", "identity").strip().lower()
    unread = request.body_of_success_only and response.status != 200
    if unread or request.method == "HEAD" or response.status in _BODYLESS_STATUSES:
        return WireResponse(status=response.status, fields=fields, body=b"")
    body = _read_body(response, request.answer_bytes, encoding)
    if encoding != "identity":
        for stale in ("content-encoding", "content-length"):
            fields.pop(stale, None)
    return WireResponse(status=response.status, fields=fields, body=body)


def _check_length(fields: Mapping[str, str]) -> None:
    """Refuse a length that is no number, and one that contradicts another or a chunked body."""
    # `http.client` ignores a length that it cannot read, such as -5, and would take whatever comes for the body.
    lengths = (
        {value.strip() for value in fields["content-length"].split(",")} if "content-length" in fields else set[str]()
    )
    if len(lengths) > 1 or not all(_LENGTH.fullmatch(one) for one in lengths):
        raise HTTPException("sent an invalid content length")
    if lengths and "transfer-encoding" in fields:
        raise HTTPException("sent both a content length and a transfer encoding")


def _read_body(response: HTTPResponse, max_bytes: int, encoding: str) -> bytes:
    # Some servers compress although `identity` was requested; the encodings of the standard library are accepted.
    if encoding not in ("identity", "gzip", "x-gzip", "deflate"):
        raise ExchangeFailed("encoding")
    body = bytearray()
    chunks = _body_chunks(response, max_bytes)
    for chunk in chunks if encoding == "identity" else _decompressed_chunks(chunks):
        body += chunk
        if len(body) > max_bytes:
            raise ExchangeFailed("size")
    # `read1` reports an early end like a regular one; `length` is what the header promised and did not arrive.
    if response.length:
        raise HTTPException("closed the connection in the middle of its response")
    return bytes(body)


def _body_chunks(response: HTTPResponse, max_bytes: int) -> Iterator[bytes]:
    """Yield the body as it arrives; of one that is too long, a little more than is allowed."""
    while chunk := response.read1(min(_CHUNK, max_bytes + 1)):
        yield chunk


def _decompressed_chunks(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the body decompressed, at most one chunk at a time: a small body may expand to gigabytes."""
    # Adding 32 makes zlib detect whether the data have a gzip or a zlib header.
    decompressor = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
    has_begun = False
    for chunk in chunks:
        unread, has_begun = chunk, True
        while unread and not decompressor.eof:
            try:
                yield decompressor.decompress(unread, _CHUNK)
            except zlib.error as error:
                raise HTTPException("sent a response that cannot be decompressed") from error
            unread = decompressor.unconsumed_tail
    if has_begun and not decompressor.eof:
        raise HTTPException("closed the connection in the middle of its response")


def _to_failure(error: Exception, *, is_cut: bool) -> ExchangeFailed:
    if is_cut or isinstance(error, TimeoutError):
        return ExchangeFailed("timeout")
    # The order matters: a certificate error is an `SSLError`, and that is an `OSError`.
    if isinstance(error, ssl.SSLCertVerificationError):
        return ExchangeFailed("certificate", error.verify_message)
    if isinstance(error, ssl.SSLError):
        return ExchangeFailed("tls", str(error.reason))
    # Exactly this class: our own messages. Its subclasses come from `http.client`, with texts of the server.
    if type(error) is HTTPException:
        return ExchangeFailed("protocol", str(error))
    return ExchangeFailed("network", type(error).__name__)
