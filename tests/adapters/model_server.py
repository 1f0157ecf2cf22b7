"""A model behind HTTP on this machine that answers from a script, for frameworks that speak to a provider's API.

It speaks OpenAI's Chat Completions and Responses and Anthropic's Messages, with and without streaming. It is strict: a
request that the script does not expect, or a reply that nobody asked for, fails the test.
"""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What the model answers: a text, or calls of tools as (name, arguments)."""

    text: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()


@dataclass(frozen=True, kw_only=True)
class SeenRequest:
    """What the model was sent, the same for every API."""

    path: str
    body: dict[str, Any]
    system: str
    """All instructions: system and developer messages, or the field for them."""
    text: str
    """Everything that was said, as JSON text, including calls and their results."""
    tools: tuple[str, ...]


@dataclass(kw_only=True)
class ModelServer:
    """The server, with what it was asked. `url` ends before `/v1`."""

    replies: list[Reply]
    url: str = ""
    requests: list[SeenRequest] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def next_reply(self, path: str, body: dict[str, Any]) -> tuple[Reply | None, int]:
        """Record a request, and return the reply to it with its number; None if the script has no more."""
        self.requests.append(_read_request(path, body))
        if not self.replies:
            self.problems.append(f"unexpected request to {path}: {str(body)[-500:]}")
            return None, 0
        return self.replies.pop(0), len(self.requests)


@contextmanager
def serve_model(*replies: Reply) -> Iterator[ModelServer]:
    """Serve a scripted model on a loopback port. At the end, exactly these replies must have been given."""
    model = ModelServer(replies=list(replies))

    class Handler(_Handler):
        script = model

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = False
        model.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield model
        finally:
            server.shutdown()
            thread.join()
    assert not model.problems, model.problems
    assert not model.replies, f"{len(model.replies)} replies were not asked for"


def environment(url: str) -> dict[str, str]:
    """Return the environment variables that send the usual SDKs to the server."""
    return {
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_KEY": "none",
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "none",
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CREWAI_DISABLE_TELEMETRY": "true",
        "NO_PROXY": "127.0.0.1",
    }


class _Handler(http.server.BaseHTTPRequestHandler):
    script: ModelServer

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""

    def do_POST(self) -> None:
        path = self.path.partition("?")[0]
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        make = _APIS.get(path)
        reply, number = self.script.next_reply(path, body)
        if make is None or reply is None:
            if make is None:
                self.script.problems.append(f"unknown path {path}")
            self._send(400, "application/json", json.dumps({"error": {"message": "not in the script", "type": "test"}}))
            return
        whole, events = make(reply, number, body["model"])
        if body.get("stream"):
            lines = [
                f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"
                if "type" in event
                else f"data: {json.dumps(event)}\n\n"
                for event in events
            ]
            done = "data: [DONE]\n\n" if path.endswith("completions") else ""
            self._send(200, "text/event-stream", "".join(lines) + done)
        else:
            self._send(200, "application/json", json.dumps(whole))

    def _send(self, status: int, kind: str, text: str) -> None:
        content = text.encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


_Made = tuple[dict[str, Any], list[dict[str, Any]]]
"""A whole answer, and the events of the same answer as a stream."""


def _make_completion(reply: Reply, number: int, model: str) -> _Made:
    calls = [
        {
            "index": place,
            "id": f"call_{number}_{place}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        for place, (name, arguments) in enumerate(reply.calls)
    ]
    message = {"role": "assistant", "content": reply.text or None, **({"tool_calls": calls} if calls else {})}
    finish, usage = (
        "tool_calls" if calls else "stop",
        {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120},
    )
    head = {"id": f"chat_{number}", "created": 1, "model": model}
    plain = {
        **message,
        **({"tool_calls": [{key: call[key] for key in ("id", "type", "function")} for call in calls]} if calls else {}),
    }
    whole = {
        **head,
        "object": "chat.completion",
        "choices": [{"index": 0, "finish_reason": finish, "message": plain}],
        "usage": usage,
    }
    chunk = {**head, "object": "chat.completion.chunk"}
    events = [
        {**chunk, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
        {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
        {**chunk, "choices": [], "usage": usage},
    ]
    return whole, events


def _make_response(reply: Reply, number: int, model: str) -> _Made:
    output: list[dict[str, Any]] = []
    if reply.text:
        content = [{"type": "output_text", "text": reply.text, "annotations": []}]
        output.append(
            {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": content}
        )
    output += [
        {
            "type": "function_call",
            "id": f"fc_{number}_{place}",
            "call_id": f"call_{number}_{place}",
            "name": name,
            "arguments": json.dumps(arguments),
            "status": "completed",
        }
        for place, (name, arguments) in enumerate(reply.calls)
    ]
    usage = {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 120,
    }
    whole = {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": model,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": usage,
    }
    started = {**whole, "status": "in_progress", "output": []}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": started, "sequence_number": 0}]
    for place, item in enumerate(output):
        events += [
            {"type": "response.output_item.added", "output_index": place, "item": item, "sequence_number": len(events)},
            {
                "type": "response.output_item.done",
                "output_index": place,
                "item": item,
                "sequence_number": len(events) + 1,
            },
        ]
    return whole, [*events, {"type": "response.completed", "response": whole, "sequence_number": len(events)}]


def _make_message(reply: Reply, number: int, model: str) -> _Made:
    blocks: list[dict[str, Any]] = [{"type": "text", "text": reply.text}] if reply.text else []
    blocks += [
        {"type": "tool_use", "id": f"toolu_{number}_{place}", "name": name, "input": arguments}
        for place, (name, arguments) in enumerate(reply.calls)
    ]
    reason, usage = "tool_use" if reply.calls else "end_turn", {"input_tokens": 100, "output_tokens": 20}
    head = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "stop_sequence": None,
        "usage": usage,
    }
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {**head, "content": [], "stop_reason": None}}]
    for place, block in enumerate(blocks):
        empty = {**block, "text": ""} if block["type"] == "text" else {**block, "input": {}}
        delta = (
            {"type": "text_delta", "text": block["text"]}
            if block["type"] == "text"
            else {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        )
        events += [
            {"type": "content_block_start", "index": place, "content_block": empty},
            {"type": "content_block_delta", "index": place, "delta": delta},
            {"type": "content_block_stop", "index": place},
        ]
    events += [
        {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]
    return {**head, "content": blocks, "stop_reason": reason}, events


_APIS = {"/v1/chat/completions": _make_completion, "/v1/responses": _make_response, "/v1/messages": _make_message}


def _read_request(path: str, body: dict[str, Any]) -> SeenRequest:
    said = body.get("messages", body.get("input", []))
    messages = [one for one in said if isinstance(one, dict)] if isinstance(said, list) else []
    systems = [one.get("content") for one in messages if one.get("role") in ("system", "developer")]
    tools = [tool.get("function", tool) for tool in body.get("tools") or []]
    return SeenRequest(
        path=path,
        body=body,
        system="\n".join(_text(one) for one in [body.get("system"), body.get("instructions"), *systems] if one),
        text=json.dumps(said, ensure_ascii=False),
        tools=tuple(tool.get("name", "") for tool in tools),
    )


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)
