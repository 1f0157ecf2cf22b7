"""Requests through the guard: who is asked, by which address, under which name, and what comes back."""

from __future__ import annotations

import asyncio
import gzip
import threading
from ipaddress import ip_address

import pytest

from prowess.errors import Invalid, Refused, RunFailed, TryLater
from prowess.net.client import GuardedHttpClient
from prowess.net.connection import SystemConnector
from prowess.net.request import HttpRequest, HttpResponse
from prowess.run.receipt import Receipt
from prowess.threads import share_threads

PUBLIC = "93.184.216.34"
SECRET = "sk-canary-5512"


def reply(status=200, body=b"ok", **headers):
    fields = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n{fields}\r\n".encode() + body


def test_a_host_is_looked_up_once_and_asked_by_that_address_under_its_name(internet):
    answer = internet.send("https://api.example.com/v1/items?q=1#part")
    assert (answer.status, answer.body, answer.url) == (200, b"ok", "https://api.example.com/v1/items?q=1")
    assert internet.looked_up == ["api.example.com"]
    assert internet.connected == [(PUBLIC, 443)]
    heard = internet.heard[0]
    assert (heard.name, heard.line) == ("api.example.com", "GET /v1/items?q=1 HTTP/1.1")
    assert heard.headers["host"] == "api.example.com"
    assert answer.hops == ("api.example.com",)


def test_a_body_and_header_fields_go_along(internet):
    internet.send("https://example.com/x", method="post", headers={"X-Key": SECRET, "Accept": "a/b"}, body=b"\x00\xff")
    heard = internet.heard[0]
    assert (heard.line, heard.body) == ("POST /x HTTP/1.1", b"\x00\xff")
    assert (heard.headers["x-key"], heard.headers["accept"]) == (SECRET, "a/b")
    assert (heard.headers["content-length"], heard.headers["accept-encoding"]) == ("2", "identity")


def test_header_fields_come_back_in_lower_case_and_repeated_ones_together(internet):
    internet.reply = lambda _: b"HTTP/1.1 418 Teapot\r\nX-A: 1\r\nx-a: 2\r\nContent-Length: 0\r\n\r\n"
    answer = internet.send("https://example.com/")
    assert (answer.status, answer.headers["x-a"], answer.body) == (418, "1, 2", b"")


def test_a_name_that_is_public_once_and_private_the_next_time_is_connected_to_the_checked_address(internet):
    internet.names["api.example.com"] = [[PUBLIC], ["127.0.0.1"]]
    internet.send("https://api.example.com/")
    assert internet.connected == [(PUBLIC, 443)]
    with pytest.raises(Refused, match="this machine"):
        internet.send("https://api.example.com/")
    assert internet.connected == [(PUBLIC, 443)]


def test_one_private_address_among_public_ones_is_enough_to_refuse_a_host(internet):
    internet.names["api.example.com"] = [[PUBLIC, "10.0.0.7"]]
    with pytest.raises(Refused, match="not public"):
        internet.send("https://api.example.com/")
    assert internet.connected == []


def test_a_public_address_of_this_machine_is_refused_like_a_private_one(internet):
    internet.own.add(PUBLIC)
    with pytest.raises(Refused, match="this machine"):
        internet.send("https://api.example.com/")
    assert internet.connected == []


def test_an_address_of_this_machine_is_known_without_asking_it():
    connector = SystemConnector()
    assert connector.is_own(ip_address("127.0.0.1"))
    assert not connector.is_own(ip_address(PUBLIC))
    assert not connector.is_own(ip_address("2606:4700::6810:84e5"))


def test_the_next_address_is_tried_where_one_does_not_answer(internet):
    internet.names["api.example.com"] = [["2606:4700::6810:84e5", PUBLIC]]
    internet.dead.add("2606:4700::6810:84e5")
    assert internet.send("https://api.example.com/").status == 200
    assert internet.connected == [("2606:4700::6810:84e5", 443), (PUBLIC, 443)]


def test_a_public_address_can_be_a_host_itself(internet):
    answer = internet.send(f"https://{PUBLIC}:8443/", hosts=(f"{PUBLIC}:8443",))
    assert (answer.hops, internet.connected, internet.looked_up) == ((f"{PUBLIC}:8443",), [(PUBLIC, 8443)], [])
    internet.send("https://[2606:4700:0::6810:84e5]/", hosts=("[2606:4700::6810:84e5]",))
    assert internet.heard[1].headers["host"] == "[2606:4700::6810:84e5]"


def test_a_host_that_cannot_prove_its_name_is_told_nothing(internet):
    internet.names["api.example.net"] = [[PUBLIC]]
    with pytest.raises(RunFailed, match=r"certificate of api\.example\.net is not valid"):
        internet.send("https://api.example.net/", hosts=("api.example.net",), headers={"Authorization": SECRET})
    assert internet.heard == []


