"""Functions through the engine: what they are given and reach, what is kept of them, and that nothing else notices them."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from prowess.errors import Invalid, Refused, RunFailed, TimedOut
from prowess.run.request import RunRequest

pytestmark = pytest.mark.anyio
PAGE = (Path(__file__).resolve().parents[2] / "docs" / "functions.md").read_text()
KEY = "sk-9876543210fedcba"


class _Answering(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.asked.append({name.lower(): value for name, value in self.headers.items()})
        body = json.dumps({"path": self.path, "sent": sent.decode()}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST  # noqa: N815  (named by http.server)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    """A host on loopback that keeps what it was asked."""
    opened = ThreadingHTTPServer(("127.0.0.1", 0), _Answering)
    opened.asked = []
    thread = threading.Thread(target=opened.serve_forever, args=(0.01,))
    thread.start()
    yield opened
    opened.shutdown()
    thread.join()
    opened.server_close()


def skill(place, code: str, slug: str = "tool", **manifest) -> None:
    told = {"id": slug, "name": "Tool", "description": "Does something.", **manifest}
    place.write(slug, {"skill.json": json.dumps(told), "execute.py": code})


async def test_a_function_runs_and_its_trace_tells_of_it(each_sandboxed, traces):
    skill(
        each_sandboxed,
        "def execute(args, ctx):\n    ctx.log('counted')\n    return {'success': True, 'result': len(args['text'])}",
        parameters={"text": {"type": "string", "default": "four"}},
    )
    async with each_sandboxed.open() as prowess:
        result = await prowess.run("tool")
        assert (result.data, result.text) == (4, "4")
        assert result.parts[0].output.result["log"] == ["counted"]
        with pytest.raises(Invalid):
            await prowess.run("tool", {"text": 1})
        [trace] = await traces(prowess)
    assert (trace.status, trace.artifact_kind, trace.detail["sandbox"]["runtime"]) == ("ok", "function", "wasm")
    assert trace.rendered_input == 'execute({"text": "four"})'


async def test_inputs_are_checked_before_the_sandbox_is_built_and_all_wrong_names_are_told_at_once(place):
    skill(
        place,
        "def execute(args, ctx):\n    return args",
        parameters={
            "text": {"type": "string", "required": True},
            "case": {"type": "string", "required": True},
            "size": {"type": "integer"},
        },
    )
    built = []
    async with place.open() as prowess:
        request = RunRequest(slug="tool", inputs={"txet": "a", "colour": 1}, on_setup=built.append)
        with pytest.raises(Invalid) as raised:
            await prowess.runs.attempt(request)
        with pytest.raises(Invalid, match="'sise' is unknown"):
            await prowess.run("tool", {"text": "a", "case": "b", "sise": 3})
    told = "Invalid inputs: 'txet' is unknown; 'colour' is unknown; 'text' is missing; 'case' is missing."
    assert raised.value.message == told
    assert raised.value.hint == "Did you mean 'text'? The skill takes: text (required), case (required), size."
    assert built == []


@pytest.mark.parametrize("name", ["verbose", "text.", "Text"])
async def test_an_input_that_a_skill_neither_declares_nor_uses_is_refused(sandboxed, name):
    skill(sandboxed, "def execute(args, ctx):\n    return args.get('deep')\n", parameters={"text": {"type": "string"}})
    async with sandboxed.open() as prowess:
        with pytest.raises(Invalid, match=f"Invalid inputs: '{name}' is unknown") as raised:
            await prowess.run("tool", {"text": "a", name: True})
        assert (await prowess.run("tool", {"text": "a", "deep": 4})).output.value == 4
    assert "The skill takes: text." in raised.value.hint


async def test_a_skill_that_allows_other_inputs_gets_them(sandboxed):
    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "additionalProperties": True}
    skill(sandboxed, "def execute(args, ctx):\n    return sorted(args)\n", parameters=schema)
    async with sandboxed.open() as prowess:
        assert (await prowess.run("tool", {"text": "a", "verbose": 1})).output.value == ["text", "verbose"]


async def test_a_function_that_returns_nothing_gives_nothing_not_an_empty_text(sandboxed):
    skill(sandboxed, "def execute(args, ctx):\n    print('done')\n")
    async with sandboxed.open() as prowess:
        told = (await prowess.run("tool")).as_json()
    assert (told["output"], told["parts"][0]["output"]) == (None, None)


async def test_a_function_reaches_a_declared_host_by_the_route_of_an_administrator(sandboxed, server, traces, accept):
    code = """
