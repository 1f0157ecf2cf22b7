"""A program that speaks the sidecar's protocol without DSPy, and the real one in its environment."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from prowess.errors import Refused
from prowess.sidecar.environment import SidecarEnvironment
from prowess.sidecar.process import ProcessSidecar

ROOT = Path(__file__).resolve().parents[2]
REAL_PYTHON = ROOT / ".venv" / "sidecar" / "bin" / "python"

# The template says what happens, so that each test reads on its own.
PROGRAM = r"""
import json, os, sys, threading
lock, calls = threading.Lock(), {}

def send(message):
    with lock:
        os.write(1, json.dumps(message).encode() + b"\n")

def ask(request, kind, payload):
    done = threading.Event()
    number = len(calls) + 1
    calls[number] = [done, None]
    send({"call": number, "for": request, "kind": kind, "payload": payload})
    done.wait()
    return calls[number][1]

def work(message):
    request, template, params = message["id"], message.get("template_id"), message.get("params")
    if message["type"] == "manifest":
        result = {"dspy": "3.4.1", "python": "3.11", "templates": {"echo": {}}, "optimizers": ["simba"]}
    elif template == "echo":
        result = {"outputs": {**params, "signature": message["signature"], "options": message["options"]}}
    elif template == "raw":
        os.write(1, b'{"id": %d, "ok": true, "result": {"outputs": {"a": %s}}}\n' % (request, params["outputs"].encode()))
        return
    elif template == "chatter":
        result = {"outputs": {}}
        threading.Thread(target=chatter, daemon=True).start()
    elif template == "answer":
        result = params
    elif template == "ask":
        reply = ask(request, params["kind"], params["payload"])
        result = {"outputs": {"reply": {name: reply[name] for name in reply if name != "reply"}}}
    elif template == "crash":
        sys.stderr.write("Traceback: it broke\n")
        sys.stderr.flush()
        os._exit(3)
    elif template == "shout":
        os.write(1, b"x" * (1 << 20))
        os.write(1, b"\n")
        return
    elif template == "hang":
        ask(request, "llm", {"messages": []})
        return
    elif template == "environment":
        found = {"names": sorted(os.environ), "network": network(), "files": files(params["path"])}
        result = {"outputs": {**found, "written": [written(os.environ["TMPDIR"]), written("/dev/shm")]}}
    else:
        send({"id": request, "ok": False, "error": {"type": template, "message": "as asked"}})
        return
    send({"id": request, "ok": True, "result": result})

def chatter():
    while True:
        send({"id": 999, "ok": True, "result": {}})

def network():
    import socket
    try:
        socket.create_connection(("127.0.0.1", 9), 1).close()
    except PermissionError:
        return "denied"
    except OSError as error:
        return str(error)
    return "open"

def files(path):
    try:
        open(path).close()
    except OSError as error:
        return type(error).__name__
    return "open"

def written(folder):
    try:
        with open(f"{folder}/prowess-{os.getpid()}", "wb") as file:
            file.write(b"x")
    except OSError as error:
        return type(error).__name__
    return "written"

send({"hello": {"protocol": 1, "dspy": "3.4.1"}})
for line in sys.stdin:
    message = json.loads(line)
    if "reply" in message:
        calls[message["reply"]][1] = message
        calls[message["reply"]][0].set()
    elif message["type"] == "shutdown":
        os._exit(0)
    elif message["type"] == "cancel":
        sys.stderr.write("cancelled\n")
    else:
        threading.Thread(target=work, args=(message,), daemon=True).start()
"""


class Callbacks:
    """Answers with what it was asked; a tool is refused, and code breaks."""

    async def llm(self, payload: dict[str, Any]) -> dict[str, Any]:
        return {"text": "hello", "asked": payload}

    async def tool(self, _payload: dict[str, Any]) -> Any:
        raise Refused("Not this tool.", hint="Use another.")

    async def metric(self, _payload: dict[str, Any]) -> dict[str, Any]:
        return {"score": 0.5, "feedback": ""}

    async def code(self, _payload: dict[str, Any]) -> dict[str, Any]:
        raise ZeroDivisionError


@pytest.fixture
def callbacks() -> Callbacks:
    """What answers the calls of a program."""
    return Callbacks()


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A folder with a program that answers by its `template_id`."""
    folder = tmp_path / "program"
    folder.mkdir()
    (folder / "__main__.py").write_text(PROGRAM)
    return folder


StartSidecar = Callable[..., ProcessSidecar]


@pytest.fixture
async def start(program: Path, tmp_path: Path) -> AsyncIterator[StartSidecar]:
    """Make sidecars that run the program, and close them at the end."""
    made: list[ProcessSidecar] = []

    def make(**options: Any) -> ProcessSidecar:
        environment = SidecarEnvironment(tmp_path, named=sys.executable, program=program)
        made.append(ProcessSidecar(environment.find, **options))
        return made[-1]

    yield make
    for one in made:
        await one.close()