def test_a_host_that_there_is_not_is_named(internet):
    with pytest.raises(RunFailed, match=r"Host x\.example\.com not found"):
        internet.send("https://x.example.com/")


def test_redirects_are_followed_and_each_host_is_looked_up_and_checked(internet):
    internet.names["cdn.example.com"] = [["93.184.216.99"]]
    places = {"/a": "/b", "/b": "https://cdn.example.com/c?x=1"}
    internet.reply = lambda heard: reply(302, Location=places[heard.path]) if heard.path in places else reply()
    answer = internet.send("https://api.example.com/a")
    assert (answer.url, answer.hops) == (
        "https://cdn.example.com/c?x=1",
        ("api.example.com", "api.example.com", "cdn.example.com"),
    )
    assert internet.connected == [(PUBLIC, 443), (PUBLIC, 443), ("93.184.216.99", 443)]
    assert internet.looked_up == ["api.example.com", "api.example.com", "cdn.example.com"]


@pytest.mark.parametrize(
    "location",
    [
        "http://api.example.com/",
        "https://evil.test/",
        "//evil.test/",
        "https://127.0.0.1/",
        "https://[::1]/",
        "http://169.254.169.254/latest/meta-data/",
        "https://inner.example.com/",
        "https://api.example.com:22/",
    ],
)
def test_a_redirect_leads_nowhere_that_could_not_be_asked_at_first(internet, location):
    internet.names |= {"evil.test": [[PUBLIC]], "inner.example.com": [["192.168.1.1"]]}
    internet.reply = lambda _: reply(307, Location=location)
    with pytest.raises(Refused, match=r"redirected from api\.example\.com"):
        internet.send("https://api.example.com/", method="POST", body=SECRET.encode())
    assert internet.connected == [(PUBLIC, 443)]


@pytest.mark.parametrize(
    "location",
    ["file:///etc/passwd", "gopher://api.example.com/", "https://[::1", "https://a@api.example.com/"],
)
def test_a_redirect_to_what_is_no_url_fails(internet, location):
    internet.reply = lambda _: reply(302, Location=location)
    with pytest.raises(RunFailed, match="an invalid URL"):
        internet.send("https://api.example.com/")


def test_a_name_that_turns_private_between_two_hops_is_refused_at_the_second(internet):
    internet.names["api.example.com"] = [[PUBLIC], ["169.254.169.254"]]
    internet.reply = lambda _: reply(302, Location="/again")
    with pytest.raises(Refused, match="link-local"):
        internet.send("https://api.example.com/")
    assert internet.connected == [(PUBLIC, 443)]


def test_to_another_host_no_field_goes_along_that_may_hold_a_secret(internet):
    internet.reply = lambda heard: reply(307, Location="https://example.com/") if "api" in heard.name else reply()
    secrets = {"Authorization": SECRET, "Cookie": SECRET, "X-Api-Key": SECRET, "Accept": "a/b", "Content-Type": "c/d"}
    internet.send("https://api.example.com/", method="POST", headers=secrets, body=b"x")
    first, second = internet.heard
    assert first.headers["x-api-key"] == SECRET
    assert SECRET not in str(second.headers)
    assert (second.headers["accept"], second.headers["content-type"], second.body) == ("a/b", "c/d", b"x")


def test_fields_stay_where_the_host_stays(internet):
    internet.reply = lambda heard: reply(302, Location="/b") if heard.path == "/a" else reply()
    internet.send("https://api.example.com/a", headers={"Authorization": SECRET})
    assert internet.heard[1].headers["authorization"] == SECRET


@pytest.mark.parametrize(
    ("status", "method", "then"),
    [
        (301, "POST", "GET"),
        (302, "POST", "GET"),
        (303, "PUT", "GET"),
        (302, "DELETE", "DELETE"),
        (307, "POST", "POST"),
        (308, "PUT", "PUT"),
        (303, "HEAD", "HEAD"),
    ],
)
def test_a_redirect_changes_the_method_as_http_says(internet, status, method, then):
    internet.reply = lambda heard: reply(status, b"", Location="/b") if heard.path == "/a" else reply(200, b"")
    internet.send(
        "https://api.example.com/a",
        method=method,
        body=b"" if method == "HEAD" else b"x",
        headers={"Content-Type": "c/d"},
    )
    second = internet.heard[1]
    assert second.line.split(" ")[0] == then
    if then == "GET":
        assert (second.body, "content-type" in second.headers) == (b"", False)


