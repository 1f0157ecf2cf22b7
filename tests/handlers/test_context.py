"""What `ctx` of a function reaches, from the host's side: hosts, files and a log, each held to what was given."""

from __future__ import annotations

import asyncio
import base64
import json
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from prowess.errors import Invalid, NotFound, ProwessError, Refused, TryLater
from prowess.handlers import function_context
from prowess.handlers.function_context import MAX_FILES, MAX_LOG_LINES, MAX_REQUESTS, FunctionContext
from prowess.net.request import HttpRequest, HttpResponse
from prowess.net.target import parse_target
from prowess.policy.grants import Grants
from prowess.run.call import Call
from prowess.run.receipt import SecretFilter
from prowess.sandbox import safe_files
from prowess.sandbox.roots import Root
from prowess.skill.kinds import Function

KEY = "sk-0123456789abcdef"


class Echo:
    """Answers every request with what it says, except for hosts that are not given."""

    def __init__(self, body: bytes = b"hello", error: ProwessError | None = None) -> None:
        self.requests: list[HttpRequest] = []
        self.body = body
        self.error = error

    async def send(self, request: HttpRequest) -> HttpResponse:
        self.requests.append(request)
        assert request.witness is not None
        if self.error:
            note = request.witness.refuse if isinstance(self.error, Refused) else request.witness.touch
            note("hosts", parse_target(request.url).shown)
            raise self.error
        hops = ("api.example.org", "cdn.example.org")
        for hop in hops:
            request.witness.touch("hosts", hop)
        return HttpResponse(status=201, headers={"x-a": "1"}, body=self.body, url="https://cdn.example.org/", hops=hops)


@pytest.fixture
def call(call_of: Callable[..., Call]) -> Call:
    return call_of(Function(name="execute", content="def execute(args, ctx): ..."), {})


@pytest.fixture
def served(call: Call):
    """The functions of a context for grants; each is called and awaited by its name."""

    def make(outbound: Echo | None = None, **grants) -> FunctionContext:
        given = Grants(**grants)
        call.add_secrets(given.env)
        return FunctionContext(call, given, outbound=outbound or Echo())

    return make


def ask(context: FunctionContext, name: str, *args, **kwargs):
    return asyncio.run(context.functions()[name](*args, **kwargs))


def test_a_request_goes_out_with_the_hosts_and_routes_that_were_given(served):
    outbound = Echo()
    context = served(outbound, hosts=("api.example.org",), routes={"api.example.org": "http://127.0.0.1:1"})
    answer = ask(context, "fetch", "https://api.example.org/x", method="post", headers={"A": "b"}, body="text")
    assert answer == {"status": 201, "headers": {"x-a": "1"}, "url": "https://cdn.example.org/", "text": "hello"}
    [request] = outbound.requests
    assert (request.method, request.headers, request.body) == ("POST", {"A": "b"}, b"text")
    assert (request.hosts, dict(request.routes)) == (("api.example.org",), {"api.example.org": "http://127.0.0.1:1"})


@pytest.mark.parametrize(
    ("body", "sent", "kind"),
    [
        (None, b"", None),
        ("é", "é".encode(), None),
        ({"base64": base64.b64encode(b"\xff").decode()}, b"\xff", None),
        ({"a": [1, None]}, b'{"a": [1, null]}', "application/json"),
        ([], b"[]", "application/json"),
        (0, b"0", "application/json"),
        ({"base64": "x", "more": 1}, b'{"base64": "x", "more": 1}', "application/json"),
    ],
)
def test_a_body_is_text_or_bytes_or_json(served, body, sent, kind):
    outbound = Echo()
    ask(served(outbound), "fetch", "https://a.org/", body=body)
    assert outbound.requests[0].body == sent
    assert outbound.requests[0].headers.get("content-type") == kind


def test_a_type_of_content_that_is_said_stays(served):
    outbound = Echo()
    ask(served(outbound), "fetch", "https://a.org/", headers={"Content-Type": "text/x"}, body={})
    assert outbound.requests[0].headers == {"Content-Type": "text/x"}