async def execute(args, ctx):
    answer = await ctx.fetch("https://api.example.org/v1/x", method="POST", body={"a": 1})
    return answer.json()
"""
    skill(sandboxed, code, hosts=["api.example.org"])
    async with sandboxed.open() as prowess:
        await prowess.policy.set("host_routes", {"api.example.org": f"http://127.0.0.1:{server.server_port}"})
        await accept(prowess, "tool")
        result = await prowess.run("tool")
        assert result.data == {"path": "/v1/x", "sent": '{"a": 1}'}
        [trace] = await traces(prowess)
    assert trace.detail["receipt"]["declared"] == {"hosts": ["api.example.org"]}
    assert trace.detail["receipt"]["touched"] == {"hosts": [{"name": "api.example.org", "times": 1}]}


async def test_a_host_that_is_not_declared_is_not_asked(sandboxed, server, traces, accept):
    url = f"http://127.0.0.1:{server.server_port}/"
    skill(sandboxed, f"def execute(args, ctx):\n    return ctx.fetch({url!r}).text()", hosts=["api.example.org"])
    async with sandboxed.open() as prowess:
        await accept(prowess, "tool")
        with pytest.raises(Refused, match=r"127\.0\.0\.1") as caught:
            await prowess.run("tool")
        [trace] = await traces(prowess)
    assert "hosts" in caught.value.hint
    assert trace.status == "refused"
    host = f"127.0.0.1:{server.server_port}"
    assert trace.detail["receipt"]["refused"] == {"hosts": [{"name": host, "times": 1}]}
    assert server.asked == []


async def test_a_value_of_the_environment_takes_the_word_of_an_administrator_and_is_kept_nowhere(
    sandboxed, server, traces, accept
):
    code = """
def execute(args, ctx):
    key = ctx.env["EXAMPLE_API_KEY"]
    print(key)
    ctx.log(key)
    ctx.fetch("https://api.example.org/", headers={"Authorization": "Bearer " + key})
    return {"echo": key}
"""
    skill(sandboxed, code, hosts=["api.example.org"], env=["EXAMPLE_API_KEY"])
    sandboxed.environment["EXAMPLE_API_KEY"] = KEY
    async with sandboxed.open() as prowess:
        await prowess.policy.set("host_routes", {"api.example.org": f"http://127.0.0.1:{server.server_port}"})
        await accept(prowess, "tool")
        with pytest.raises(RunFailed, match="EXAMPLE_API_KEY") as caught:
            await prowess.run("tool")
        assert "prowess env allow tool EXAMPLE_API_KEY" in caught.value.hint
        await prowess.env.allow("tool", "EXAMPLE_API_KEY")
        result = await prowess.run("tool")
        rows = await traces(prowess)
    assert server.asked[0]["authorization"] == f"Bearer {KEY}"
    assert result.data == {"echo": "[redacted]"}
    assert KEY not in str(result)
    assert KEY not in str(rows)
    assert rows[1].detail["receipt"]["touched"] == {
        "env": [{"name": "EXAMPLE_API_KEY", "times": 1}],
        "hosts": [{"name": "api.example.org", "times": 1}],
    }


async def test_folders_of_the_workspace_are_given_and_nothing_else(sandboxed, traces):
    (sandboxed.workspace / "texts").mkdir()
    (sandboxed.workspace / "texts" / "a.txt").write_text("apple")
    (sandboxed.workspace / "secret.txt").write_text("canary")
    (sandboxed.workspace / "texts" / "link").symlink_to("../secret.txt")
    code = "def execute(args, ctx):\n    ctx.write_file('out.txt', 'x')\n    return ctx.read_file(args['path'])"
    skill(sandboxed, code, roots=["texts"])
    async with sandboxed.open() as prowess:
        assert (await prowess.run("tool", {"path": "texts/a.txt"})).text == "apple"
        for path in ("texts/link", "texts/../secret.txt", str(sandboxed.workspace / "secret.txt"), "/etc/passwd"):
            with pytest.raises(Refused):
                await prowess.run("tool", {"path": path})
        with pytest.raises(RunFailed, match="not found"):
            await prowess.run("tool", {"path": "secret.txt"})
        rows = await traces(prowess)
    assert rows[0].detail["receipt"]["touched"] == {"read": [{"name": "texts/a.txt", "times": 1}]}
    assert rows[1].detail["receipt"]["refused"] == {"read": [{"name": "texts/link", "times": 1}]}
    assert not (sandboxed.workspace / "out.txt").exists()


async def test_a_server_that_serves_no_folders_gives_skills_nothing_of_its_own_folder(sandboxed):
    (sandboxed.workspace / "texts").mkdir()
    (sandboxed.workspace / "texts" / "a.txt").write_text("canary")
    sandboxed.environment["PROWESS_SKILL_FOLDERS"] = "off"
    skill(sandboxed, "def execute(args, ctx):\n    return ctx.read_file('texts/a.txt')", roots=["texts"])
    async with sandboxed.open() as prowess:
        (imported,) = await prowess.skills.import_path(sandboxed.workspace / ".agents/skills/tool", scope="org")
        assert imported.error is None
        with pytest.raises((Refused, RunFailed)) as raised:
            await prowess.run("tool")
    assert "canary" not in str(raised.value)


async def test_functions_that_misbehave_fail_alone(sandboxed, traces):
    code = """
