"""The loop that reads messages and hands them to threads."""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import dspy

from prowess_dspy.channel import Channel, JsonObject, Session
from prowess_dspy.errors import InvalidMessage, InvalidOutput, SidecarError, Stopped
from prowess_dspy.requests import PROTOCOL_VERSION, run_execute, run_manifest, run_optimize

EXECUTE_THREADS = 16
OPTIMIZE_THREADS = 2
MAX_ID = 200

Handler = Callable[[Session, JsonObject], Any]


class Server:
    """Dispatches messages. One thread reads; each request runs in a thread of a pool."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._sessions: dict[int | str, Session] = {}
        self._lock = threading.Lock()
        execute = ThreadPoolExecutor(EXECUTE_THREADS, "execute")
        # Its own pool: optimizations last long, and must not keep executions waiting.
        optimize = ThreadPoolExecutor(OPTIMIZE_THREADS, "optimize")
        self._requests: dict[str, tuple[ThreadPoolExecutor, Handler]] = {
            "execute": (execute, run_execute),
            "optimize": (optimize, run_optimize),
            "manifest": (execute, run_manifest),
        }

    def serve(self) -> None:
        """Answer messages until the input ends or a shutdown is asked for."""
        versions = {"dspy": dspy.__version__, "python": platform.python_version()}
        self._channel.send({"hello": {"protocol": PROTOCOL_VERSION, "pid": os.getpid(), **versions}})
        for message in self._channel.messages():
            if isinstance(message, InvalidMessage):
                self._fail(None, message)
            elif message.get("type") == "shutdown":
                return
            else:
                self._dispatch(message)

    def _dispatch(self, message: JsonObject) -> None:
        kind = message.get("type")
        if "reply" in message:
            self._channel.receive(message)
        elif kind == "cancel":
            self._cancel(message.get("target"))
        else:
            request_id = message.get("id")
            try:
                self._start(request_id, kind, message)
            except InvalidMessage as error:
                self._fail(request_id if _is_id(request_id) else None, error)

    def _start(self, request_id: Any, kind: Any, message: JsonObject) -> None:
        if not _is_id(request_id):
            raise InvalidMessage(f"The id of a request is a whole number, or text of at most {MAX_ID} characters.")
        if kind == "ping":
            self._channel.send({"id": request_id, "ok": True, "result": "pong"})
            return
        if not isinstance(kind, str) or kind not in self._requests:
            types = ", ".join([*self._requests, "ping", "cancel", "shutdown"])
            raise InvalidMessage(f"Unknown type {str(kind)[:80]!r}. There are {types}.")
        pool, handler = self._requests[kind]
        session = Session(self._channel, request_id)
        with self._lock:
            if request_id in self._sessions:
                raise InvalidMessage(f"A request with the id {request_id} is running.")
            self._sessions[request_id] = session
        pool.submit(self._run, session, handler, message)

    def _cancel(self, target: Any) -> None:
        with self._lock:
            session = self._sessions.get(target) if _is_id(target) else None
        if session is not None:
            session.stop("cancelled")

    def _run(self, session: Session, handler: Handler, message: JsonObject) -> None:
        try:
            result = handler(session, message)
        except Stopped as stop:
            answer = _error("Cancelled" if stop.reason == "cancelled" else "LimitReached", "The request was stopped.")
        except SidecarError as error:
            answer = _error(error.type, str(error))
        except BaseException as error:  # noqa: BLE001 - whatever happens, the request gets an answer
            answer = _error(type(error).__name__, str(error))
        else:
            answer = {"ok": True, "result": result}
        with self._lock:
            del self._sessions[session.id]
        session.stop("ended")  # threads that an optimizer left behind make no more calls
        try:
            self._channel.send({"id": session.id, **answer})
        except (TypeError, ValueError, RecursionError):
            self._fail(session.id, InvalidOutput("The result cannot be written as JSON."))

    def _fail(self, request_id: int | str | None, error: SidecarError) -> None:
        self._channel.send({"id": request_id, **_error(error.type, str(error))})


def _is_id(value: Any) -> bool:
    return (isinstance(value, int) and not isinstance(value, bool)) or (isinstance(value, str) and len(value) <= MAX_ID)


def _error(kind: str, message: str) -> JsonObject:
    return {"ok": False, "error": {"type": kind, "message": message[:4_000]}}