def test_an_answer_that_is_no_text_comes_as_base64(served):
    answer = ask(served(Echo(b"\xff\xfe")), "fetch", "https://a.org/")
    assert base64.b64decode(answer["base64"]) == b"\xff\xfe"
    assert "text" not in answer


def test_every_host_that_was_asked_is_on_the_receipt(served, call):
    ask(served(), "fetch", "https://api.example.org/")
    assert call.notes.receipt.as_json()["touched"] == {"hosts": {"api.example.org": 1, "cdn.example.org": 1}}


def test_a_host_that_may_not_be_asked_is_on_the_receipt_and_the_line_to_add_is_told(served, call):
    with pytest.raises(Refused, match=r"a\.org") as caught:
        ask(served(Echo(error=Refused("a.org may not be asked."))), "fetch", "https://a.org:8443/x?key=1")
    assert 'hosts: ["a.org:8443"]' in caught.value.hint
    assert call.notes.receipt.as_json()["refused"] == {"hosts": {"a.org:8443": 1}}


def test_why_a_host_was_not_given_is_told_where_it_is_known(served):
    context = served(Echo(error=Refused("No.")), denied={"a.org": "An administrator said no."})
    with pytest.raises(Refused) as caught:
        ask(context, "fetch", "https://a.org/")
    assert caught.value.hint == "An administrator said no."


def test_a_host_that_did_not_answer_was_asked_all_the_same(served, call):
    with pytest.raises(TryLater):
        ask(served(Echo(error=TryLater("It is slow."))), "fetch", "https://a.org/")
    assert call.notes.receipt.as_json()["touched"] == {"hosts": {"a.org": 1}}


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((1,), {}),
        ((), {}),
        (("https://a.org",), {"headers": {"a": 1}}),
        (("https://a.org",), {"headers": [["a", "b"]]}),
        (("https://a.org",), {"method": None}),
        (("https://a.org",), {"hosts": ["b.org"]}),
        (("https://a.org",), {"body": {"base64": "!"}}),
        (("https://a.org",), {"body": {"base64": 1}}),
        (("no url",), {}),
        (("https://user:pass@a.org/",), {}),
    ],
)
def test_a_request_that_is_none_is_not_sent(served, args, kwargs):
    outbound = Echo()
    with pytest.raises(Invalid):
        ask(served(outbound), "fetch", *args, **kwargs)
    assert outbound.requests == []


def test_requests_are_counted(served):
    context = served()
    for _ in range(MAX_REQUESTS):
        ask(context, "fetch", "https://a.org/")
    with pytest.raises(Refused, match="100 requests"):
        ask(context, "fetch", "https://a.org/")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_a_file_of_the_runs_own_folder_is_there_until_the_run_has_ended(served, call, temporary):
    context = served()

    async def run() -> None:
        async with context.opened():
            functions = context.functions()
            assert await functions["write_file"]("out/a.txt", "ä") == {"bytes": 2}
            assert await functions["read_file"]("out/a.txt") == {"text": "ä"}
            encoded = base64.b64encode(b"\xff").decode()
            assert await functions["write_file"]("b", {"base64": encoded}) == {"bytes": 1}
            assert await functions["read_file"]("b") == {"base64": encoded}
            [own] = temporary.iterdir()
            assert own.stat().st_mode & 0o077 == 0

    asyncio.run(run())
    assert list(temporary.iterdir()) == []
    assert call.notes.receipt.as_json()["touched"] == {}


def test_files_that_go_with_the_private_folder_unused_are_named_in_the_log(served, tmp_path):
    async def call(*wanted: str) -> list[str]:
        async with served(roots=(Root(name="out", path=tmp_path, writable=True),)).opened() as context:
            functions = context.functions()
            for path in ("out/kept.md", "report.md", "scratch.md"):
                await functions["write_file"](path, "x")
            for path in wanted:
                await functions["read_file"](path)
        return context.log_lines

    [line] = asyncio.run(call("scratch.md"))
    assert "which is deleted now: report.md. To keep files" in line
    assert asyncio.run(call("scratch.md", "report.md")) == []


