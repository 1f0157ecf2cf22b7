"""What a client may send over a connection, byte by byte."""

import asyncio
import socket
from contextlib import asynccontextmanager, suppress

import pytest
import uvicorn

from prowess.errors import Unavailable
from prowess.interfaces.listener import ConnectionRoom, GuardedProtocol, open_listener, serve_http

pytestmark = pytest.mark.anyio

HEAD = b"POST /x HTTP/1.1\r\nHost: a\r\n"
LARGE = b"y" * 70_000


class Echo:
    """An ASGI app that reads a body and answers with what it got."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[bytes, bytes], bytes]] = []

    async def __call__(self, scope, receive, send):
        body = b""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message["body"]
            if not message["more_body"]:
                break
        self.calls.append((scope["path"], dict(scope["headers"]), body))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})


async def refuse(_scope, _receive, send):
    """An ASGI app that answers without reading the body."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"no"})


@asynccontextmanager
async def connected(app):
    """Serve an app, and give the reader and writer of a connection."""
    async with listening(app, socket.create_server(("127.0.0.1", 0))) as (address, _):
        reader, writer = await asyncio.open_connection(*address)
        try:
            async with asyncio.timeout(20):
                yield reader, writer
        finally:
            writer.close()


@asynccontextmanager
async def listening(app, listener, room=None):
    """Serve an app, and give its address and its connections."""
    config = uvicorn.Config(app, http=GuardedProtocol, ws="none", lifespan="off", log_level="critical")
    config.load()
    state = uvicorn.Server(config).server_state
    serving = await asyncio.get_running_loop().create_server(
        lambda: GuardedProtocol(config=config, server_state=state, app_state={}, room=room), sock=listener
    )
    try:
        yield listener.getsockname(), state.connections
    finally:
        serving.close()


async def answer(app, *sent):
    """Send parts one after another, and return everything that comes back until the connection ends."""
    async with connected(app) as (reader, writer):
        for part in sent:
            writer.write(part)
            try:
                await writer.drain()
            except ConnectionError:
                break
        try:
            return await reader.read()
        except ConnectionError:  # closed while more was sent than the server has read
            return b"reset"


REFUSED = {
    "two framings": HEAD + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": HEAD + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    "signed length": HEAD + b"Content-Length: +3\r\n\r\nabc",
    "negative length": HEAD + b"Content-Length: -3\r\n\r\nabc",
    "listed length": HEAD + b"Content-Length: 3, 3\r\n\r\nabc",
    "huge length": HEAD + b"Content-Length: 99999999999999999999999\r\n\r\nabc",
    "unknown coding": HEAD + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunked not last": HEAD + b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "hidden coding": HEAD + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "folded": HEAD + b"X-A: 1\r\n Content-Length: 3\r\n\r\nabc",
    "zero byte": HEAD + b"X-A: 1\x002\r\n\r\n",
    "bare return": HEAD + b"X-A: 1\rX-B: 2\r\n\r\n",
    "bare line feed": b"GET /x HTTP/1.1\nHost: a\n\n",
    "header without colon": HEAD + b"Content-Length\r\n\r\n",
    "empty name": HEAD + b": 3\r\n\r\n",
    "chunk size": HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n",
    "chunk size with sign": HEAD + b"Transfer-Encoding: chunked\r\n\r\n-3\r\nabc\r\n0\r\n\r\n",
    "chunk longer than said": HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabcde\r\n0\r\n\r\n",
    "version": b"GET /x HTTP/3.7\r\nHost: a\r\n\r\n",
    "no version": b"GET /x\r\n\r\n",
    "method": b"GE T /x HTTP/1.1\r\nHost: a\r\n\r\n",
    "address": b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n",
    "address with a host": b"GET http://evil.example/x HTTP/1.1\r\nHost: a\r\n\r\n",
    "connect": b"CONNECT example.com:443 HTTP/1.1\r\nHost: a\r\n\r\n",
    "another protocol": b"\x16\x03\x01\x02\x00\x01",
    "large header": HEAD + b"X-A: " + LARGE + b"\r\n\r\n",
    "many headers": HEAD + b"X-A: 1\r\n" * 20_000 + b"\r\n",
    "large address": b"GET /" + LARGE + b" HTTP/1.1\r\nHost: a\r\n\r\n",
}


@pytest.mark.parametrize("sent", REFUSED.values(), ids=REFUSED)
async def test_a_request_that_can_be_read_in_two_ways_is_refused_and_reaches_nobody(sent):
    app = Echo()
    got = await answer(app, sent)
    assert got == b"reset" or (got.startswith(b"HTTP/1.1 400 ") and got.count(b"HTTP/1.1") == 1)
    assert app.calls == []


