"""How a client reaches a server: its address, the token, time limits, retries and redirects."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from prowess import ApprovalRequired, BudgetExceeded, Invalid, NotFound, ProwessError, Refused, TryLater, Unavailable
from prowess.client import AsyncClient, Client
from prowess.client.problems import make_error
from prowess.errors import AnswerUnusable, Problem
from prowess.interfaces.rest.problems import problem_json

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).resolve().parents[2]


class Answers:
    """A server that gives these answers one after the other, and remembers the requests."""

    def __init__(self, *answers: tuple[int, dict[str, str], bytes]) -> None:
        self.answers = list(answers)
        self.seen: list[httpx2.Request] = []

    async def __call__(self, request: httpx2.Request) -> httpx2.Response:
        self.seen.append(request)
        status, headers, body = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return httpx2.Response(status, headers=headers, content=body)

    def client(self, url: str = "http://testserver", **options: Any) -> AsyncClient:
        return AsyncClient(url, token="secret", transport=httpx2.MockTransport(self), **options)


def policy() -> bytes:
    return json.dumps({"skills_max_prompt_chars": 5}).encode()


def problem(code: str, **more: Any) -> bytes:
    return json.dumps({"code": code, "detail": "It failed.", "hint": "Do this.", **more}).encode()


PROBLEM = {"content-type": "application/problem+json"}
JSON = {"content-type": "application/json"}


def every_error(kind: type[ProwessError] = ProwessError) -> list[type[ProwessError]]:
    return [kind, *(found for child in kind.__subclasses__() for found in every_error(child))]


def example(kind: type[ProwessError]) -> ProwessError:
    if issubclass(kind, BudgetExceeded):
        return kind("No room.", limit=10, used=9, need=5, room=["a", "b"], hint="Disable a.")
    if issubclass(kind, ApprovalRequired):
        return kind("Ask.", approval_id="abc", hint="Wait.")
    if issubclass(kind, Invalid):
        found = Problem(code="field", severity="warning", message="Odd.", hint="Fix it.", field="name", line=3)
        return kind("Wrong.", hint="See problems.", problems=[found])
    return kind("It failed.", hint="Do this.")


@pytest.mark.parametrize("kind", every_error(), ids=lambda kind: kind.code)
def test_every_error_of_the_engine_comes_back_as_the_same_class_with_its_details(kind: type[ProwessError]):
    sent = example(kind)
    fields = problem_json(sent)

    got = make_error(fields, status=fields["status"])

    assert (type(got), got.message, got.hint, got.code) == (kind, sent.message, sent.hint, sent.code)
    for name in ("problems", "limit", "used", "need", "room", "approval_id"):
        if not issubclass(kind, AnswerUnusable):
            assert getattr(got, name, None) == getattr(sent, name, None)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, Invalid),
        (401, Refused),
        (403, Refused),
        (404, NotFound),
        (412, ProwessError),
        (413, Invalid),
        (415, Invalid),
        (421, Refused),
        (500, ProwessError),
    ],
)
async def test_a_code_that_this_version_does_not_know_is_raised_by_its_status(status: int, kind: type[ProwessError]):
    server = Answers((status, PROBLEM, problem("from-the-future")))
    async with server.client() as client:
        with pytest.raises(kind, match="It failed"):
            await client.policy.get()


async def test_a_reading_request_is_repeated_as_retry_after_says_and_a_changing_one_is_not():
    busy = (503, {**PROBLEM, "retry-after": "0"}, problem("unavailable"))
    server = Answers(busy, busy, (200, JSON, policy()))
    async with server.client() as client:
        assert (await client.policy.get()).skills_max_prompt_chars == 5
    assert len(server.seen) == 3

    server = Answers(busy, (200, JSON, policy()))
    async with server.client() as client:
        with pytest.raises(Unavailable):
            await client.policy.set("skills_max_prompt_chars", 5)
    assert len(server.seen) == 1


async def test_after_three_failures_the_error_is_raised():
    server = Answers((429, {**PROBLEM, "retry-after": "0"}, problem("too-many-requests")))
    async with server.client() as client:
        with pytest.raises(TryLater) as raised:
            await client.policy.get()
    assert raised.value.retry_after == 0
    assert len(server.seen) == 3


async def test_a_long_wait_is_left_to_the_caller():
    server = Answers((429, {**PROBLEM, "retry-after": "600"}, problem("too-many-requests")))
    async with server.client() as client:
        with pytest.raises(TryLater) as raised:
            await client.policy.get()
    assert raised.value.retry_after == 600
    assert len(server.seen) == 1


async def test_a_redirect_is_an_error_and_takes_the_token_nowhere():
    server = Answers((307, {"location": "http://elsewhere.example/api/v1/settings"}, b""))
    async with server.client() as client:
        with pytest.raises(Invalid, match="redirects to 'http://elsewhere"):
            await client.policy.get()
    assert [request.url.host for request in server.seen] == ["testserver"]


async def test_a_route_that_an_older_server_does_not_have_is_named():
    server = Answers((404, PROBLEM, problem("no-such-route")))
    async with server.client() as client:
        with pytest.raises(Invalid, match="The server has no GET /api/v1/settings"):
            await client.policy.get()


@pytest.mark.parametrize("status", [200, 404, 500])
async def test_another_program_at_the_address_is_named_as_such(status: int):
    server = Answers((status, {"content-type": "text/html"}, b"<h1>Hello</h1>"))
    async with server.client() as client:
        with pytest.raises(Invalid, match="Prowess server"):
            await client.policy.get()


@pytest.mark.parametrize("url", ["ftp://host", "host:80", "http://", "http://host/path", "http://host?token=x"])
def test_an_address_that_is_none_is_refused(url: str):
    with pytest.raises(Invalid, match="not the address of a server"):
        AsyncClient(url)


def test_a_password_in_the_address_is_refused_and_not_repeated():
    with pytest.raises(Invalid) as raised:
        AsyncClient("http://ann:hunter2@host")
    assert "hunter2" not in f"{raised.value} {raised.value.hint}"


def test_nothing_listens_is_told_with_what_to_do():
    with Client("http://127.0.0.1:9", token="x") as client, pytest.raises(TryLater) as raised:
        client.policy.get()
    assert "Cannot reach a server at http://127.0.0.1:9" in raised.value.message
    assert "prowess serve" in raised.value.hint


async def test_the_token_is_sent_in_a_header_only():
    server = Answers((200, JSON, policy()))
    async with server.client() as client:
        await client.policy.get()
    (request,) = server.seen
    assert request.headers["authorization"] == "Bearer secret"
    assert "secret" not in str(request.url)


async def test_the_token_comes_from_the_argument_the_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "token"
    path.write_text("of-the-file\n")
    monkeypatch.setenv("PROWESS_TOKEN", "of-the-environment")
    server = Answers((200, JSON, policy()))
    for given, expected in (
        ({"token": "given", "token_file": path}, "given"),
        ({"token_file": path}, "of-the-file"),
        ({}, "of-the-environment"),
    ):
        transport = httpx2.MockTransport(server)
        async with AsyncClient("https://prowess.example", transport=transport, **given) as client:
            await client.policy.get()
        assert server.seen[-1].headers["authorization"] == f"Bearer {expected}"


def test_the_server_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(Invalid, match="No server given"):
        AsyncClient()
    monkeypatch.setenv("PROWESS_SERVER", "http://127.0.0.1:1234")
    assert AsyncClient().url == "http://127.0.0.1:1234"


def test_a_broken_token_is_refused_without_being_repeated():
    with pytest.raises(Invalid) as raised:
        AsyncClient("http://127.0.0.1:1", token="two words\n")
    assert "two words" not in f"{raised.value} {raised.value.hint}"


def test_without_the_extra_the_install_line_is_told():
    program = (
        "import sys; sys.modules['httpx2'] = None\nfrom prowess.client import Client\nClient('http://127.0.0.1:1')"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "prowess.errors.Unavailable: The HTTP client is not installed." in ran.stderr


def test_a_blocking_client_works_where_a_loop_is_running(connect: Callable[..., Client]):
    client = connect()

    async def cell() -> int:
        return client.policy.get().skills_max_prompt_chars

    assert asyncio.run(cell()) == 16_000


def test_a_wrong_token_is_refused_with_what_to_do(connect: Callable[..., Client]):
    client = connect(token="wrong")
    with pytest.raises(Refused) as raised:
        client.policy.get()
    assert "PROWESS_TOKEN" in raised.value.hint


def test_the_generated_types_are_current():
    command = [sys.executable, str(ROOT / "scripts/sync_stub.py"), "--check"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("value", [float("nan"), Path("notes.md"), "half a pair: \ud800"])
async def test_an_argument_that_no_request_can_have_is_invalid(value: object):
    server = Answers((200, JSON, policy()))
    client = server.client()
    with pytest.raises(Invalid, match="The request is not valid JSON"):
        await client.run("greet", {"name": value})
    assert server.seen == []
