"""An internet of our own: names with scripted addresses, and one TLS server on loopback that is whoever it is taken for."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

import pytest

from prowess.errors import RunFailed
from prowess.net.client import GuardedHttpClient
from prowess.net.request import HttpRequest, HttpResponse

PUBLIC = "93.184.216.34"
NAMES = ("*.example.com", "example.com", "*.example.org")


@dataclass(frozen=True)
class Heard:
    """One request as a server hears it."""

    name: str
    line: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return self.line.split(" ")[1]


Reply = Callable[[Heard], bytes | Iterator[bytes]]


@dataclass
class Internet:
    """What is out there, what was looked up, connected to and heard."""

    port: int
    trust: ssl.SSLContext
    names: dict[str, list[list[str]]] = field(default_factory=dict)
    """The addresses of a name, lookup by lookup; the last ones stay."""
    reply: Reply = lambda _: b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    dead: set[str] = field(default_factory=set)
    own: set[str] = field(default_factory=set)
    looked_up: list[str] = field(default_factory=list)
    connected: list[tuple[str, int]] = field(default_factory=list)
    heard: list[Heard] = field(default_factory=list)

    async def addresses(self, host: str, port: int):  # noqa: ARG002
        self.looked_up.append(host)
        if host not in self.names:
            raise RunFailed(f"Host {host} not found.")
        answers = self.names[host]
        return tuple(map(ip_address, answers.pop(0) if len(answers) > 1 else answers[0]))

    def connect(self, address, port: int, seconds: float) -> socket.socket:
        self.connected.append((str(address), port))
        if str(address) in self.dead:
            raise ConnectionRefusedError
        return socket.create_connection(("127.0.0.1", self.port), timeout=seconds)

    def is_own(self, address) -> bool:
        return str(address) in self.own

    def send(self, url: str, **settings) -> HttpResponse:
        """What a request with the guard in between gives."""
        outbound = GuardedHttpClient(resolver=self, connector=self, trust=lambda: self.trust)
        settings.setdefault("hosts", ("example.com", "*.example.com"))
        try:
            return asyncio.run(outbound.send(HttpRequest(url=url, **settings)))
        finally:
            outbound.close()


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate and its key in one file, made on the spot."""
    if shutil.which("openssl") is None:
        pytest.skip("the openssl program is not installed")
    folder = tmp_path_factory.mktemp("certificate")
    made = folder / "both.pem"
    names = ",".join([*(f"DNS:{name}" for name in NAMES), f"IP:{PUBLIC}", "IP:2606:4700::6810:84e5"])
    command = [
        *(
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "3",
        ),
        *("-subj", "/CN=example.com", "-addext", f"subjectAltName={names}"),
        *("-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")),
    ]
    subprocess.run(command, check=True, capture_output=True)
    made.write_text((folder / "key.pem").read_text() + (folder / "cert.pem").read_text())
    return made


@pytest.fixture
def internet(certificate: Path) -> Iterator[Internet]:
    listening = socket.create_server(("127.0.0.1", 0))
    trust = ssl.create_default_context(cafile=str(certificate))
    made = Internet(port=listening.getsockname()[1], trust=trust)
    made.names["example.com"] = made.names["api.example.com"] = [[PUBLIC]]
    workers = ThreadPoolExecutor(8)

    def serve(plain: socket.socket) -> None:
        names: list[str] = []
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        context.sni_callback = lambda _socket, name, _context: names.append(name or "")
        try:
            plain.settimeout(20)
            with context.wrap_socket(plain, server_side=True) as channel:
                answered(made, channel, names[0] if names else "")
        except OSError:
            pass
        finally:
            plain.close()

    def accept() -> None:
        while True:
            try:
                plain, _ = listening.accept()
            except OSError:
                return
            workers.submit(serve, plain)

    accepting = threading.Thread(target=accept)
    accepting.start()
    yield made
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()
    accepting.join()
    workers.shutdown()


def answered(internet: Internet, channel: socket.socket, name: str) -> None:
    """Hear one request and answer it."""
    with channel.makefile("rb") as reading:
        line = reading.readline().decode().strip()
        headers: dict[str, str] = {}
        while (text := reading.readline().decode("latin-1").strip()) and text:
            key, _, value = text.partition(":")
            headers[key.lower()] = value.strip()
        body = reading.read(int(headers.get("content-length", 0)))
    heard = Heard(name=name, line=line, headers=headers, body=body)
    internet.heard.append(heard)
    replied = internet.reply(heard)
    for piece in [replied] if isinstance(replied, bytes) else replied:
        channel.sendall(piece)
