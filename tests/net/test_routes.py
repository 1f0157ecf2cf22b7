"""Hosts that an administrator sends elsewhere, through the system's own lookups and connections."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from prowess.errors import Invalid, Refused, RunFailed, TryLater
from prowess.net.client import GuardedHttpClient
from prowess.net.request import HttpRequest, HttpResponse


class Echo(BaseHTTPRequestHandler):
    """Tells what it was asked."""

    def do_GET(self) -> None:
        location = self.headers.get("X-Redirect")
        told = json.dumps({"path": self.path, "host": self.headers["Host"]}).encode()
        self.send_response(302 if location else 200)
        self.send_header("Content-Length", str(len(told)))
        if location:
            self.send_header("Location", location)
        self.end_headers()
        self.wfile.write(told)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def port() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    serving = Thread(target=server.serve_forever, args=(0.01,))
    serving.start()
    yield server.server_port
    server.shutdown()
    serving.join()
    server.server_close()


def send(url: str, **settings) -> HttpResponse:
    outbound = GuardedHttpClient()
    try:
        return asyncio.run(outbound.send(HttpRequest(url=url, **settings)))
    finally:
        outbound.close()


def test_a_routed_host_is_asked_where_its_route_leads_under_its_own_name(port):
    answer = send(
        "https://api.example.com/v1?x=1",
        hosts=("api.example.com",),
        routes={"API.example.com": f"http://127.0.0.1:{port}"},
    )
    assert json.loads(answer.body) == {"path": "/v1?x=1", "host": "api.example.com"}
    assert (answer.url, answer.hops) == ("https://api.example.com/v1?x=1", ("api.example.com",))


def test_a_route_to_a_name_is_asked_under_that_name(port):
    answer = send(
        "https://api.example.com/", hosts=("api.example.com",), routes={"api.example.com": f"http://localhost:{port}"}
    )
    assert json.loads(answer.body)["host"] == f"localhost:{port}"


def test_plain_http_and_this_machine_are_reached_through_a_route_alone(port):
    here = f"127.0.0.1:{port}"
    assert send(f"http://{here}/", hosts=(here,), routes={here: f"http://{here}"}).status == 200
    with pytest.raises(Refused, match="only be reached over https"):
        send(f"http://{here}/", hosts=(here,))
    with pytest.raises(Refused, match="this machine"):
        send(f"https://{here}/", hosts=(here,))
    with pytest.raises(Refused, match="this machine"):
        send("https://localhost/", hosts=("localhost",))


def test_a_route_grants_nothing_to_a_skill_that_does_not_declare_the_host(port):
    with pytest.raises(Refused, match="not one of the skill's hosts"):
        send("https://api.example.com/", routes={"api.example.com": f"http://127.0.0.1:{port}"})


def test_a_route_is_for_one_host_and_not_for_those_below_it(port):
    routes = {"example.com": f"http://127.0.0.1:{port}"}
    with pytest.raises(Refused):
        send("http://api.example.com/", hosts=("*.example.com",), routes=routes)


def test_a_routed_host_cannot_redirect_to_where_it_really_is(port):
    here = f"http://127.0.0.1:{port}"
    with pytest.raises(Refused, match=r"127\.0\.0\.1"):
        send(
            "https://a.example.com/",
            hosts=("a.example.com",),
            routes={"a.example.com": here},
            headers={"X-Redirect": here},
        )


def test_a_redirect_of_a_routed_host_to_itself_is_followed_through_the_route(port):
    routes = {"a.example.com": f"http://127.0.0.1:{port}", "b.example.com": f"http://127.0.0.1:{port}"}
    answer = send(
        "https://a.example.com/",
        hosts=("a.example.com", "b.example.com"),
        routes=routes,
        headers={"X-Redirect": "https://b.example.com/there"},
    )
    assert (json.loads(answer.body)["path"], answer.hops) == ("/there", ("a.example.com", "b.example.com"))


def test_a_route_that_is_none_is_told(port):
    with pytest.raises(Invalid, match="route"):
        send(
            "https://a.example.com/",
            hosts=("a.example.com",),
            routes={"a.example.com": f"http://127.0.0.1:{port}/below"},
        )


def test_a_port_where_nobody_listens_is_told_as_such():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = taken.getsockname()[1]
    with pytest.raises(TryLater, match=r"connection to a\.example\.com failed"):
        send("https://a.example.com/", hosts=("a.example.com",), routes={"a.example.com": f"http://127.0.0.1:{free}"})


@pytest.mark.parametrize(
    ("fault", "error", "told"),
    [
        (socket.gaierror(socket.EAI_NONAME, "x"), RunFailed, "Host nobody.test not found"),
        (socket.gaierror(socket.EAI_AGAIN, "x"), TryLater, "failed temporarily"),
        (UnicodeError("label too long"), TryLater, "DNS lookup of nobody.test failed"),
    ],
)
def test_a_name_that_cannot_be_looked_up_is_told_as_such(monkeypatch, fault, error, told):
    def fail(*_: object, **__: object) -> None:
        raise fault

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    with pytest.raises(error, match=told):
        send("https://nobody.test/", hosts=("nobody.test",))


def test_an_address_of_one_network_card_is_no_address_to_connect_to(monkeypatch):
    found = (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("fe80::1%eth0", 443, 0, 2))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [found])
    with pytest.raises(RunFailed, match="invalid address"):
        send("https://nobody.test/", hosts=("nobody.test",))