def execute(args, ctx):
    ctx.log("begun")
    exec(args["do"])
    return "done"
"""
    skill(sandboxed, code)
    deeds = ["raise ValueError('x')", "import os; os._exit(0)", "'a' * (1 << 30)", "while True: print('x' * 999)", "1"]
    async with sandboxed.open() as prowess:
        ended = await asyncio.gather(
            *(prowess.runs.attempt(RunRequest(slug="tool", inputs={"do": deed})) for deed in deeds)
        )
        rows = await traces(prowess)
    assert [result.ok for result in ended] == [False, False, False, False, True]
    assert sorted(row.status for row in rows) == ["failed", "failed", "failed", "failed", "ok"]
    assert all(row.detail["log"] == ["begun"] for row in rows if row.status == "failed")


async def test_a_function_has_the_time_that_its_manifest_says(sandboxed, traces):
    sidecar = "title: Tool\nversion: 1.0.0\nartifacts:\n  - path: execute.py\n    kind: function\n    name: execute\n    timeout_seconds: 0.3\n"
    sandboxed.skill(
        "tool", files={"execute.py": "def execute(args, ctx):\n    while True: pass", "agents/prowess.yaml": sidecar}
    )
    async with sandboxed.open() as prowess:
        with pytest.raises(TimedOut, match=r"0\.3 s"):
            await prowess.run("tool", artifacts="execute")
        [trace] = await traces(prowess)
    assert trace.status == "timed_out"


async def test_the_example_of_the_page_does_what_it_says(sandboxed, server, accept):
    manifest = re.search(r"`skill.json`:\n\n```json\n(.*?)```", PAGE, re.DOTALL)[1]
    code = re.search(r"`execute.py`:\n\n```py\n(.*?)```", PAGE, re.DOTALL)[1]
    sandboxed.write("count-words", {"skill.json": manifest, "execute.py": code})
    (sandboxed.workspace / "texts").mkdir()
    (sandboxed.workspace / "texts" / "notes.txt").write_text("a b a c a b d")
    async with sandboxed.open() as prowess:
        await accept(prowess, "count-words")
        result = await prowess.run("count-words", {"file": "notes.txt"})
        assert result.data == {"a": 3, "b": 2, "c": 1}
        assert result.parts[0].output.result["log"] == ["4 different words"]
        await prowess.policy.set("host_routes", {"example.org": f"http://127.0.0.1:{server.server_port}"})
        fetched = await prowess.run("count-words", {"url": "https://example.org/page", "most": 1})
        assert len(fetched.data) == 1
