"""What one run of a prompt costs beyond the model: CPU per run through the whole walk, beside calling a model by hand.

    python benchmarks/run_overhead.py [--runs 300] [--litellm] [--out benchmarks/results/run_overhead.json]

"prowess" finds the skill, passes the gate, renders in the worker, asks, checks an assertion, writes trace and events. With a
scripted model nothing else happens, so its figure is our own cost; "scripted alone" is the model by itself. Over HTTP, a
stub server in a process of its own answers every client alike: pydantic-ai called directly, ours over the same provider,
and litellm. The CPU is that of the client process with all its threads; what the template worker uses stands in a column
of its own. `--litellm` installs that package into a temporary environment, so that it stays out of this one.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import http.server
import importlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

GOAL_MS = 1.5
COLUMNS = ("client", "model", "runs", "cpu_ms", "wall_ms", "worker_ms", "peak_mb")
PROMPT = "Given these claims about {{ entity }}:\n{% for claim in claims %}{{ loop.index }}. {{ claim }}\n{% endfor %}\nFind contradictions."
CLAIMS = [f"Claim {number} says that the harbour has {number} towers." for number in range(30)]
ANSWER = "Claims 3 and 7 contradict each other: one says three towers, the other seven."
LITELLM = "litellm>=1.84"
SIDECAR = """title: Checker
version: 1.0.0
artifacts:
  - path: prompts/check.j2
    kind: prompt_template
    name: check
    assertions:
      - {type: length, check: char_range, min: 10, max: 1000}
