"""Downloads of one file: what is sent, what comes back, and what every bad answer becomes."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from prowess.errors import Invalid, NotFound, Refused, RunFailed, TryLater, Unavailable
from prowess.net.request import HttpResponse
from prowess.net.scripted import ScriptedHttpClient
from prowess.sources.download import Download, RoutedClient, download

URL = "https://skills.example.com/a/SKILL.md"


def answer(status=200, body=b"# A skill", url=URL, **headers):
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return HttpResponse(status=status, headers=fields, body=body, url=url)


def fetched(step, url=URL, **options) -> Download:
    with ScriptedHttpClient([step]) as client:
        return asyncio.run(download(client, url, **options))


def test_a_file_comes_with_its_etag_type_and_last_url():
    moved = "https://cdn.example.com/SKILL.md"
    got = fetched(answer(url=moved, etag='W/"7"', content_type="Text/Markdown; charset=utf-8"))
    assert got == Download(url=moved, body=b"# A skill", etag='W/"7"', content_type="text/markdown")


def test_an_etag_is_sent_and_its_confirmation_is_unchanged():
    with ScriptedHttpClient([answer(304, b"")]) as client:
        got = asyncio.run(download(client, URL, etag='W/"7"'))
    assert got == Download(url=URL, etag='W/"7"', unchanged=True)
    assert client.requests[0].headers["if-none-match"] == 'W/"7"'


@pytest.mark.parametrize("etag", ["7", '"7', '"a"b"', '"\x00"', '"' + "x" * 300 + '"'])
def test_a_malformed_etag_is_neither_kept_nor_sent(etag):
    assert fetched(answer(etag=etag)).etag == ""
    with ScriptedHttpClient([answer()]) as client:
        asyncio.run(download(client, URL, etag=etag))
    assert "if-none-match" not in client.requests[0].headers


def test_not_modified_without_an_etag_is_no_answer():
    with pytest.raises(Unavailable, match="304"):
        fetched(answer(304, b""))


@pytest.mark.parametrize(
    ("status", "error"),
    [(404, NotFound), (410, NotFound), (401, Refused), (403, Refused), (206, Unavailable), (400, Unavailable)]
    + [(status, TryLater) for status in (408, 429, 500, 502, 503, 504)],
)
def test_a_status_is_an_error_that_shows_no_query(status, error):
    with pytest.raises(error, match=f"HTTP {status}") as caught:
        fetched(answer(status, url=URL + "?token=sk-canary"), URL + "?token=sk-canary")
    assert "canary" not in caught.value.message


@pytest.mark.parametrize(("text", "seconds"), [("120", 120), ("soon", None), ("", None), ("999999999", 86400)])
def test_the_server_names_when_to_try_again(text, seconds):
    with pytest.raises(TryLater) as caught:
        fetched(answer(429, retry_after=text))
    assert caught.value.retry_after == seconds


def test_a_date_to_try_again_counts_from_now():
    when = format_datetime(datetime.now(UTC) + timedelta(hours=2), usegmt=True)
    with pytest.raises(TryLater) as caught:
        fetched(answer(503, retry_after=when))
    assert caught.value.retry_after is not None
    assert 3600 < caught.value.retry_after <= 7200


@pytest.mark.parametrize(
    "step",
    [answer(content_type="text/html"), answer(body=b"\n <!DOCTYPE html><p>Sign in"), answer(content_type="image/png")],
)
def test_another_type_of_file_is_invalid(step):
    with pytest.raises(Invalid):
        fetched(step, accept=("text/markdown",))


@pytest.mark.parametrize("kind", ["", "text/plain", "application/octet-stream", "text/markdown", "application/x-tar"])
def test_types_that_say_nothing_and_listed_ones_are_accepted(kind):
    assert fetched(answer(content_type=kind), accept=("text/markdown", "application/*")).body == b"# A skill"


def test_an_error_of_the_client_is_one_of_a_source():
    with pytest.raises(Unavailable, match="exceeds the limit"):
        fetched(RunFailed("The response of skills.example.com exceeds the limit of 5 bytes."))


@pytest.mark.parametrize("url", ["http://skills.example.com/x", "ftp://example.com/x", "file:///etc/passwd"])
def test_only_https_is_sent(url):
    with pytest.raises((Refused, Invalid)):
        asyncio.run(download(ScriptedHttpClient(), url))


def test_a_route_of_the_organization_allows_http_on_this_machine():
    with ScriptedHttpClient([answer()]) as client:
        routed = RoutedClient(client, {"127.0.0.1:8080": "http://127.0.0.1:8080"})
        assert asyncio.run(download(routed, "http://127.0.0.1:8080/SKILL.md")).body
        with pytest.raises(Refused):
            asyncio.run(download(routed, "http://127.0.0.1:8081/SKILL.md"))
