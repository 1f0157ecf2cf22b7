"""What every outbound promises, the guarded and the scripted alike."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from prowess.errors import Invalid, Refused, RunFailed, TryLater
from prowess.net.client import MAX_BODY_BYTES, GuardedHttpClient
from prowess.net.request import HttpClient, HttpRequest, HttpResponse
from prowess.net.scripted import ScriptedHttpClient
from prowess.run.receipt import Receipt

HOSTS = ("api.example.com",)


@pytest.fixture(params=["guarded", "scripted"])
def outbound(request: pytest.FixtureRequest) -> Any:
    """One that answers `ok`."""
    if request.param == "scripted":
        yield ScriptedHttpClient(["ok"])
        return
    internet = request.getfixturevalue("internet")
    opened = GuardedHttpClient(resolver=internet, connector=internet, trust=lambda: internet.trust)
    yield opened
    opened.close()


@pytest.fixture
def send(outbound: HttpClient) -> Callable[..., HttpResponse]:
    def sent(url: str, **settings: Any) -> HttpResponse:
        return asyncio.run(outbound.send(HttpRequest(url=url, **{"hosts": HOSTS, **settings})))

    return sent


def test_a_listed_host_answers_and_is_noted(send):
    receipt = Receipt()
    answer = send("https://api.example.com/x", witness=receipt)
    assert (answer.status, answer.body, answer.url) == (200, b"ok", "https://api.example.com/x")
    assert answer.hops == ("api.example.com",)
    assert receipt.as_json()["touched"] == {"hosts": {"api.example.com": 1}}


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("https://other.example.com/", HOSTS),
        ("https://api.example.com:8443/", HOSTS),
        ("http://api.example.com/", ("api.example.com:80",)),
        ("https://api.example.com/", ()),
    ],
)
def test_a_host_that_may_not_be_asked_is_refused_and_noted(send, url, hosts):
    receipt = Receipt()
    with pytest.raises(Refused):
        send(url, hosts=hosts, witness=receipt)
    told = receipt.as_json()
    assert (list(told["refused"]), told["touched"]) == (["hosts"], {})


@pytest.mark.parametrize(
    ("url", "settings"),
    [
        ("no url", {}),
        ("ftp://api.example.com/", {}),
        ("https://user:word@api.example.com/", {}),
        ("https://api.example.com/", {"method": "BREW"}),
        ("https://api.example.com/", {"headers": {"x": "a\r\nb: c"}}),
        ("https://api.example.com/", {"body": bytes(MAX_BODY_BYTES + 1)}),
    ],
)
def test_a_request_that_is_none_is_invalid(send, url, settings):
    with pytest.raises(Invalid):
        send(url, **settings)


def test_a_script_answers_in_order_and_knows_what_it_was_asked():
    whole = HttpResponse(status=404, headers={}, body=b"", url="https://api.example.com/")
    request = HttpRequest(url="https://api.example.com/", hosts=HOSTS)

    async def ask(outbound: ScriptedHttpClient) -> HttpResponse:
        return await outbound.send(request)

    with ScriptedHttpClient([{"a": 1}, whole, b"\xff", TryLater("Busy.")]) as outbound:
        assert asyncio.run(ask(outbound)).body == b'{"a": 1}'
        assert asyncio.run(ask(outbound)) is whole
        assert asyncio.run(ask(outbound)).body == b"\xff"
        with pytest.raises(TryLater, match="Busy"):
            asyncio.run(ask(outbound))
    assert outbound.requests == [request] * 4
    with pytest.raises(RunFailed, match="Unexpected request"):
        asyncio.run(ask(outbound))


def test_a_step_that_nobody_asks_for_is_told():
    with pytest.raises(RunFailed, match="1 steps"), ScriptedHttpClient(["never"]):
        pass
