"""What a server refuses because it is too much: bodies, headers, requests per minute, requests at once."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from dataclasses import replace

import pytest

from prowess.interfaces.auth import exchange, guard
from prowess.interfaces.auth.browser import make_rules
from prowess.interfaces.auth.caller import SCOPE_KEY, Caller
from prowess.interfaces.auth.guard import RequestGuard
from prowess.interfaces.auth.limits import RateLimits
from prowess.policy.actor import Actor
from prowess.threads import PARTY_THREADS, offload, offload_quick

SETTING = "/api/v1/settings/approval_days"
JSON = {"content-type": "application/json"}
TOO_MUCH = b" " * (exchange.MAX_BODY_BYTES + 1)


def test_a_body_that_is_too_large_is_refused_by_its_length(client):
    answer = client.put(SETTING, content=TOO_MUCH, headers=JSON)
    assert (answer.status_code, answer.json()["code"]) == (413, "too-large")


@pytest.mark.parametrize("path", [SETTING, "/mcp"])
def test_a_body_without_a_length_is_counted_as_it_arrives(client, path):
    parts = (TOO_MUCH[: 1 << 16] for _ in range(100))
    method = "POST" if path == "/mcp" else "PUT"
    answer = client.request(
        method, path, content=parts, headers={**JSON, "accept": "application/json, text/event-stream"}
    )
    assert answer.status_code == 413


def test_addresses_and_headers_have_a_limit(client):
    assert client.get("/api/v1/settings?" + "x" * 9000).status_code == 414
    assert client.get("/api/v1/settings", headers={"x-much": "x" * 20_000}).status_code == 431
    many = {f"x-{number}": "1" for number in range(100)}
    assert client.get("/api/v1/settings", headers=many).status_code == 431


def test_a_caller_with_too_many_requests_is_told_when_to_try_again(serve):
    client = serve(rates=RateLimits(3))
    answers = [client.get("/api/v1/settings") for _ in range(10)]  # a minute may end in between
    refused = next(answer for answer in answers if answer.status_code != 200)

    assert [answer.status_code for answer in answers[:3]] == [200, 200, 200]
    assert refused.status_code == 429
    assert 1 <= int(refused.headers["retry-after"]) <= 120
    assert refused.json()["code"] == "too-many-requests"
    other = serve(Actor(name="bob", channel="http"), rates=RateLimits(3))
    assert other.get("/api/v1/settings").status_code == 200


def test_a_user_sends_no_more_requests_with_many_tokens():
    rates = RateLimits(30)
    counts = Counter(name for _ in range(30) for name in CALLERS if rates.of_caller(CALLERS[name].key) is None)

    anns = sum(count for name, count in counts.items() if name.startswith("ann"))
    assert 60 <= anns < 90  # a minute may end in between
    assert counts["bob"] == 30


def test_wrong_tokens_slow_down_only_those_who_send_them(serve):
    client = serve(rates=RateLimits())
    wrong = {"authorization": "Bearer wrong"}
    statuses = {client.get("/api/v1/settings", headers=wrong).status_code for _ in range(70)}

    assert statuses == {401, 429}
    assert client.get("/api/v1/settings").status_code == 200


ANNS_AGENT = Caller(actor=Actor(name="helper", kind="agent", organization="acme", user="ann"))
CALLERS = {
    "ann": Caller(actor=Actor(name="ann", organization="acme", user="ann")),
    "ann's agent": ANNS_AGENT,
    "ann's other agent": replace(ANNS_AGENT, actor=replace(ANNS_AGENT.actor, name="other")),
    "amy": Caller(actor=Actor(name="amy", organization="acme", user="amy")),
    "amy's agent": replace(ANNS_AGENT, actor=replace(ANNS_AGENT.actor, user="amy")),
    "bob": Caller(actor=Actor(name="bob", organization="globex", user="bob")),
}


class Guarded:
    """A guard around an app, called without a server."""

    def __init__(self, app, **options):
        self.logged: list[str] = []
        self.guard = RequestGuard(
            app, callers=CALLERS.get, rules=make_rules({"here"}), log=self.logged.append, **options
        )

    async def get(self, token: str = "ann", *, method="GET", body=b"", receive=None):
        """Send a request. Return the status, the headers and whether the response ended."""
        sent = []
        parts = [{"type": "http.request", "body": body, "more_body": False}]

        async def take():
            return parts.pop(0) if parts else await asyncio.get_running_loop().create_future()

        async def send(message):
            sent.append(message)

        headers = [(b"host", b"here"), (b"authorization", f"Bearer {token}".encode())]
        headers += [(b"content-type", b"application/json"), (b"transfer-encoding", b"chunked")] if receive else []
        scope = {"type": "http", "method": method, "path": "/x", "query_string": b"secret=1", "headers": headers}
        await self.guard(scope, receive or take, send)
        ended = sent[-1]["type"] == "http.response.body" and not sent[-1].get("more_body")
        return sent[0]["status"], dict(sent[0]["headers"]), ended


async def start(send, kind: bytes = b"text/plain") -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})


def test_too_many_requests_at_once_are_refused_at_once_and_nobody_takes_more_than_half():
    async def check():
        go = asyncio.Event()

        async def wait(scope, receive, send):
            await go.wait()
            await start(send)
            await send({"type": "http.response.body", "body": b"done"})

        guarded = Guarded(wait, max_running=4)
        waiting = [asyncio.create_task(guarded.get(token)) for token in ("ann", "ann")]
        await asyncio.sleep(0)
        status, headers, _ = await guarded.get("ann")
        assert (status, headers[b"retry-after"]) == (503, b"1")
        waiting += [asyncio.create_task(guarded.get("bob")) for _ in range(2)]
        await asyncio.sleep(0)
        assert (await guarded.get("bob"))[0] == 503
        go.set()
        assert [answer[0] for answer in await asyncio.gather(*waiting)] == [200] * 4
        assert (await guarded.get("ann"))[0] == 200

    asyncio.run(check())


def test_the_callers_of_a_user_leave_room_for_the_organization_and_all_of_it_for_the_others():
    async def check():
        go = asyncio.Event()

        async def wait(scope, receive, send):
            await go.wait()
            await start(send)
            await send({"type": "http.response.body", "body": b"done"})

        guarded = Guarded(wait, max_running=8)
        waiting: list[asyncio.Task] = []

        async def send(token: str) -> int:
            """Return how many requests of a caller run until one is refused."""
            before = len(waiting)
            while True:
                asked = asyncio.create_task(guarded.get(token))
                await asyncio.sleep(0)
                if asked.done():
                    return len(waiting) - before
                waiting.append(asked)

        tokens = ("ann's agent", "ann's other agent", "ann", "amy", "amy's agent", "bob")
        assert [await send(token) for token in tokens] == [4, 1, 0, 1, 0, 2]
        go.set()
        assert {answer[0] for answer in await asyncio.gather(*waiting)} == {200}

    asyncio.run(check())


def test_large_bodies_of_one_caller_leave_room_for_those_of_others():
    async def check():
        go = asyncio.Event()

        async def read(scope, receive, send):
            if (await receive())["type"] == "http.disconnect":
                return
            await go.wait()
            await start(send)
            await send({"type": "http.response.body", "body": b"done"})

        guarded = Guarded(read, max_held_bytes=40)
        waiting = [asyncio.create_task(guarded.get("ann", body=b"x" * 10)) for _ in range(2)]
        await asyncio.sleep(0)
        status, headers, _ = await guarded.get("ann", body=b"x")
        assert (status, headers[b"retry-after"]) == (503, b"1")
        waiting += [asyncio.create_task(guarded.get(token, body=body)) for token, body in (("ann", b""), ("bob", b"x"))]
        await asyncio.sleep(0)
        go.set()
        assert [answer[0] for answer in await asyncio.gather(*waiting)] == [200] * 4
        assert (await guarded.get("ann", body=b"x" * 20))[0] == 200

    asyncio.run(check())


@pytest.mark.parametrize("way", [offload, offload_quick])
def test_the_slow_requests_of_one_organization_leave_threads_for_the_others(way):
    async def check():
        gate, entered = threading.Event(), threading.Semaphore(0)

        def wait() -> None:
            entered.release()
            gate.wait(60)

        async def work(scope, receive, send):
            await way(wait if scope[SCOPE_KEY].actor.organization == "acme" else str)
            await start(send)
            await send({"type": "http.response.body", "body": b"done"})

        guarded = Guarded(work)
        # Each sends more than asyncio has threads.
        callers = ("ann", "ann's agent", "amy", "amy's agent")
        slow = [asyncio.create_task(guarded.get(one)) for one in callers for _ in range(3 * PARTY_THREADS)]
        try:
            async with asyncio.timeout(10):
                for _ in range(PARTY_THREADS):
                    await asyncio.to_thread(entered.acquire)
                assert (await guarded.get("bob"))[0] == 200
        finally:
            gate.set()
        assert {status for status, _, _ in await asyncio.gather(*slow)} == {200}

    asyncio.run(check())


def test_streams_are_counted_apart_and_end_with_their_last_chunk_when_the_server_stops():
    async def check():
        begun = asyncio.Semaphore(0)

        async def stream(scope, receive, send):
            await start(send, b"text/event-stream; charset=utf-8")
            begun.release()
            await asyncio.Event().wait()

        guarded = Guarded(stream, max_running=2, max_streams=3)
        opened = [asyncio.create_task(guarded.get(token)) for token in ("ann", "ann", "bob")]
        for _ in opened:
            await begun.acquire()
        assert (await guarded.get("bob"))[0] == 503
        guarded.guard.stop()
        assert [(status, ended) for status, _, ended in await asyncio.gather(*opened)] == [(200, True)] * 3
        assert (await guarded.get("bob"))[0] == 503

    asyncio.run(check())


def test_head_begins_no_stream():
    async def check():
        async def stream(scope, receive, send):
            assert scope["method"] == "GET"
            await start(send, b"text/event-stream")
            await asyncio.Event().wait()

        guarded = Guarded(stream, max_streams=0)
        status, headers, ended = await guarded.get(method="HEAD")
        assert (status, headers[b"content-type"], ended) == (200, b"text/event-stream", True)

    asyncio.run(check())


def test_nobody_opens_more_than_half_of_the_streams():
    async def check():
        begun = asyncio.Semaphore(0)

        async def stream(scope, receive, send):
            await start(send, b"text/event-stream")
            begun.release()
            await asyncio.Event().wait()

        guarded = Guarded(stream, max_streams=4)
        opened = [asyncio.create_task(guarded.get(token)) for token in ("ann", "ann", "ann", "bob")]
        for _ in opened:
            await begun.acquire()
        guarded.guard.stop()
        assert [status for status, _, _ in await asyncio.gather(*opened)] == [200, 200, 503, 200]

    asyncio.run(check())


def test_a_stream_ends_once_its_token_is_revoked(monkeypatch):
    monkeypatch.setattr(guard, "CHECK_SECONDS", 0)

    async def check():
        begun = asyncio.Event()

        async def stream(scope, receive, send):
            await start(send, b"text/event-stream")
            begun.set()
            await asyncio.Event().wait()

        guarded = Guarded(stream)
        opened = asyncio.create_task(guarded.get("ann"))
        await begun.wait()
        for _ in range(20):
            await asyncio.sleep(0)
        assert not opened.done()
        monkeypatch.delitem(CALLERS, "ann")
        for _ in range(20):
            await asyncio.sleep(0)
        assert opened.done()
        status, _, ended = await opened
        assert (status, ended) == (200, True)

    asyncio.run(check())


def test_a_request_that_is_cut_off_when_the_server_stops_is_answered_503():
    async def check():
        async def work(scope, receive, send):
            await asyncio.Event().wait()

        guarded = Guarded(work)
        task = asyncio.create_task(guarded.get())
        await asyncio.sleep(0)
        guarded.guard.stop()
        task.cancel()
        status, headers, ended = await task
        assert (status, headers[b"retry-after"], ended) == (503, b"1", True)

    asyncio.run(check())


def test_a_body_that_does_not_arrive_and_a_client_that_does_not_read_do_not_keep_a_request_alive(monkeypatch):
    monkeypatch.setattr(exchange, "BODY_SECONDS", 0.01)
    monkeypatch.setattr(exchange, "SEND_SECONDS", 0.01)

    async def check():
        async def read(scope, receive, send):
            assert (await receive())["type"] == "http.disconnect"

        async def never():
            await asyncio.Event().wait()

        assert (await Guarded(read).get(receive=never))[0] == 408

        async def write(scope, receive, send):
            await start(send)
            while True:
                await send({"type": "http.response.body", "body": b"much", "more_body": True})

        parts = []

        async def stuck(message):
            parts.append(message)
            if len(parts) > 2:
                await asyncio.Event().wait()

        scope = {
            "type": "http",
            "method": "GET",
            "path": "/",
            "headers": [(b"host", b"here"), (b"authorization", b"Bearer ann")],
        }
        await Guarded(write).guard(scope, never, stuck)

    asyncio.run(check())


def test_an_unexpected_error_is_answered_and_the_log_has_one_line_without_secrets(caplog):
    async def fail(scope, receive, send):
        raise ZeroDivisionError

    guarded = Guarded(fail)
    status, _, ended = asyncio.run(guarded.get())

    assert (status, ended) == (500, True)
    assert "failed unexpectedly" in caplog.text
    (line,) = map(json.loads, guarded.logged)
    assert (line["method"], line["path"], line["status"], line["caller"]) == ("GET", "/x", 500, "ann")
    assert "secret" not in guarded.logged[0]
    assert "Bearer" not in guarded.logged[0]


@pytest.mark.parametrize(("path", "kind"), [("/api/v1/skills/import", "application/zip"), ("/mcp", "application/json")])
def test_a_client_that_hangs_up_while_it_sends_a_body_leaves_nothing_in_the_log(client, caplog, path, kind):
    parts = iter([{"type": "http.request", "body": b"{", "more_body": True}])
    headers = {"host": "testserver", "authorization": "Bearer secret", "content-type": kind, "content-length": "99"}
    headers["accept"] = "application/json, text/event-stream"
    scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b""}
    scope |= {"headers": [(name.encode(), value.encode()) for name, value in headers.items()], "root_path": ""}
    scope |= {"client": ("127.0.0.1", 1), "server": ("testserver", 80), "scheme": "http", "http_version": "1.1"}

    async def receive():
        return next(parts, {"type": "http.disconnect"})

    async def send(message):
        pass

    client.portal.call(client.app, scope, receive, send)

    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


@pytest.mark.parametrize(
    "body",
    [
        {f"x{number}": 1 for number in range(1001)},
        {"content": "x", "files": {f"{number}.md": 1 for number in range(1001)}},
    ],
    ids=["fields", "files"],
)
def test_an_object_with_too_many_members_is_one_problem_however_many_are_wrong(client, body):
    answer = client.post("/api/v1/skills/parse", json=body)
    (problem,) = answer.json()["problems"]
    assert (answer.status_code, "at most 1,000 members" in problem["message"]) == (422, True)
