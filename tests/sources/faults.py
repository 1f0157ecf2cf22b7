"""A web site on loopback that can go wrong in every way that we know: one fault at a time, on every path or on some.

`FaultSite` serves `files` correctly, with ETags, until `fault` names one of `FAULTS`. A fault is for any file, or only for
JSON (`LIST_FAULTS`: those change a list of skills). `ends_with` restricts it to paths with that ending.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any

TICK = 0.02
"""Seconds between two bytes of a slow answer."""
TYPES = {".json": "application/json", ".md": "text/markdown", ".zip": "application/zip", ".gz": "application/gzip"}


@dataclass(frozen=True)
class Exchange:
    """One request to the site, and how it would be answered correctly."""

    site: FaultSite
    channel: socket.socket
    path: str
    headers: Mapping[str, str]
    body: bytes | None

    @property
    def etag(self) -> str:
        return f'"{hashlib.sha256(self.body or b"").hexdigest()[:16]}"'

    @property
    def type(self) -> str:
        return next((kind for suffix, kind in TYPES.items() if self.path.endswith(suffix)), "application/octet-stream")

    def send(self, status: int, body: bytes = b"", /, **fields: object) -> None:
        """Answer with a status; `length=None` leaves the length out, other fields are headers."""
        lines = {"content_type": self.type, "content_length": len(body), **fields}
        text = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in lines.items() if value is not None)
        self.channel.sendall(f"HTTP/1.1 {status} X\r\n{text}\r\n".encode() + body)

    def answer(self) -> None:
        """Answer correctly."""
        if self.body is None:
            self.send(404, b"not here")
        elif self.headers.get("if-none-match", "").removeprefix("W/") == self.etag:
            self.send(304, content_length=None, etag=self.etag)
        else:
            self.send(200, self.body, etag=self.etag)

    def drip(self, data: bytes) -> None:
        """Send byte by byte, until the site stops or the other side leaves."""
        for value in data:
            if self.site.stopping.wait(TICK):
                return
            self.channel.sendall(bytes([value]))

    @property
    def good(self) -> bytes:
        return self.body or b""


Fault = Callable[[Exchange], None]


def _no_answer(exchange: Exchange) -> None:
    exchange.site.stopping.wait()


def _reset(exchange: Exchange) -> None:
    # With a linger time of 0, closing sends RST.
    exchange.channel.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _endless_body(exchange: Exchange) -> None:
    exchange.send(200, exchange.good, content_length=None)
    while not exchange.site.stopping.is_set():
        exchange.channel.sendall(b"x" * 65536)


def _endless_headers(exchange: Exchange) -> None:
    exchange.channel.sendall(b"HTTP/1.1 200 OK\r\n")
    while not exchange.site.stopping.is_set():
        exchange.channel.sendall(b"x-more: " + b"y" * 1000 + b"\r\n")


def _truncated(exchange: Exchange) -> None:
    exchange.send(200, exchange.good[: len(exchange.good) // 2], content_length=len(exchange.good))


def _cut_chunks(exchange: Exchange) -> None:
    half = exchange.good[: len(exchange.good) // 2]
    exchange.send(200, b"%x\r\n%b\r\n" % (len(half), half), content_length=None, transfer_encoding="chunked")


def _gzip(body: Callable[[bytes], bytes]) -> Fault:
    return lambda exchange: exchange.send(200, body(exchange.good), content_encoding="gzip")


@cache
def _bomb() -> bytes:
    return gzip.compress(b"\0" * 20_000_000)


def _status(status: int, **fields: object) -> Fault:
    return lambda exchange: exchange.send(status, b"out of order", **fields)


def _redirect(target: str) -> Fault:
    return lambda exchange: exchange.send(302, location=target.format(port=exchange.site.port))


def _redirect_on_and_on(exchange: Exchange) -> None:
    exchange.send(302, location=exchange.path + "x")


def _replaced(change: Callable[[bytes], bytes], **fields: object) -> Fault:
    return lambda exchange: exchange.send(200, change(exchange.good), **fields)


def _list_changed(change: Callable[[list[Any]], list[Any]]) -> Fault:
    def altered(body: bytes) -> bytes:
        data = json.loads(body)
        return json.dumps(
            {key: change(value) if isinstance(value, list) else value for key, value in data.items()}
        ).encode()

    return _replaced(altered)


def _same_etag_other_bytes(exchange: Exchange) -> None:
    """Claim that nothing changed although the bytes did: the correct answer to the ETag, for other bytes."""
    if "if-none-match" in exchange.headers:
        exchange.send(304, content_length=None, etag=exchange.headers["if-none-match"])
    else:
        exchange.answer()


FAULTS: dict[str, Fault] = {
    "no answer": _no_answer,
    "slow headers": lambda exchange: exchange.drip(b"HTTP/1.1 200 OK\r\nx-a: " + b"y" * 10_000),
    "slow body": lambda exchange: (exchange.send(200, content_length=9_999), exchange.drip(b"x" * 9_999))[0],
    "endless headers": _endless_headers,
    "endless body": _endless_body,
    "connection reset": _reset,
    "closed without an answer": lambda _: None,
    "not HTTP": lambda exchange: exchange.channel.sendall(b"SSH-2.0-OpenSSH_9.2\r\n"),
    "truncated": _truncated,
    "truncated chunks": _cut_chunks,
    "length too short": lambda exchange: exchange.send(200, exchange.good, content_length=20),
    "two lengths": lambda exchange: exchange.send(200, exchange.good, content_length="5, 7"),
    "length and chunks": lambda exchange: exchange.send(200, exchange.good, transfer_encoding="chunked"),
    "500": _status(500),
    "502": _status(502),
    "503": _status(503, retry_after="120"),
    "429": _status(429, retry_after="60"),
    "403": _status(403),
    "missing file": _status(404),
    "304 unasked": lambda exchange: exchange.send(304, content_length=None),
    "same ETag, other bytes": _same_etag_other_bytes,
    "new ETag, same bytes": _replaced(lambda body: body, etag='"another"'),
    "redirect loop": lambda exchange: exchange.send(302, location=exchange.path),
    "too many redirects": _redirect_on_and_on,
    "redirect to a private address": _redirect("https://10.0.0.1/x"),
    "redirect to cloud metadata": _redirect("http://169.254.169.254/latest/meta-data"),
    "redirect to loopback by number": _redirect("https://2130706433/x"),
    "redirect to another port": _redirect("http://127.0.0.1:1/x"),
    "redirect to a file": _redirect("file:///etc/passwd"),
    "redirect to plain http": _redirect("http://93.184.216.34/x"),
    "wrong content type": _replaced(lambda body: body, content_type="image/png"),
    "error page with 200": _replaced(lambda _: b"<!doctype html><h1>Oops</h1>", content_type="text/html"),
    "error page in disguise": _replaced(lambda _: b"\n<html><h1>Oops</h1></html>"),
    "gzip bomb": _gzip(lambda _: _bomb()),
    "bad gzip": _gzip(lambda body: b"\x1f\x8b\x08\0" + body),
    "truncated gzip": _gzip(lambda body: gzip.compress(body)[:-9]),
    "unknown encoding": _replaced(lambda body: body, content_encoding="br"),
    "invalid UTF-8": _replaced(lambda body: body[:30] + b"\xff\xfe\xc0" + body[30:]),
    "empty body": _replaced(lambda _: b""),
}
"""Faults of any file."""

LIST_FAULTS: dict[str, Fault] = {
    "half list": _list_changed(lambda rows: rows[: len(rows) // 2]),
    "empty list": _list_changed(lambda _: []),
    "duplicate names": _list_changed(lambda rows: [*rows, *rows]),
    "wrong digests": _replaced(lambda body: body.replace(b'"sha256:', b'"sha256:0')),
    "no list": _replaced(lambda _: b'{"skills": {}}'),
    "unknown schema": _replaced(lambda _: b'{"$schema": "https://example.com/9", "skills": []}'),
    "invalid JSON": _replaced(lambda body: body[:-1]),
    "deeply nested JSON": _replaced(lambda _: b"[" * 200_000),
    "huge JSON": _replaced(lambda body: body + b" " * 20_000_000),
    "not an object": _replaced(lambda _: b"[1, 2]"),
}
"""Faults of a JSON file that lists skills."""

QUICK = frozenset(
    {
        "no answer",
        "truncated",
        "503",
        "redirect to a private address",
        "error page with 200",
        "gzip bomb",
        "wrong digests",
    }
)
"""One fault of each sort, for tests that try all of them only in `make test-all`."""

HARMLESS = frozenset({"new ETag, same bytes", "same ETag, other bytes"})
"""After these, a fetch finds nothing new, and has no error to report."""


@dataclass
class FaultSite:
    """A site, its files by path, and what is wrong with it now."""

    port: int = 0
    files: dict[str, bytes] = field(default_factory=dict)
    redirects: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Redirects by path: a status and where to."""
    fault: str = ""
    ends_with: str = ""
    requests: list[tuple[str, Mapping[str, str]]] = field(default_factory=list)
    stopping: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def routes(self) -> dict[str, str]:
        """The routes under which the guarded client may use this site."""
        return {f"127.0.0.1:{self.port}": self.url}

    def publish(self, skills: Mapping[str, bytes]) -> None:
        """Serve skills as `/NAME/SKILL.md` and in a well-known index of v0.2.0."""
        rows: list[dict[str, str]] = []
        for name, body in skills.items():
            digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
            url, kind = f"/{name}/SKILL.md", "skill-md"
            self.files[url] = body
            rows.append({"name": name, "type": kind, "description": "Does it.", "url": url, "digest": digest})
        schema = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
        index = json.dumps({"$schema": schema, "skills": rows}).encode()
        self.files["/.well-known/agent-skills/index.json"] = index

    def handle(self, channel: socket.socket) -> None:
        """Answer one request, or fail to."""
        with channel.makefile("rb") as reading:
            line = reading.readline().decode("latin-1").split(" ")
            headers: dict[str, str] = {}
            while text := reading.readline().decode("latin-1").strip():
                name, _, value = text.partition(":")
                headers[name.lower()] = value.strip()
        if len(line) < 2:
            return
        path = line[1]
        self.requests.append((path, headers))
        exchange = Exchange(self, channel, path, headers, self.files.get(path.partition("?")[0]))
        if self.fault and path.endswith(self.ends_with):
            {**FAULTS, **LIST_FAULTS}[self.fault](exchange)
        elif path in self.redirects:
            status, target = self.redirects[path]
            exchange.send(status, location=target)
        else:
            exchange.answer()


@contextmanager
def fault_site() -> Iterator[FaultSite]:
    """Run a site; at the end every connection is closed and every thread has ended."""
    listening = socket.create_server(("127.0.0.1", 0))
    site = FaultSite(port=listening.getsockname()[1])
    channels: set[socket.socket] = set()
    threads: list[threading.Thread] = []

    def serve(channel: socket.socket) -> None:
        with suppress(OSError), channel:
            site.handle(channel)
        channels.discard(channel)

    def accept() -> None:
        while True:
            try:
                channel, _ = listening.accept()
            except OSError:
                return
            channels.add(channel)
            threads.append(threading.Thread(target=serve, args=(channel,)))
            threads[-1].start()

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield site
    finally:
        site.stopping.set()
        with suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        accepting.join()
        for channel in list(channels):
            with suppress(OSError):
                channel.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()
