"""http_call: a declared request with its values in place, sent to a server on loopback that stands for the host."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from urllib.parse import parse_qs, parse_qsl, unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.errors import Invalid, OutputInvalid, Refused, RunFailed, TimedOut, TryLater
from prowess.handlers.http_call import HttpCallHandler
from prowess.handlers.http_request import FORM_TYPE, RequestFiller
from prowess.net.client import GuardedHttpClient
from prowess.policy.grants import Grants
from prowess.run.call import Call, Output
from prowess.skill.declarations import parse_request
from prowess.skill.kinds import HttpCall

HOST = "api.example.com"
SECRET = "sk-canary/77+12=="


@dataclass
class Server:
    """What it hears, and what it answers: a status, header fields and a body for each request in turn, the last one again."""

    port: int = 0
    replies: list[tuple[int, dict[str, str], bytes]] = field(default_factory=list)
    heard: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    hang: Event | None = None

    def answer(self, value, status=200, **headers) -> None:
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        kind = {} if isinstance(value, bytes) else {"Content-Type": "application/json"}
        self.replies.append((status, {**kind, **{k.replace("_", "-"): v for k, v in headers.items()}}, body))


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()

    class Handler(BaseHTTPRequestHandler):
        def handle_one_request(self) -> None:
            self.raw_requestline = self.rfile.readline(65_537)
            if not self.raw_requestline or not self.parse_request():
                return
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            made.heard.append((self.command, self.path, headers, body))
            if made.hang is not None:
                made.hang.wait()
            status, fields, content = made.replies.pop(0) if len(made.replies) > 1 else made.replies[0]
            self.send_response(status)
            for name, value in {**fields, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.port = listening.server_port
    serving = Thread(target=listening.serve_forever, args=(0.01,))
    serving.start()
    yield made
    if made.hang is not None:
        made.hang.set()
    listening.shutdown()
    serving.join()
    listening.server_close()


@pytest.fixture
def run(server: Server, call_of) -> Iterator[Callable[..., Output]]:
    """What a request gives; `waits` has the seconds between its tries, `calls` the calls themselves."""
    outbound = GuardedHttpClient()

    def ran(handler: str, inputs=None, *, env=None, denied=None, skill=None, hosts=(HOST,), **metadata) -> Output:
        async def grants_of(call: Call) -> Grants:
            routes = {HOST: f"http://127.0.0.1:{server.port}"}
            return Grants(hosts=hosts, routes=routes, env=env or {}, denied=denied or {})

        async def sleep(seconds: float) -> None:
            ran.waits.append(seconds)

        about = {"extra": {"hosts": list(hosts), "env": list(env or {}) + list(denied or {})}, **(skill or {})}
        artifact = HttpCall(name="ask", handler=handler, metadata=metadata)
        call = call_of(artifact, inputs or {}, skill=about)
        ran.calls.append(call)
        return asyncio.run(HttpCallHandler(outbound, grants_of, sleep=sleep).run(call))

    ran.waits, ran.calls = [], []
    yield ran
    outbound.close()


def schema(*names: str) -> dict:
    return {"parameters": {"type": "object", "properties": {name: {} for name in names}}}


def test_a_request_is_filled_and_sent_and_its_json_is_the_output(server, run):
    server.answer({"id": 7, "name": "Ann"})
    output = run("GET https://api.example.com/items/{{ id }}?full={{ full }}", {"id": "a/b?c", "full": True})
    assert (output.data, output.value, output.result["status"]) == (
        {"id": 7, "name": "Ann"},
        {"id": 7, "name": "Ann"},
        200,
    )
    method, path, headers, _ = server.heard[0]
    assert (method, path, headers["host"]) == ("GET", "/items/a%2Fb%3Fc?full=true", HOST)


def test_an_answer_that_is_text_is_the_text(server, run):
    server.answer("grüße".encode("latin-1"), Content_Type="text/plain; charset=ISO-8859-1")
    output = run("https://api.example.com/")
    assert (output.text, output.data) == ("grüße", None)


def test_query_fields_are_added_lists_are_repeated_and_what_is_not_given_is_left_out(server, run):
    server.answer({})
    query = {
        "q": "{{ q }}",
        "tag": "{{ tags }}",
        "page": "{{ page }}",
        "v": 2,
        "fix": ["a", "{{ q }}"],
        "none": "{{ none }}",
    }
    inputs = {"q": "a&b=c d", "tags": ["x", "y"], "none": None}
    run("GET https://api.example.com/s?z=1", inputs, query=query, skill=schema("q", "tags", "page", "none"))
    asked = parse_qsl(urlsplit(server.heard[0][1]).query)
    assert asked == [
        ("z", "1"),
        ("q", "a&b=c d"),
        ("tag", "x"),
        ("tag", "y"),
        ("v", "2"),
        ("fix", "a"),
        ("fix", "a&b=c d"),
    ]


def test_a_json_body_keeps_the_types_of_its_values(server, run):
    server.answer({})
    body = {
        "n": "{{ n }}",
        "all": "{{ all }}",
        "text": "it is {{ n }}",
        "list": ["{{ n }}", "{{ gone }}"],
        "gone": "{{ gone }}",
    }
    run("POST https://api.example.com/", {"n": 3, "all": {"a": [1]}}, body=body, skill=schema("n", "all", "gone"))
    _, _, headers, content = server.heard[0]
    assert json.loads(content) == {"n": 3, "all": {"a": [1]}, "text": "it is 3", "list": [3]}
    assert headers["content-type"] == "application/json"


def test_a_body_is_a_form_where_its_type_says_so(server, run):
    server.answer({})
    run(
        "https://api.example.com/",
        {"a": "x&y=z", "b": [1, 2]},
        body={"a": "{{ a }}", "b": "{{ b }}"},
        headers={"Content-Type": FORM_TYPE},
    )
    method, _, headers, content = server.heard[0]
    assert (method, headers["content-type"]) == ("POST", FORM_TYPE)
    assert parse_qs(content.decode()) == {"a": ["x&y=z"], "b": ["1", "2"]}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("", 'say <b>"x"&</b>'),
        ("text/plain", 'say <b>"x"&</b>'),
        ("application/xml", "say &lt;b&gt;&quot;x&quot;&amp;&lt;/b&gt;"),
    ],
)
def test_a_text_body_is_filled_as_its_type_asks(server, run, kind, expected):
    server.answer({})
    headers = {"Content-Type": kind} if kind else {}
    run("POST https://api.example.com/", {"x": '<b>"x"&</b>'}, body="say {{ x }}", headers=headers)
    assert server.heard[0][3].decode() == expected


def test_values_are_not_filled_into_the_text_of_json(server, run):
    with pytest.raises(Invalid, match="Placeholders are not supported"):
        run(
            "POST https://api.example.com/",
            {"x": '"'},
            body='{"x": "{{ x }}"}',
            headers={"Content-Type": "application/json"},
        )
    server.answer({})
    run("POST https://api.example.com/", body='{"x": 1}', headers={"Content-Type": "application/json"})
    assert server.heard[0][3] == b'{"x": 1}'


@pytest.mark.parametrize("value", [".", "..", "", None, ["a"], {"a": 1}])
def test_a_value_that_would_lead_to_another_path_is_refused(server, run, value):
    with pytest.raises(Invalid):
        run("DELETE https://api.example.com/items/{{ id }}", {"id": value})
    assert server.heard == []


@pytest.mark.parametrize(
    "handler",
    [
        *("GET https://{{ host }}/", "GET https://api.{{ x }}/", "GET https://api.example.com{{ x }}", "{{ url }}"),
        *("GET https://api.example.com:{{ port }}/", "GET {{ scheme }}://api.example.com/", "ftp://api.example.com/", ""),
        *("GET https://user@api.example.com/", "GET /items", "FETCH https://api.example.com/", "GET https://api.example.com/#x"),
        *("GET https://api.example.com/{{ a | upper }}", "GET https://api.example.com/{{ env.KEY }}", "GET https:///x"),
        "GET https://api.example.com/?k={{ env.KEY }}",
    ],
)  # fmt: skip
def test_a_request_whose_host_is_not_written_out_is_none(server, run, handler):
    with pytest.raises(Invalid):
        run(handler, {"host": HOST, "x": "y", "url": f"https://{HOST}/", "port": 443, "scheme": "https", "a": 1})
    assert server.heard == []


@pytest.mark.parametrize(
    "metadata",
    [
        *({"method": "POST"}, {"header": {}}, {"headers": []}, {"query": {"a": {"b": 1}}}, {"timeout_seconds": 0}),
        *({"attempts": 99}, {"max_bytes": 10**9}, {"response": {"as": "xml"}}, {"response": {"status": [99]}}),
        *({"response": {"selekt": "a"}}, {"headers": {"{{ a }}": "x"}}, {"query": {"": "x"}}, {"body": "{{ env }}"}),
    ],
)
def test_a_setting_that_cannot_be_read_is_told(run, metadata):
    with pytest.raises(Invalid):
        run("GET https://api.example.com/", **metadata)


def test_an_input_that_is_neither_given_nor_declared_is_named(run):
    with pytest.raises(Invalid, match="Missing input 'q'"):
        run("GET https://api.example.com/", query={"q": "{{ q }}"})


def test_the_inputs_are_held_to_the_schema_of_the_skill_with_its_defaults(server, run):
    server.answer({})
    parameters = {"type": "object", "properties": {"n": {"type": "integer", "default": 5}}, "required": ["n"]}
    run("GET https://api.example.com/{{ n }}", skill={"parameters": parameters})
    assert server.heard[0][1] == "/5"
    with pytest.raises(Invalid, match="Invalid inputs"):
        run("GET https://api.example.com/{{ n }}", {"n": "x"}, skill={"parameters": parameters})


def test_granted_values_are_sent_in_headers_query_and_body_and_noted_by_name_alone(server, run):
    server.answer({})
    run(
        "POST https://api.example.com/",
        env={"API_KEY": SECRET},
        headers={"Authorization": "Bearer {{ env.API_KEY }}"},
        query={"key": "{{ env.API_KEY }}"},
        body={"key": "{{ env.API_KEY }}"},
    )
    _, path, headers, body = server.heard[0]
    assert headers["authorization"] == f"Bearer {SECRET}"
    assert (parse_qs(urlsplit(path).query)["key"], json.loads(body)) == ([SECRET], {"key": SECRET})
    notes = run.calls[0].notes
    assert notes.rendered == (
        "POST https://api.example.com/?key=[env.API_KEY]\nAuthorization: Bearer [env.API_KEY]\n"
        'content-type: application/json\n\n{"key": "[env.API_KEY]"}'
    )
    touched = notes.receipt.as_json()["touched"]
    assert touched == {"env": {"API_KEY": 1}, "hosts": {HOST: 1}}


@pytest.mark.parametrize("status", [200, 400, 503])
def test_a_host_that_echoes_a_secret_does_not_make_it_known(server, run, status):
    server.answer({"you": f"sent {SECRET}", SECRET: [SECRET]}, status=status)
    told = ""
    try:
        told = repr(
            run("POST https://api.example.com/", env={"API_KEY": SECRET}, headers={"X-Key": "{{ env.API_KEY }}"})
        )
    except (RunFailed, TryLater) as error:
        told = f"{error.message} {error.hint}"
    notes = run.calls[0].notes
    assert SECRET not in told + notes.raw + notes.rendered + json.dumps(notes.detail) + json.dumps(
        notes.receipt.as_json()
    )
    assert "[redacted]" in told


def test_a_secret_that_is_too_short_to_be_found_keeps_the_answer_out_of_errors_and_notes(server, run):
    server.answer(b"pin 4711 is wrong", status=403)
    with pytest.raises(RunFailed) as caught:
        run("POST https://api.example.com/", env={"PIN": "4711"}, headers={"X-Pin": "{{ env.PIN }}"})
    assert "4711" not in caught.value.message + run.calls[0].notes.raw


def test_a_name_that_the_skill_does_not_declare_or_nobody_allowed_is_refused_with_the_remedy(server, run):
    headers = {"X-Key": "{{ env.API_KEY }}"}
    with pytest.raises(Refused, match="does not declare the environment variable 'API_KEY'") as caught:
        run("GET https://api.example.com/", headers=headers)
    assert 'env: ["API_KEY"]' in caught.value.hint
    with pytest.raises(Refused, match="may not read the environment variable") as caught:
        run("GET https://api.example.com/", headers=headers, denied={"API_KEY": "Ask ann."})
    assert caught.value.hint == "Ask ann."
    assert run.calls[1].notes.receipt.as_json()["refused"] == {"env": {"API_KEY": 1}}
    assert server.heard == []


def test_an_input_called_env_stands_for_no_secret(server, run):
    server.answer({})
    with pytest.raises(Refused):
        run("GET https://api.example.com/", {"env": {"API_KEY": "mine"}}, headers={"X-Key": "{{ env.API_KEY }}"})


def test_a_host_that_the_skill_does_not_declare_is_refused_and_on_the_receipt(server, run):
    with pytest.raises(Refused, match=r"api\.example\.com is not one of the skill's hosts"):
        run("GET https://api.example.com/", hosts=())
    assert run.calls[0].notes.receipt.as_json()["refused"] == {"hosts": {HOST: 1}}
    assert server.heard == []


@pytest.mark.parametrize(
    ("select", "expected"),
    [
        ("items.0.name", "a"),
        ("items.*.name", ["a", "b"]),
        ("items.*", [{"name": "a", "n": 1}, {"name": "b"}]),
        ("items.*.n", [1]),
        ({"first": "items.0.n", "total": "meta.total"}, {"first": 1, "total": 2}),
        ("meta.none", None),
    ],
)
def test_what_is_selected_of_an_answer_is_the_output(server, run, select, expected):
    server.answer({"items": [{"name": "a", "n": 1}, {"name": "b"}], "meta": {"total": 2, "none": None}})
    assert (run("GET https://api.example.com/", response={"select": select}).value or None) == expected


def test_what_is_selected_and_not_there_is_told(server, run):
    server.answer({"items": []})
    with pytest.raises(OutputInvalid, match=r"no value at 'items\.0\.name'"):
        run("GET https://api.example.com/", response={"select": "items.0.name"})


def test_the_output_is_held_to_the_schema_of_the_skill(server, run):
    server.answer({"n": "x"})
    promised = {"output_schema": {"type": "object", "properties": {"n": {"type": "integer"}}}}
    with pytest.raises(OutputInvalid, match="/n"):
        run("GET https://api.example.com/", skill=promised)


@pytest.mark.parametrize("body", [b"{", b"", b"NaN", b"1e999", b"[" * 200 + b"]" * 200, b"[" * 100_000, b"1" * 5000])
def test_json_that_is_none_is_told(server, run, body):
    server.answer(body, Content_Type="application/json")
    if not body:
        assert run("GET https://api.example.com/").data is None
        return
    with pytest.raises(OutputInvalid):
        run("GET https://api.example.com/")


def test_an_answer_that_is_neither_text_nor_json_is_told(server, run):
    server.answer(b"\x89PNG\xff\x00", Content_Type="image/png")
    with pytest.raises(OutputInvalid, match="image/png"):
        run("GET https://api.example.com/")


def test_an_answer_is_read_as_the_request_says(server, run):
    server.answer({"a": 1})
    assert run("GET https://api.example.com/", response={"as": "text"}).text == '{"a": 1}'
    server.replies[:] = [(200, {"Content-Type": "text/plain"}, b'{"a": 1}')]
    assert run("GET https://api.example.com/", response={"as": "json"}).data == {"a": 1}


def test_a_status_that_is_not_wanted_fails_with_the_first_words_of_the_answer(server, run):
    server.answer(b"no such\x1b[31m item" + b"!" * 1000, status=404)
    with pytest.raises(RunFailed, match=r"api\.example\.com answered 404: no such") as caught:
        run("GET https://api.example.com/")
    assert "\x1b" not in caught.value.message
    assert len(caught.value.message) < 400
    assert len(server.heard) == 1
    assert run("GET https://api.example.com/", response={"status": [200, 404]}).result["status"] == 404


def test_a_request_that_may_be_repeated_is_where_the_host_is_busy(server, run):
    server.answer({}, status=503)
    server.answer({}, status=429, Retry_After="7")
    server.answer({"ok": True})
    assert run("GET https://api.example.com/").data == {"ok": True}
    assert len(run.waits) == 2
    assert run.waits[1] == 7


def test_tries_end(server, run):
    server.answer({}, status=502)
    with pytest.raises(TryLater, match="answered 502"):
        run("PUT https://api.example.com/", attempts=2)
    assert len(server.heard) == 2


def test_a_host_that_asks_for_more_time_than_there_is_is_not_waited_for(server, run):
    server.answer({}, status=429, Retry_After="3600")
    with pytest.raises(TryLater) as caught:
        run("GET https://api.example.com/")
    assert (caught.value.retry_after, len(server.heard), run.waits) == (3600, 1, [])


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_what_may_not_be_repeated_is_sent_once(server, run, method):
    server.answer({}, status=503)
    with pytest.raises(TryLater):
        run(f"{method} https://api.example.com/", body={})
    assert len(server.heard) == 1


def test_a_host_that_does_not_answer_ends_with_the_time_of_the_request(server, run):
    server.answer({})
    server.hang = Event()
    with pytest.raises(TimedOut, match=r"timed out after 0\.3 seconds"):
        run("GET https://api.example.com/", timeout_seconds=0.3)


def test_an_answer_that_is_too_large_is_told(server, run):
    server.answer(b"x" * 5000)
    with pytest.raises(RunFailed, match="limit of 4,999 bytes"):
        run("GET https://api.example.com/", max_bytes=4999)


@pytest.mark.parametrize(
    ("body", "headers", "expected", "kind"),
    [
        ("{{ text }}", {}, b"plain", "text/plain; charset=utf-8"),
        ("{{ text }}", {"Content-Type": "application/json"}, b'"plain"', "application/json"),
        ("{{ list.1.n }}", {}, b"2", "application/json"),
        ("{{ gone }}", {}, b"", None),
        ("a={{ sum }}", {"Content-Type": FORM_TYPE}, b"a=1%2B1+%26", FORM_TYPE),
        (["{{ text }}"], {"Content-Type": "application/vnd.api+json"}, b'["plain"]', "application/vnd.api+json"),
    ],
)
def test_a_body_is_what_its_value_and_its_type_make_it(server, run, body, headers, expected, kind):
    server.answer({})
    inputs = {"text": "plain", "list": [{}, {"n": 2}], "sum": "1+1 &"}
    run("POST https://api.example.com/", inputs, body=body, headers=headers, skill=schema("gone"))
    assert (server.heard[0][3], server.heard[0][2].get("content-type")) == (expected, kind)


@pytest.mark.parametrize(
    ("settings", "inputs"),
    [
        ({"body": {"a": 1}, "headers": {"Content-Type": "text/csv"}}, {}),
        ({"body": ["a"], "headers": {"Content-Type": FORM_TYPE}}, {}),
        ({"body": {"a": "{{ x }}"}}, {"x": float("nan")}),
        ({"body": {"a": "-{{ x }}"}}, {"x": [1]}),
        ({"headers": {"X-A": "{{ x }}"}}, {"x": "a\r\nHost: evil.test"}),
        ({"headers": {"X-A": "{{ x }}"}}, {"x": {"a": 1}}),
        ({"headers": {"Host": "evil.test"}}, {}),
        ({"query": {"a": "{{ x }}"}}, {"x": [{"a": 1}]}),
        ({"body": "{{ x.y }}"}, {"z": 1}),
    ],
)
def test_a_value_that_cannot_stand_where_it_is_put_is_told_and_nothing_is_sent(server, run, settings, inputs):
    with pytest.raises(Invalid):
        run("POST https://api.example.com/", inputs, **settings)
    assert server.heard == []


HOSTILE = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        [
            "../../x",
            "..%2f",
            "?a=b",
            "#",
            "\r\nHost: x",
            "\x00",
            "{{ env.KEY }}",
            "{{ b }}",
            "a&b=c",
            "\\..\\",
            "\ud800",
        ]
    ),
)


@given(HOSTILE, HOSTILE)
def test_no_value_leaves_its_place_in_a_url(first, second):
    declared = parse_request(
        HttpCall(name="x", handler="GET https://h.test/a/{{ a }}/z?q={{ b }}", metadata={"query": {"r": "-{{ a }}"}})
    )
    try:
        url = RequestFiller(inputs={"a": first, "b": second}, env={"KEY": SECRET}).fill(declared).url
    except Invalid:
        assert first in ("", ".", "..")
        return
    parts = urlsplit(url)
    segments = parts.path.split("/")
    clean = [text.encode(errors="replace").decode() for text in (first, second)]
    assert (parts.scheme, parts.netloc, parts.fragment, len(segments)) == ("https", "h.test", "", 4)
    assert unquote(segments[2]) == clean[0]
    assert parse_qsl(parts.query, keep_blank_values=True) == [("q", clean[1]), ("r", f"-{clean[0]}")]
    assert SECRET not in url


@given(HOSTILE, st.recursive(st.none() | st.booleans() | st.integers() | HOSTILE, st.lists, max_leaves=5))
def test_no_value_leaves_its_place_in_a_json_body(text, value):
    declared = parse_request(
        HttpCall(
            name="x", handler="https://h.test/", metadata={"body": {"a": "-{{ a }}-", "b": "{{ b }}", "c": ["{{ a }}"]}}
        )
    )
    body = RequestFiller(inputs={"a": text, "b": value}, env={"KEY": SECRET}).fill(declared).body
    clean = json.loads(json.dumps([text, value], ensure_ascii=False).encode(errors="replace"))
    assert json.loads(body) == {"a": f"-{clean[0]}-", "b": clean[1], "c": [clean[0]]}
