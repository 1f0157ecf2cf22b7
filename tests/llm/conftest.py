"""A server on loopback that speaks as the providers do, and models over it, to be held to one contract."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from prowess.llm.model import Model, ModelConfig, Reply
from prowess.llm.models import Models
from prowess.llm.scripted import ScriptedModel

KEY = "sk-canary-4f1d9a7c2b8e6053"


@pytest.fixture(scope="session")
def key() -> str:
    """The key that no error, log or representation may show."""
    return KEY


def _sse(*events: Any, named: bool = False) -> list[bytes]:
    lines = [f"event: {event['type']}\n".encode() if named else b"" for event in events]
    return [head + b"data: " + json.dumps(event).encode() + b"\n\n" for head, event in zip(lines, events, strict=True)]


def _halves(text: str) -> list[str]:
    middle = len(text) // 2
    return [part for part in (text[:middle], text[middle:]) if part]


class OpenAIDialect:
    """Chat completions."""

    def whole(self, reply: Reply) -> Any:
        return {
            "id": "chat-1",
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": reply.model,
            "choices": [{"index": 0, "finish_reason": self._finish(reply), "message": self._message(reply)}],
            "usage": self._usage(reply),
        }

    def pieces(self, reply: Reply) -> list[bytes]:
        def chunk(delta: Any, finish: str | None = None, **more: Any) -> Any:
            choice = {"index": 0, "delta": delta, "finish_reason": finish}
            return {
                "id": "chat-1",
                "object": "chat.completion.chunk",
                "created": 1_700_000_000,
                "model": reply.model,
                "choices": [choice],
                **more,
            }

        calls = [
            {"index": place, "id": call.id, "type": "function", "function": self._function(call)}
            for place, call in enumerate(reply.calls)
        ]
        said = [chunk({"role": "assistant", "content": half}) for half in _halves(reply.text)]
        asked = [chunk({"tool_calls": [call]}) for call in calls]
        last = {**chunk({}), "choices": [], "usage": self._usage(reply)}
        return [*_sse(*said, *asked, chunk({}, self._finish(reply)), last), b"data: [DONE]\n\n"]

    def _finish(self, reply: Reply) -> str:
        if not reply.complete:
            return "length"
        return "tool_calls" if reply.calls else "stop"

    def _function(self, call: Any) -> Any:
        return {"name": call.name, "arguments": json.dumps(call.arguments)}

    def _message(self, reply: Reply) -> Any:
        calls = [{"id": call.id, "type": "function", "function": self._function(call)} for call in reply.calls]
        return {"role": "assistant", "content": reply.text or None, **({"tool_calls": calls} if calls else {})}

    def _usage(self, reply: Reply) -> Any:
        read, written = reply.usage.input_tokens, reply.usage.output_tokens
        cached = {"prompt_tokens_details": {"cached_tokens": reply.usage.cached_tokens}}
        return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written, **cached}


class AnthropicDialect:
    """Messages."""

    def whole(self, reply: Reply) -> Any:
        return {**self._head(reply), "content": self._content(reply), "stop_reason": self._stop(reply)}

    def pieces(self, reply: Reply) -> list[bytes]:
        events: list[Any] = [
            {"type": "message_start", "message": {**self._head(reply), "content": [], "stop_reason": None}}
        ]
        for place, block in enumerate(self._content(reply)):
            events.extend(self._block(place, block))
        usage = {"output_tokens": reply.usage.output_tokens}
        delta = {"stop_reason": self._stop(reply), "stop_sequence": None}
        events.append({"type": "message_delta", "delta": delta, "usage": usage})
        return _sse(*events, {"type": "message_stop"}, named=True)

    def _block(self, place: int, block: Any) -> list[Any]:
        if block["type"] == "text":
            empty, deltas = (
                {**block, "text": ""},
                [{"type": "text_delta", "text": half} for half in _halves(block["text"])],
            )
        else:
            empty = {**block, "input": {}}
            deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
        return [
            {"type": "content_block_start", "index": place, "content_block": empty},
            *({"type": "content_block_delta", "index": place, "delta": delta} for delta in deltas),
            {"type": "content_block_stop", "index": place},
        ]

    def _head(self, reply: Reply) -> Any:
        cached = reply.usage.cached_tokens
        usage = {
            "input_tokens": reply.usage.input_tokens - cached,
            "cache_read_input_tokens": cached,
            "output_tokens": reply.usage.output_tokens,
        }
        return {
            "id": "msg-1",
            "type": "message",
            "role": "assistant",
            "model": reply.model,
            "stop_sequence": None,
            "usage": usage,
        }

    def _content(self, reply: Reply) -> list[Any]:
        said = [{"type": "text", "text": reply.text}] if reply.text else []
        return said + [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments} for call in reply.calls
        ]

    def _stop(self, reply: Reply) -> str:
        if not reply.complete:
            return "max_tokens"
        return "tool_use" if reply.calls else "end_turn"


class GoogleDialect:
    """Generate content."""

    def whole(self, reply: Reply) -> Any:
        said = [{"text": reply.text}] if reply.text else []
        return self._answer(reply, said + self._calls(reply), self._finish(reply))

    def pieces(self, reply: Reply) -> list[bytes]:
        said = [self._answer(reply, [{"text": half}]) for half in _halves(reply.text)]
        return _sse(*said, self._answer(reply, self._calls(reply), self._finish(reply)))

    def _finish(self, reply: Reply) -> str:
        return "STOP" if reply.complete else "MAX_TOKENS"

    def _calls(self, reply: Reply) -> list[Any]:
        return [{"functionCall": {"id": call.id, "name": call.name, "args": call.arguments}} for call in reply.calls]

    def _answer(self, reply: Reply, parts: list[Any], finish: str = "") -> Any:
        candidate = {"index": 0, "content": {"role": "model", "parts": parts}}
        read, written = reply.usage.input_tokens, reply.usage.output_tokens
        return {
            "candidates": [{**candidate, **({"finishReason": finish} if finish else {})}],
            "modelVersion": reply.model,
            "responseId": "answer-1",
            "usageMetadata": {
                "promptTokenCount": read,
                "cachedContentTokenCount": reply.usage.cached_tokens,
                "candidatesTokenCount": written,
                "totalTokenCount": read + written,
            },
        }


Respond = Callable[["Handler"], None]


@dataclass
class Provider:
    """A provider on loopback: it answers with what is queued, a reply in its dialect or whatever a function does."""

    dialect: Any
    url: str = ""
    queue: list[Reply | Respond] = field(default_factory=list)
    asked: list[Any] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    stopped: threading.Event = field(default_factory=threading.Event)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    provider: Provider

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with self.provider.lock:
            self.provider.asked.append(json.loads(body))
            self.provider.headers.append({name.lower(): value for name, value in self.headers.items()})
            self.provider.paths.append(self.path)
            next_one = self.provider.queue.pop(0)
        self.close_connection = True
        if not isinstance(next_one, Reply):
            next_one(self)
        elif json.loads(body).get("stream") or "streamGenerateContent" in self.path:
            self.begin(200, "text/event-stream")
            for piece in self.provider.dialect.pieces(next_one):
                self.piece(piece)
            self.piece(b"")
        else:
            self.whole(200, json.dumps(self.provider.dialect.whole(next_one)).encode())

    def whole(self, status: int, body: bytes, kind: str = "application/json", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def begin(self, status: int, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Connection", "close")
        self.end_headers()

    def piece(self, content: bytes) -> None:
        self.wfile.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")
        self.wfile.flush()

    def log_message(self, *_: Any) -> None:
        """Tests are quiet."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """A client that went away is no fault of the test."""


@pytest.fixture
def serve() -> Iterator[Callable[[Any], Provider]]:
    """Start a provider that speaks a dialect."""
    running: list[tuple[_Server, Provider]] = []

    def start(dialect: Any) -> Provider:
        provider = Provider(dialect)
        server = _Server(("127.0.0.1", 0), type("Bound", (Handler,), {"provider": provider}))
        provider.url = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        running.append((server, provider))
        return provider

    yield start
    for server, provider in running:
        provider.stopped.set()
        server.shutdown()
        server.server_close()


@dataclass
class Bench:
    """A model, and the provider behind it where there is one."""

    kind: str
    model: Model
    models: Models | None = None
    provider: Provider | None = None

    def will(self, *answers: Reply | Respond) -> None:
        """What it answers next."""
        if self.provider is not None:
            self.provider.queue.extend(answers)
        else:
            assert isinstance(self.model, ScriptedModel)
            self.model._steps.extend(answers)

    async def close(self) -> None:
        if self.models is not None:
            await self.models.close()


KINDS: dict[str, tuple[type, str, str, str]] = {
    "openai": (OpenAIDialect, "openai:gpt-4o", "OPENAI_BASE_URL", "/v1"),
    "compatible": (OpenAIDialect, "compatible:tiny", "", "/v1"),
    "ollama": (OpenAIDialect, "ollama:llama3.2", "OLLAMA_BASE_URL", "/v1"),
    "anthropic": (AnthropicDialect, "anthropic:claude-haiku-5-5", "ANTHROPIC_BASE_URL", ""),
    "google": (GoogleDialect, "google:gemini-2.5-flash", "GOOGLE_GEMINI_BASE_URL", ""),
}


@pytest.fixture
def bench(serve: Callable[[Any], Provider]) -> Callable[..., Bench]:
    """A bench of one kind: `scripted`, or a provider's name."""

    def make(kind: str, **limits: Any) -> Bench:
        if kind == "scripted":
            return Bench(kind, ScriptedModel([]))
        dialect, name, variable, path = KINDS[kind]
        provider = serve(dialect())
        keys = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "OLLAMA_API_KEY"), KEY)
        config = ModelConfig(
            base_url=provider.url + path, key=KEY, environment={**keys, variable: provider.url + path}, **limits
        )
        models = Models(config)
        return Bench(kind, models.open(name), models, provider)

    return make