async def test_large_headers_are_refused_before_they_end():
    app = Echo()
    for begin in (b"GET /", HEAD + b"X-A: ", HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;"):
        assert (await answer(app, begin, *[LARGE] * 8)).startswith((b"HTTP/1.1 400 ", b"reset"))
    # A trailer that never ends.
    await answer(app, HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX-T: ", *[LARGE] * 8)
    assert app.calls == []


async def test_trailers_are_no_headers_and_spaces_around_a_value_no_part_of_it():
    app = Echo()
    chunked = b"X-A: \t one \t \r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\n"
    got = await answer(app, HEAD + chunked + b"Authorization: Bearer x\r\nX-A: two\r\n\r\n")
    [(path, headers, body)] = app.calls
    assert got.startswith(b"HTTP/1.1 200 ")
    assert (path, body, headers[b"x-a"]) == ("/x", b"abc", b"one")
    assert b"authorization" not in headers


async def test_requests_that_were_sent_at_once_are_answered_one_after_another():
    app = Echo()
    one = HEAD + b"Content-Length: 1\r\n\r\n"
    got = await answer(app, one + b"1" + one + b"2" + HEAD + b"Connection: close\r\nContent-Length: 1\r\n\r\n3")
    assert got.count(b"HTTP/1.1 200 ") == 3
    assert [body for _, _, body in app.calls] == [b"1", b"2", b"3"]


@pytest.mark.parametrize("protocol", [b"h2c", b"websocket"])
async def test_an_offer_to_switch_to_another_protocol_is_ignored(protocol):
    app = Echo()
    upgrade = HEAD + b"Connection: Upgrade\r\nUpgrade: " + protocol + b"\r\nContent-Length: 3\r\n\r\n"
    got = await answer(app, upgrade + b"abc" + upgrade, b"de", b"f" + b"GET /y HTTP/1.0\r\nHost: a\r\n\r\n")
    assert got.count(b"HTTP/1.1 200 ") == 3
    assert [(path, body) for path, _, body in app.calls] == [("/x", b"abc"), ("/x", b"def"), ("/y", b"")]


async def test_a_client_that_waits_for_100_continue_gets_it():
    async with connected(Echo()) as (reader, writer):
        writer.write(HEAD + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\n")
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"abc")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("sent", [b"", b"\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\n"])
async def test_a_connection_whose_headers_do_not_arrive_is_closed(monkeypatch, sent):
    monkeypatch.setattr(GuardedProtocol, "header_seconds", 0.05)
    app = Echo()
    assert await answer(app, sent) == b""
    assert app.calls == []


async def test_a_body_that_nobody_reads_does_not_keep_a_connection_open(monkeypatch):
    monkeypatch.setattr(GuardedProtocol, "header_seconds", 0.05)
    async with connected(refuse) as (reader, writer):
        writer.write(HEAD + b"Content-Length: 1000000\r\n\r\nabc")
        assert (await reader.readuntil(b"no")).startswith(b"HTTP/1.1 200 ")
        writer.write(b"def")
        assert await reader.read() == b""


async def test_a_connection_too_many_closes_the_one_that_has_been_idle_for_longest():
    async def stream(scope, _receive, send):
        if scope["path"] == "/stream":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"begun", "more_body": True})
            await asyncio.Event().wait()
        await refuse(scope, _receive, send)

    async with listening(stream, socket.create_server(("127.0.0.1", 0)), ConnectionRoom(3)) as (address, _):
        opened = [await asyncio.open_connection(*address) for _ in range(3)]
        (busy, to_busy), (used, to_used), (idle, _) = opened
        to_busy.write(b"GET /stream HTTP/1.1\r\nHost: a\r\n\r\n")
        await busy.readuntil(b"begun")
        to_used.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        await used.readuntil(b"no")
        opened += [await asyncio.open_connection(*address)]
        async with asyncio.timeout(20):
            with suppress(ConnectionError):
                assert await idle.read() == b""
        opened += [await asyncio.open_connection(*address)]
        async with asyncio.timeout(20):
            with suppress(ConnectionError):
                assert await used.read() == b""
        opened[4][1].write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert (await opened[4][0].readuntil(b"no")).startswith(b"HTTP/1.1 200 ")
        assert not busy.at_eof()
        for _, writer in opened:
            writer.transport.abort()


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="the system has no such option")
async def test_a_client_that_does_not_read_a_response_is_cut_off(monkeypatch):
    monkeypatch.setattr("prowess.interfaces.listener.UNREAD_SECONDS", 0.5)

    async def much(_scope, _receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"close")]})
        await send({"type": "http.response.body", "body": b"x" * 20_000_000})

    async with listening(much, open_listener("127.0.0.1", 0)) as (address, connections):
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.setblocking(False)
            await asyncio.get_running_loop().sock_connect(client, address)
            await asyncio.get_running_loop().sock_sendall(client, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            async with asyncio.timeout(20):
                while not connections:  # noqa: ASYNC110  (connections have no event)
                    await asyncio.sleep(0.001)
                while connections:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)


async def test_a_server_that_is_interrupted_before_it_starts_ends_quietly(caplog):
    began = []

    async def app(scope, receive, _send):
        began.append(scope["type"])
        await receive()

    async def serve():
        asyncio.current_task().cancel()  # as Ctrl-C does while the server is being built
        with socket.create_server(("127.0.0.1", 0)) as listener:
            await serve_http(app, listener)

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(serve())
    assert (began, caplog.records) == ([], [])


@pytest.mark.parametrize("host", ["name.invalid", "203.0.113.7"])
def test_an_address_of_another_machine_is_refused_with_the_option_to_change(host):
    with pytest.raises(Unavailable) as refused:
        open_listener(host, 0)
    assert refused.value.hint == "Pass an address of this machine with --host."


def test_a_port_in_use_is_refused_with_the_option_to_change():
    with open_listener("127.0.0.1", 0) as other, pytest.raises(Unavailable) as refused:
        open_listener("127.0.0.1", other.getsockname()[1])
    assert refused.value.hint == "Choose another port with --port."
