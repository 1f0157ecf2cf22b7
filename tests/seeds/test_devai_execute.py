"""Devai: the printed generate-image skill, called as a tool, against an image API on loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from prowess.errors import Unavailable
from prowess.policy.actor import Actor, agent_of
from prowess.sandbox.deno.sandbox import find_deno
from prowess.tools.toolbox import Toolbox

pytestmark = pytest.mark.anyio

ANN = Actor(name="ann")
KEY = "sk-0123456789abcdefghij"
TOOL = "skill_generate_image"


@pytest.fixture(autouse=True)
def _needs_deno() -> None:
    try:
        find_deno()
    except Unavailable:
        pytest.skip("Deno is not installed")


class _Images(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers["content-length"]))
        self.server.asked.append((self.path, dict(self.headers), json.loads(sent)))
        body = json.dumps({"data": [{"url": "https://images.example/cat.png"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def images() -> Iterator[Any]:
    """An image API that keeps what it was asked."""
    opened: Any = ThreadingHTTPServer(("127.0.0.1", 0), _Images)
    opened.asked = []
    thread = threading.Thread(target=opened.serve_forever, args=(0.01,))
    thread.start()
    yield opened
    opened.shutdown()
    thread.join()
    opened.server_close()


@pytest.fixture
def generate_image(printed: Callable[..., str], place: Any) -> Callable[..., None]:
    """Writes the printed skill, with what it needs added to its manifest."""

    def write(**needs: Any) -> None:
        manifest = json.loads(printed("devai", "```json\n", "```", after="**`skill.json`**"))
        code = printed("devai", "```typescript\n", "```", after="exports a single function with a strict contract")
        place.write("generate-image", {"skill.json": json.dumps({**manifest, **needs}), "execute.ts": code})

    return write


def box(engine: Any) -> Toolbox:
    return Toolbox(engine, actor=agent_of(ANN, name="devo", role="builder"), conversation="chat")


async def kept(engine: Any) -> str:
    """All that is kept about the runs."""
    return str([await engine.traces.get(row.id) for row in await engine.traces.list()])


async def test_the_printed_skill_makes_an_image_and_its_key_is_kept_nowhere(
    place, generate_image, images, printed, accept
):
    generate_image(hosts=["api.openai.com"], env=["OPENAI_API_KEY"])
    place.environment["OPENAI_API_KEY"] = KEY
    async with place.open(ANN) as engine:
        await engine.policy.set("host_routes", {"api.openai.com": f"http://127.0.0.1:{images.server_port}"})
        await engine.env.allow("generate-image", "OPENAI_API_KEY")
        await accept(engine, "generate-image")
        assert TOOL in [tool.name for tool in await box(engine).offered()]
        answer = await box(engine).call(TOOL, {"prompt": "A cat in space"})
        traces = await kept(engine)
    assert answer.data["success"] is True
    assert answer.data["result"] == {"imageUrl": "https://images.example/cat.png"}
    [(path, headers, sent)] = images.asked
    assert path == "/v1/images/generations"
    assert {name.lower(): value for name, value in headers.items()}["authorization"] == f"Bearer {KEY}"
    assert sent == {"model": "dall-e-3", "prompt": "A cat in space", "size": "1024x1024"}
    assert "deno" in traces
    assert "api.openai.com" in traces
    assert KEY not in traces + str(answer)


@pytest.mark.parametrize(
    ("declared", "line"),
    [({}, '"env": ["OPENAI_API_KEY"]'), ({"env": ["OPENAI_API_KEY"]}, '"hosts": ["api.openai.com"]')],
)
async def test_as_printed_it_reaches_nothing_and_is_told_which_line_to_add(
    place, generate_image, images, accept, declared, line
):
    generate_image(**declared)
    place.environment["OPENAI_API_KEY"] = KEY
    async with place.open(ANN) as engine:
        await engine.policy.set("host_routes", {"api.openai.com": f"http://127.0.0.1:{images.server_port}"})
        await accept(engine, "generate-image")
        answer = await box(engine).call(TOOL, {"prompt": "A cat in space"})
        traces = await kept(engine)
    assert answer.data["success"] is False
    assert answer.data["hint"] == f"Add this line to skill.json: {line}"
    assert images.asked == []
    assert KEY not in traces + str(answer)


async def test_a_function_that_throws_is_an_answer(place, generate_image):
    generate_image()
    code = "export async function execute() {\n  throw new Error('no paint');\n}"
    place.write("generate-image", {"execute.ts": code})
    async with place.open(ANN) as engine:
        answer = await box(engine).call(TOOL, {"prompt": "A cat"})
        again = await box(engine).call(TOOL, {"prompt": "A dog"})
    assert (answer.data["success"], again.data["success"]) == (False, False)
    assert "no paint" in answer.data["error"]


async def test_arguments_that_do_not_fit_are_refused_before_anything_runs(place, generate_image, images):
    generate_image(hosts=["api.openai.com"])
    async with place.open(ANN) as engine:
        answer = await box(engine).call(TOOL, {"size": 3})
    assert answer.data.get("success") is not True
    assert images.asked == []