"""


class Stub(http.server.BaseHTTPRequestHandler):
    """Answers every request with the same completion."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        """One completion, whole or as a stream of one piece."""
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        usage = {"prompt_tokens": 400, "completion_tokens": 20, "total_tokens": 420}
        base = {"id": "x", "created": 1, "model": request["model"]}
        if request.get("stream"):
            chunks: list[dict[str, Any]] = [
                {
                    **base,
                    "object": "chat.completion.chunk",
                    "choices": [{"index": 0, "delta": {"role": "assistant", "content": ANSWER}}],
                },
                {
                    **base,
                    "object": "chat.completion.chunk",
                    "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
                },
                {**base, "object": "chat.completion.chunk", "choices": [], "usage": usage},
            ]
            body = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"
            self.send(body, "text/event-stream")
            return
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": ANSWER}}
        self.send(
            json.dumps({**base, "object": "chat.completion", "choices": [choice], "usage": usage}).encode(),
            "application/json",
        )

    def send(self, body: bytes, kind: str) -> None:
        """A whole answer."""
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def serve() -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Stub)
    print(f"http://127.0.0.1:{server.server_address[1]}/v1", flush=True)
    server.serve_forever()


def children_cpu() -> float:
    """The CPU seconds of the template workers that still run, as the system counts them."""
    total = 0.0
    tick = os.sysconf("SC_CLK_TCK")
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid():
            total += (int(fields[11]) + int(fields[12])) / tick
    return total


async def measure(client: str, model: str, runs: int, work: Callable[[], Awaitable[Any]]) -> dict[str, Any]:
    """The CPU and the median wall time of one run, after some that warm everything up."""
    for _ in range(20):
        await work()
    # The first run of a process deletes old traces in the background, which is not part of a run.
    for thread in threading.enumerate():
        if thread.name == "prowess-traces-tidy":
            await asyncio.to_thread(thread.join)
    # Importing makes so many objects that a full collection is due soon after. It takes 100 ms, and the next one is far off.
    gc.collect()
    times: list[float] = []
    before, cpu = children_cpu(), time.process_time()
    for _ in range(runs):
        began = time.perf_counter()
        await work()
        times.append(time.perf_counter() - began)
    used = time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    figures = (
        client,
        model,
        runs,
        used / runs * 1000,
        statistics.median(times) * 1000,
        (children_cpu() - before) / runs * 1000,
        peak,
    )
    return dict(zip(COLUMNS, [round(one, 3) if isinstance(one, float) else one for one in figures], strict=True))


def rendered() -> str:
    import minijinja

    return minijinja.render_str(PROMPT, entity="harbour", claims=CLAIMS)


async def by_scripted(runs: int, _url: str) -> dict[str, Any]:
    from prowess.llm.model import Message, Request
    from prowess.llm.scripted import ScriptedModel

    model = ScriptedModel([ANSWER] * (runs + 20))
    text = rendered()
    return await measure(
        "scripted alone", "scripted", runs, lambda: model.complete(Request(messages=(Message(role="user", text=text),)))
    )


async def by_prowess(runs: int, url: str) -> dict[str, Any]:
    from prowess.llm.scripted import ScriptedModel
    from prowess.open import Prowess
    from prowess.settings import read_settings

    with tempfile.TemporaryDirectory() as folder:
        skill = Path(folder, "work/.agents/skills/checker")
        (skill / "prompts").mkdir(parents=True)
        (skill / "agents").mkdir()
        (skill / "SKILL.md").write_text("---\nname: checker\ndescription: Finds contradictions.\n---\n\nCheck.\n")
        (skill / "prompts/check.j2").write_text(PROMPT)
        (skill / "agents/prowess.yaml").write_text(SIDECAR)
        environment = {
            "HOME": folder,
            "PROWESS_MODEL_URL": url,
            "PROWESS_MODEL_KEY": "none",
            "PROWESS_SYSTEM_SKILLS": "off",
            "PROWESS_TRUSTED_FOLDERS": folder,
        }
        settings = read_settings(environment, workspace=Path(folder, "work"))
        async with Prowess.open(settings=settings) as prowess:
            model = "compatible:stub" if url else ScriptedModel([ANSWER] * (runs + 20))
            inputs = {"entity": "harbour", "claims": CLAIMS}
            return await measure(
                "prowess",
                "stub server" if url else "scripted",
                runs,
                lambda: prowess.run("checker", inputs, artifacts="check", model=model),
            )


async def by_pydantic_ai(runs: int, url: str) -> dict[str, Any]:
    from pydantic_ai.direct import model_request
    from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, UserPromptPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    text = rendered()

    def answer(_messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[TextPart(ANSWER)])

    provider = OpenAIProvider(base_url=url or "http://127.0.0.1", api_key="none")
    model = OpenAIChatModel("stub", provider=provider) if url else FunctionModel(answer)
    messages: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart(text)])]
    return await measure(
        "pydantic-ai direct", "stub server" if url else "function", runs, lambda: model_request(model, messages)
    )


async def by_litellm(runs: int, url: str) -> dict[str, Any]:
    litellm: Any = importlib.import_module("litellm")

    text = "Given these claims:\n" + "\n".join(CLAIMS)
    return await measure(
        "litellm",
        "stub server",
        runs,
        lambda: litellm.acompletion(
            model="openai/stub", api_base=url, api_key="none", messages=[{"role": "user", "content": text}]
        ),
    )


CLIENTS = {"scripted": by_scripted, "prowess": by_prowess, "pydantic_ai": by_pydantic_ai, "litellm": by_litellm}


def in_own_process(python: str, client: str, runs: int, url: str) -> dict[str, Any]:
    """One client in a process of its own, so that none pays for another's imports."""
    environment = {**os.environ, "PYDANTIC_AI_NO_BANNER": "1", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    ran = subprocess.run(
        [python, __file__, "--client", client, "--runs", str(runs), "--url", url],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    if ran.returncode:
        sys.exit(f"{client} failed:\n{ran.stderr[-3000:]}")
    return json.loads(ran.stdout.splitlines()[-1])


def litellm_python(folder: str) -> str:
    """An interpreter that has litellm, in an environment that goes with the folder."""
    subprocess.run([sys.executable, "-m", "uv", "venv", "--quiet", folder], check=True)
    python = f"{folder}/bin/python"
    subprocess.run([sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", python, LITELLM], check=True)
    return python


def table(rows: list[dict[str, Any]]) -> None:
    print(f"{'client':<20}{'model':<14}{'runs':>6}{'CPU ms':>9}{'wall ms':>9}{'worker ms':>11}{'peak MB':>9}")
    for row in rows:
        print(
            f"{row['client']:<20}{row['model']:<14}{row['runs']:>6}{row['cpu_ms']:>9.2f}{row['wall_ms']:>9.2f}{row['worker_ms']:>11.2f}{row['peak_mb']:>9.0f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--litellm", action="store_true")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results/run_overhead.json")
    parser.add_argument("--client", choices=CLIENTS)
    parser.add_argument("--url", default="")
    parser.add_argument("--serve", action="store_true")
    given = parser.parse_args()
    if given.serve:
        serve()
    if given.client:
        print(json.dumps(asyncio.run(CLIENTS[given.client](given.runs, given.url))))
        return
    stub = subprocess.Popen([sys.executable, __file__, "--serve"], stdout=subprocess.PIPE, text=True)
    try:
        assert stub.stdout is not None
        url = stub.stdout.readline().strip()
        rows = [
            in_own_process(sys.executable, client, given.runs, "") for client in ("scripted", "prowess", "pydantic_ai")
        ]
        rows += [in_own_process(sys.executable, client, given.runs, url) for client in ("prowess", "pydantic_ai")]
        if given.litellm:
            with tempfile.TemporaryDirectory() as folder:
                rows.append(in_own_process(litellm_python(folder), "litellm", given.runs, url))
    finally:
        stub.kill()
    table(rows)
    own = rows[1]["cpu_ms"] - rows[0]["cpu_ms"]
    print(
        f"\n{'met' if own < GOAL_MS else 'NOT MET'}: our own CPU per run is {own:.2f} ms; the goal is under {GOAL_MS} ms."
    )
    given.out.parent.mkdir(exist_ok=True)
    given.out.write_text(json.dumps({"goal_ms": GOAL_MS, "own_ms": round(own, 3), "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
