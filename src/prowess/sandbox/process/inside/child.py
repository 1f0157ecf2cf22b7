"""What a process of a native run does: it confines itself for good, runs one task, says what came of it, and ends."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from prowess.sandbox import frames
from prowess.sandbox.confining.kernel import prctl
from prowess.sandbox.confining.lock import NEEDED, lock
from prowess.sandbox.guest.bridge import PRINT

FAILED, UNCONFINED = 70, 77
"""The exit codes of a process that could not say what came of its task, and of one that could not be confined."""
MOST_THREADS = 4_096
"""Of all native runs, and whatever else the system counts with them."""
_LINE, _HIGHEST = 3, 1 << 16
_DIE_WITH_PARENT = 1

RunTask = Callable[[dict[str, Any], Callable[[str, str], str], types.ModuleType], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """What a process may read and take."""

    read: list[str]
    seconds: int
    memory_bytes: int
    path: list[str] = field(default_factory=list[str])
    """Where it imports from, after the standard library."""


class Line:
    """The way out: frames to the host, and its answers. Threads that ask take turns."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._most: dict[str, int] = {}

    def task(self) -> dict[str, Any]:
        """What is to be run."""
        head, _, task = self._read().partition(b"\n")
        self._most = json.loads(head)
        return json.loads(task)

    def call(self, name: str, payload: str) -> str:
        """What the host answers; nothing is answered to what was printed. What would be refused anyway is not said whole."""
        most = self._most["output_chars"] if name == PRINT else self._most["call_bytes"]
        with self._turn:
            self._send(frames.CALL, f"{name}\n{payload[: most + 1]}".encode("utf-8", "replace"))
            return "" if name == PRINT else self._read().decode()

    def tell(self, said: str) -> None:
        """Say what came of the task; no more of it than is enough to see that it is too much."""
        self._send(frames.DONE, said.encode("utf-8", "replace")[: self._most["result_bytes"] + 1])

    def _send(self, kind: int, payload: bytes) -> None:
        """Give one frame."""
        rest = memoryview(frames.frame(frames.ONLY, kind, payload))
        while rest:
            rest = rest[os.write(_LINE, rest) :]

    def _read(self) -> bytes:
        """The payload of the next frame; the process ends where there is none."""
        size, _, _ = frames.HEADER.unpack(self._bytes(frames.HEADER.size))
        return self._bytes(size)

    def _bytes(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = os.read(_LINE, size - len(data))
            if not piece:
                os._exit(0)
            data += piece
        return bytes(data)


def serve(line: int, confinement: Confinement, run_task: RunTask, skillkit: types.ModuleType) -> NoReturn:
    """Run the task that comes over the line, confined. The process ends with it."""
    code = FAILED
    try:
        _isolate(line)
        code = UNCONFINED
        if set(NEEDED) <= set(_locked(confinement)):
            code = FAILED
            _run(confinement.path, run_task, skillkit)
            code = 0
    finally:
        os._exit(code)


def probed(confinement: Confinement) -> list[str]:
    """What a process that is confined so reaches."""
    told, tell = os.pipe()
    if os.fork() == 0:
        try:
            os.write(tell, json.dumps(_locked(confinement)).encode())
        finally:
            os._exit(0)
    os.close(tell)
    with os.fdopen(told) as reached:
        said = reached.read()
    os.wait()
    return json.loads(said or "[]")


def _isolate(line: int) -> None:
    """Have nothing open but the line, and end with the process that this one was forked from."""
    prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    os.dup2(line, _LINE)
    os.closerange(_LINE + 1, _HIGHEST)


def _locked(confinement: Confinement) -> list[str]:
    return lock(
        read=confinement.read,
        write=(),
        seconds=confinement.seconds,
        memory_bytes=confinement.memory_bytes,
        file_bytes=0,
        processes=MOST_THREADS,
    )


def _run(path: list[str], run_task: RunTask, skillkit: types.ModuleType) -> None:
    line = Line()
    task = line.task()
    for name in [name for name in sys.modules if name.partition(".")[0] == "prowess"]:
        del sys.modules[name]
    sys.path += path
    line.tell(run_task(task, line.call, skillkit))
