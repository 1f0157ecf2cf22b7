"""`prowess mcp --http`: access and shutdown."""

from __future__ import annotations

import asyncio
import signal
import socket
import stat
import subprocess
import sys

import httpx2
import pytest

from prowess.interfaces.listener import open_listener

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
ACCEPT = {"Accept": "application/json, text/event-stream"}


def post(address, headers=None, body=HELLO, **kwargs):
    return httpx2.post(address.url, headers={**ACCEPT, **address.headers, **(headers or {})}, json=body, **kwargs)


def test_the_token_lets_in(http_server):
    assert post(http_server).status_code == 200


@pytest.mark.parametrize("given", ["", "Bearer", "Bearer wrong", "Basic {token}", "Bearer {token}x", "{token}"])
def test_without_the_exact_token_nobody_gets_in(http_server, given):
    refused = post(http_server, {"Authorization": given.format(token=http_server.token)})
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"] == "Bearer"
    assert http_server.token not in refused.text


def test_a_token_in_the_address_is_no_token(http_server):
    refused = httpx2.post(f"{http_server.url}?token={http_server.token}", headers=ACCEPT, json=HELLO)
    assert refused.status_code == 401


@pytest.mark.parametrize("path", ["/mcp", "/", "/elsewhere"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS"])
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1.evil.example:80"}, 421),
        ({"Host": "localhost@evil.example"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost:1"}, 403),
    ],
)
def test_a_foreign_host_or_origin_is_refused_before_routing(http_server, path, method, headers, status):
    url = http_server.url.removesuffix("/mcp") + path
    refused = httpx2.request(method, url, headers={**ACCEPT, **http_server.headers, **headers})
    assert refused.status_code == status
    assert not [name for name in refused.headers if name.lower().startswith("access-control")]


def test_the_page_of_the_server_itself_is_no_foreign_origin(http_server):
    assert post(http_server, {"Origin": http_server.url.removesuffix("/mcp")}).status_code == 200


def test_a_body_that_is_not_declared_as_json_is_refused(http_server):
    headers = {**ACCEPT, **http_server.headers, "Content-Type": "text/plain"}
    refused = httpx2.post(http_server.url, headers=headers, content=b"{}")
    assert refused.status_code in (400, 415)


def test_the_secrets_are_files_that_only_their_owner_can_read(http_server):
    home = http_server.workspace.parent / ".prowess"
    for name in ("token", "mcp-state.key"):
        assert stat.S_IMODE((home / name).stat().st_mode) == 0o600
    assert (home / "token").read_text() != (home / "mcp-state.key").read_text()


@pytest.fixture
def command(workspace):
    return [sys.executable, "-m", "prowess", "mcp", "--workspace", str(workspace)]


def run(command, environment, *arguments):
    return subprocess.run(
        [*command, *arguments], env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def test_it_does_not_listen_for_others_before_there_is_a_token(command, environment, home):
    refused = run(command, environment, "--http", "--host", "0.0.0.0", "--port", "0")
    assert refused.returncode == 5
    assert "prowess mcp --make-token" in refused.stderr
    made = run(command, environment, "--make-token")
    assert made.returncode == 0
    assert (home / ".prowess/token").read_text().strip() not in made.stdout + made.stderr


def test_a_token_that_others_can_read_is_refused(command, environment, home):
    token = home / ".prowess/token"
    token.parent.mkdir()
    token.write_text("x" * 43)
    token.chmod(0o644)
    refused = run(command, environment, "--http", "--port", "0")
    assert refused.returncode == 5
    assert "chmod 600" in refused.stderr


def test_a_token_behind_a_link_is_refused(command, environment, home, tmp_path):
    (tmp_path / "elsewhere").write_text("x" * 43)
    (home / ".prowess").mkdir()
    (home / ".prowess/token").symlink_to(tmp_path / "elsewhere")
    assert run(command, environment, "--http", "--port", "0").returncode == 5


@pytest.mark.few(1)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130), (signal.SIGHUP, 0)])
def test_a_signal_ends_it_with_streams_open_and_the_token_unprinted(command, environment, home, number, code):
    with subprocess.Popen([*command, "--http", "--port", "0"], env=environment, stderr=subprocess.PIPE) as process:
        url = process.stderr.readline().decode().partition("Serving MCP at ")[2].partition(". ")[0]
        token = (home / ".prowess/token").read_text().strip()
        headers = {**ACCEPT, "Authorization": f"Bearer {token}"}
        greeted = httpx2.post(url, headers=headers, json=HELLO)
        headers["Mcp-Session-Id"] = greeted.headers["mcp-session-id"]
        with httpx2.stream("GET", url, headers=headers) as stream:
            assert stream.status_code == 200
            process.send_signal(number)
            assert process.wait(timeout=60) == code
        told = process.stderr.read().decode()
    assert "Traceback" not in told
    assert token not in told


def test_answers_do_not_wait_until_they_fill_a_packet():
    async def accepted() -> int:
        with open_listener("127.0.0.1", 0) as listener:
            taken: asyncio.Future[int] = asyncio.get_running_loop().create_future()

            def note(_reader, writer) -> None:
                connection = writer.get_extra_info("socket")
                taken.set_result(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
                writer.close()

            async with await asyncio.start_server(note, sock=listener):
                _, writer = await asyncio.open_connection(*listener.getsockname())
                set_so = await taken
                writer.close()
                return set_so

    assert asyncio.run(accepted()) == 1


def test_half_of_a_surrogate_pair_gets_a_clear_answer_under_its_id(http_server):
    call = rb'{"name": "skill_create", "arguments": {"id": "draft", "name": "\ud800", "description": "d"}}'
    body = b'{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": %s}' % call
    headers = {**ACCEPT, **http_server.headers, "Content-Type": "application/json"}
    answer = httpx2.post(http_server.url, headers=headers, content=body)
    assert (answer.status_code, answer.json()["id"]) == (400, 7)
    assert "surrogate" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "length",
    [
        "Content-Length: -5",
        "Content-Length: +5",
        "Content-Length: x",
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
    ],
)
def test_a_length_that_is_not_clear_is_refused(http_server, length):
    host = http_server.url.split("/")[2]
    name, _, port = host.partition(":")
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {http_server.token}\r\n{length}\r\n\r\n0\r\n\r\n"
    )
    with socket.create_connection((name, int(port)), timeout=60) as connection:
        connection.sendall(head.encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 400 ")