def test_more_redirects_than_are_followed_fail_and_with_none_the_redirect_is_the_answer(internet):
    internet.reply = lambda _: reply(302, Location="/again")
    with pytest.raises(RunFailed, match="limit of 2 redirects"):
        internet.send("https://api.example.com/", redirects=2)
    assert len(internet.heard) == 3
    answer = internet.send("https://api.example.com/", redirects=0)
    assert (answer.status, answer.headers["location"]) == (302, "/again")


def test_every_host_that_is_asked_or_refused_is_witnessed(internet):
    receipt = Receipt()
    internet.reply = lambda _: reply(302, Location="https://evil.test/")
    with pytest.raises(Refused):
        internet.send("https://api.example.com/", witness=receipt)
    told = receipt.as_json()
    assert (told["touched"], told["refused"]) == ({"hosts": {"api.example.com": 1}}, {"hosts": {"evil.test": 1}})


def test_an_answer_that_is_larger_than_allowed_is_not_read_to_its_end(internet):
    def endless(heard):
        yield b"HTTP/1.1 200 X\r\n\r\n"
        while True:
            yield b"x" * 65_536

    internet.reply = endless
    with pytest.raises(RunFailed, match="limit of 100,000 bytes"):
        internet.send("https://api.example.com/", answer_bytes=100_000)


def test_a_size_that_is_exactly_allowed_is_read(internet):
    internet.reply = lambda _: reply(body=b"x" * 70_000)
    assert len(internet.send("https://api.example.com/", answer_bytes=70_000).body) == 70_000
    with pytest.raises(RunFailed, match="exceeds the limit"):
        internet.send("https://api.example.com/", answer_bytes=69_999)


def test_a_packed_answer_is_unpacked_up_to_the_same_size(internet):
    packed = gzip.compress(b"hello " * 1000)
    internet.reply = lambda _: reply(body=packed, Content_Encoding="gzip")
    answer = internet.send("https://api.example.com/")
    assert answer.body == b"hello " * 1000
    assert not {"content-encoding", "content-length"} & set(answer.headers)
    bomb = gzip.compress(b"\0" * 50_000_000)
    internet.reply = lambda _: reply(body=bomb, Content_Encoding="gzip")
    with pytest.raises(RunFailed, match="exceeds the limit"):
        internet.send("https://api.example.com/", answer_bytes=1_000_000)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nab",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\nnot packed",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(b"x" * 1000, mtime=0)[:15],
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nContent-Length: +3\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3x\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1_0\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 2\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x00" * 100,
    ],
)
def test_an_answer_that_is_broken_is_none(internet, answer):
    internet.reply = lambda _: answer
    with pytest.raises(TryLater, match=r"api\.example\.com"):
        internet.send("https://api.example.com/")


def test_an_encoding_that_nobody_asked_for_is_not_guessed_at(internet):
    internet.reply = lambda _: reply(body=b"?", Content_Encoding="br")
    with pytest.raises(RunFailed, match="encoding"):
        internet.send("https://api.example.com/")


def test_an_answer_that_trickles_ends_with_the_time_of_the_whole(internet):
    over = threading.Event()

    def trickle(heard):
        yield b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
        while not over.wait(0.02):
            yield b"x"

    internet.reply = trickle
    try:
        with pytest.raises(TryLater, match=r"timed out after 0\.4 seconds"):
            internet.send("https://api.example.com/", seconds=0.4)
    finally:
        over.set()


def test_a_header_that_never_ends_ends_with_the_time_of_the_whole(internet):
    over = threading.Event()
    internet.reply = lambda _: (b"X" for _ in iter(lambda: over.wait(0.02), True))
    try:
        with pytest.raises(TryLater):
            internet.send("https://api.example.com/", seconds=0.3)
    finally:
        over.set()


def test_redirects_share_one_time(internet):
    over = threading.Event()

    def slow(heard):
        over.wait(0.15)
        yield reply(302, Location="/again")

    internet.reply = slow
    with pytest.raises(TryLater, match="timed out"):
        internet.send("https://api.example.com/", seconds=0.5, redirects=100)
    over.set()
    assert 1 <= len(internet.heard) <= 4


def test_a_cancelled_request_hangs_up(internet):
    hung_up, begun, given_up = threading.Event(), threading.Event(), threading.Event()

    def wait(heard):
        begun.set()
        try:
            while not given_up.wait(0.02):
                yield b"x"
        finally:
            hung_up.set()

    internet.reply = wait

    async def cancelled():
        outbound = GuardedHttpClient(resolver=internet, connector=internet, trust=lambda: internet.trust)
        sending = asyncio.create_task(outbound.send(HttpRequest(url="https://example.com/", hosts=("example.com",))))
        await asyncio.to_thread(begun.wait)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        outbound.close()

    asyncio.run(cancelled())
    assert hung_up.wait(10)
    given_up.set()