def test_the_runs_own_folder_is_gone_also_where_the_run_fails(served, temporary):
    context = served()

    async def run() -> None:
        async with context.opened():
            await context.functions()["write_file"]("a", "b")
            assert len(list(temporary.iterdir())) == 1
            raise KeyError

    with pytest.raises(KeyError):
        asyncio.run(run())
    assert list(temporary.iterdir()) == []


def test_files_of_given_folders_are_on_the_receipt(served, call, tmp_path):
    (tmp_path / "a.txt").write_text("apple")
    context = served(roots=(Root(name="data", path=tmp_path.resolve(), writable=True),))
    assert ask(context, "read_file", "data/a.txt") == {"text": "apple"}
    ask(context, "write_file", "data/b.txt", "pear")
    for path in ("/etc/passwd", "data/../x"):
        with pytest.raises(Refused):
            ask(context, "read_file", path)
    with pytest.raises(NotFound):
        ask(context, "read_file", "data/none")
    assert call.notes.receipt.as_json() == {
        "declared": {},
        "touched": {"read": {"data/a.txt": 1}, "written": {"data/b.txt": 1}},
        "refused": {"read": {"/etc/passwd": 1, "data/../x": 1}},
    }


def test_a_file_in_an_undeclared_folder_says_which_line_declares_it(served, call_of):
    with pytest.raises(NotFound, match=r"File 'notes/a\.txt' not found") as caught:
        ask(served(), "read_file", "notes/a.txt")
    assert caught.value.hint == 'Is it in the workspace? Add this line to agents/prowess.yaml: roots: ["notes"]'
    call = call_of(Function(name="execute", content="x"), {}, skill={"extra": {"roots": ["data"]}})
    context = FunctionContext(call, Grants(), outbound=Echo())
    with pytest.raises(NotFound) as caught:
        ask(context, "read_file", "a.txt")
    assert caught.value.hint.endswith('roots: ["data", "."]')
    with pytest.raises(NotFound) as caught:
        ask(context, "read_file", "data/a.txt")
    assert caught.value.hint == ""


def test_a_folder_that_was_not_given_is_refused_for_the_reason_that_is_known(call_of, temporary):
    call = call_of(Function(name="execute", content="x"), {}, skill={"extra": {"roots": ["rw:data", "rw:.", "/srv"]}})
    denied = {"data": "Folder 'data' not found.", ".": "It is the whole workspace.", "/srv": "It is not allowed."}
    context = FunctionContext(call, Grants(denied=denied), outbound=Echo())
    for path, reason in (("data/a", "Folder 'data' not found."), ("/srv/a/b", "It is not allowed.")):
        with pytest.raises(Refused, match="was not granted") as caught:
            ask(context, "write_file", path, "x")
        assert caught.value.hint == reason
    assert ask(context, "write_file", "database", "x") == {"bytes": 1}
    assert len(list(temporary.iterdir())) == 1
    assert call.notes.receipt.as_json()["refused"] == {"written": {"data/a": 1, "/srv/a/b": 1}}


@pytest.mark.parametrize("content", [None, 1, {"a": 1}, ["a"], True, {"base64": "ä"}])
def test_what_is_neither_text_nor_bytes_is_not_written(served, content):
    with pytest.raises(Invalid):
        ask(served(), "write_file", "a", content)


def test_files_are_counted(served):
    context = served()
    for _ in range(MAX_FILES):
        with pytest.raises(NotFound):
            ask(context, "read_file", "a")
    with pytest.raises(Refused, match="200 files"):
        ask(context, "read_file", "a")


def test_what_is_logged_is_kept_and_seen_by_whoever_watches(served, steps):
    context = served()
    assert ask(context, "log", "one") is None
    assert context.log_lines == ["one"]
    assert [(step.state, step.detail) for step in steps] == [("LOG", {"message": "one"})]