def test_no_error_shows_more_of_a_request_than_its_host(internet):
    internet.reply = lambda _: b"nonsense"
    wishes = [
        {"url": f"https://api.example.com/{SECRET}?k={SECRET}"},
        {"url": f"https://evil.test/{SECRET}"},
        {"url": f"https://{SECRET}@api.example.com/"},
        {"url": f"https://api.example.com/{SECRET}\n"},
        {"url": "https://api.example.com/", "headers": {"X-Key": f"{SECRET}\r\n"}},
        {"url": "https://api.example.com/", "headers": {f"X {SECRET}": "1"}},
        {"url": "https://api.example.com/", "method": SECRET},
    ]
    for wish in wishes:
        with pytest.raises((TryLater, Refused, Invalid)) as caught:
            internet.send(**wish)
        assert SECRET not in f"{caught.value.message} {caught.value.hint}"
    assert SECRET not in repr(HttpRequest(**wishes[0]))


def test_a_refused_host_names_the_line_to_add(internet):
    with pytest.raises(Refused) as caught:
        internet.send("https://api.other.test:8443/v1")
    assert "api.other.test:8443" in caught.value.message
    assert caught.value.hint == "Add 'api.other.test:8443' to `hosts` in the manifest."
    assert internet.looked_up == []


def test_proxies_of_the_environment_are_not_used(internet, monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert internet.send("https://example.com/").status == 200


def test_many_requests_at_once_do_not_mix(internet):
    internet.reply = lambda heard: reply(body=heard.path.encode())

    async def all_of_them():
        outbound = GuardedHttpClient(resolver=internet, connector=internet, trust=lambda: internet.trust, at_once=4)
        asked = [HttpRequest(url=f"https://example.com/{n}", hosts=("example.com",)) for n in range(24)]
        answers = await asyncio.gather(*map(outbound.send, asked))
        outbound.close()
        return [answer.body.decode() for answer in answers]

    assert asyncio.run(all_of_them()) == [f"/{n}" for n in range(24)]


def test_one_run_does_not_keep_others_from_asking(internet):
    leave = threading.Event()

    def answer(heard):
        if heard.path == "/slow":
            leave.wait(10)
        return reply()

    internet.reply = answer

    async def run() -> None:
        outbound = GuardedHttpClient(resolver=internet, connector=internet, trust=lambda: internet.trust, at_once=4)

        def request(path: str, party: str) -> HttpRequest:
            return HttpRequest(url=f"https://example.com{path}", hosts=("example.com",), party=party)

        slow = [asyncio.create_task(outbound.send(request("/slow", "one"))) for _ in range(6)]
        assert (await outbound.send(request("/", "other"))).status == 200
        assert [heard.path for heard in internet.heard].count("/slow") <= 1
        leave.set()
        assert len(await asyncio.gather(*slow)) == 6
        outbound.close()

    asyncio.run(run())


def test_the_slow_requests_of_one_organization_leave_room_for_the_others(internet):
    leave = threading.Event()
    internet.names["www.example.com"] = internet.names["example.com"]

    def answer(heard):
        if heard.path == "/slow":
            leave.wait(10)
        return reply()

    internet.reply = answer

    async def run() -> None:
        outbound = GuardedHttpClient(resolver=internet, connector=internet, trust=lambda: internet.trust, at_once=4)

        def send(organization: str, host: str, path: str, run: int) -> asyncio.Task[HttpResponse]:
            request = HttpRequest(url=f"https://{host}{path}", hosts=(host,), party=f"{organization} {host} {run}")
            with share_threads(f"{organization}\x00ann\x00ann"):
                return asyncio.create_task(outbound.send(request))

        hosts = ("example.com", "api.example.com")
        slow = [send("acme", host, "/slow", run) for run in range(6) for host in hosts]
        assert (await send("globex", "www.example.com", "/", 0)).status == 200
        assert [heard.path for heard in internet.heard].count("/slow") <= 3
        leave.set()
        assert len(await asyncio.gather(*slow)) == 12
        outbound.close()

    asyncio.run(run())


def test_a_slow_host_does_not_keep_anybody_from_asking_another(internet):
    leave = threading.Event()

    def answer(heard):
        if heard.name == "api.example.com":
            leave.wait(10)
        return reply()

    internet.reply = answer

    async def run() -> None:
        outbound = GuardedHttpClient(resolver=internet, connector=internet, trust=lambda: internet.trust, at_once=4)

        def request(host: str, party: str) -> HttpRequest:
            return HttpRequest(url=f"https://{host}/", hosts=(host,), party=party)

        slow = [asyncio.create_task(outbound.send(request("api.example.com", str(party)))) for party in range(6)]
        assert (await outbound.send(request("example.com", "other"))).status == 200
        leave.set()
        assert len(await asyncio.gather(*slow)) == 6
        outbound.close()

    asyncio.run(run())