def test_a_log_that_is_full_says_so_and_takes_no_more(served):
    context = served()
    for number in range(MAX_LOG_LINES + 5):
        ask(context, "log", str(number))
    assert len(context.log_lines) == MAX_LOG_LINES + 1
    assert context.log_lines[-1] == "(Log limit reached.)"
    long = served()
    ask(long, "log", "x" * 100_000)
    assert long.log_lines == ["(Log limit reached.)"]


def test_values_of_the_environment_are_not_logged(served, steps):
    context = served(env={"API_KEY": KEY, "MODEL": "large-model"})
    ask(context, "log", f"{KEY} {base64.b64encode(KEY.encode()).decode()} large-model")
    assert context.log_lines == ["[redacted] [redacted] [redacted]"]
    assert KEY not in json.dumps([step.detail for step in steps])


def test_secrets_are_hidden_in_data_and_other_values_are_not():
    secrets = SecretFilter({"API_KEY": KEY, "PIN_TOKEN": "12345678", "MODEL": "large-model"})
    value = {"model": "large-model", "keys": [KEY, f"Bearer {KEY}", 1, 12345678, None, True], KEY: 1.5}
    assert secrets.redact_output(value) == {
        "model": "large-model",
        "keys": ["[redacted]", "Bearer [redacted]", 1, "[redacted]", None, True],
        "[redacted]": 1.5,
    }
    assert secrets.redact_output(["large-model", 1.5]) == ["large-model", 1.5]
    assert secrets.redact_text("large-model") == "[redacted]"
    assert SecretFilter({}).redact_text("as it is") == "as it is"


def test_a_run_has_so_much_in_its_own_folder_and_no_more(served, temporary, monkeypatch):
    monkeypatch.setattr(function_context, "MAX_OWN_BYTES", 10)
    context = served()
    ask(context, "write_file", "a", "123456")
    ask(context, "write_file", "a", "12345678")
    with pytest.raises(Refused, match="in its own folder"):
        ask(context, "write_file", "b", "123")
    assert ask(context, "write_file", "b", "12") == {"bytes": 2}


def test_nothing_happens_any_more_once_the_run_has_ended(served, call, tmp_path, temporary):
    outbound = Echo()
    context = served(outbound, roots=(Root(name="data", path=tmp_path.resolve(), writable=True),))

    async def run() -> None:
        async with context.opened():
            functions = context.functions()
        for name, args in (("write_file", ("data/late", "x")), ("read_file", ("a",)), ("fetch", ("https://a.org/",))):
            with pytest.raises(Refused, match="has already ended"):
                await functions[name](*args)
        await functions["log"]("late")

    asyncio.run(run())
    assert (outbound.requests, context.log_lines, list(temporary.iterdir())) == ([], [], [])
    assert not (tmp_path / "late").exists()


def test_a_run_that_is_ended_while_it_writes_ends_after_that(served, call, tmp_path, temporary, monkeypatch):
    begun, go_on = threading.Event(), threading.Event()
    written = safe_files.write_file

    def slow(*args) -> None:
        begun.set()
        go_on.wait(10)
        written(*args)

    monkeypatch.setattr(safe_files, "write_file", slow)
    context = served(roots=(Root(name="data", path=tmp_path.resolve(), writable=True),))

    async def run() -> None:
        async with context.opened():
            writing = asyncio.create_task(context.functions()["write_file"]("data/a", "x"))
            await asyncio.to_thread(begun.wait, 10)
            writing.cancel()
            asyncio.get_running_loop().call_soon(go_on.set)
            with pytest.raises(asyncio.CancelledError):
                await writing

    asyncio.run(run())
    assert (tmp_path / "a").read_text() == "x"
    assert call.notes.receipt.as_json()["touched"] == {"written": {"data/a": 1}}


def test_values_of_the_environment_are_not_on_the_receipt(served, call):
    context = served(env={"LOGIN": "open-sesame"})
    with pytest.raises(Refused):
        ask(context, "read_file", "/open-sesame/a")
    assert call.notes.receipt.as_json()["refused"] == {"read": {"/[redacted]/a": 1}}
