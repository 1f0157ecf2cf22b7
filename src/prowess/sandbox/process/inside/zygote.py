"""The program that forks the processes of native runs, so that each starts with a warm interpreter.

It receives one request at a time over standard input: the socket that the new process is to use, and its confinement. Over
that socket it reports that the process exists, with a pidfd, and how it ended. A forked process confines itself for good,
runs one task, reports the outcome and exits. The program exits when its input closes, and its processes with it.
"""

from __future__ import annotations

import asyncio
import asyncio.events
import contextlib
import gc
import json
import os
import selectors
import signal
import socket
import sys
import threading
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from prowess import skillkit
from prowess.child import frames
from prowess.sandbox.confine.kernel import drop_privileges, leave_network, libc, prctl
from prowess.sandbox.confine.lockdown import NEEDED, lock_down
from prowess.sandbox.confine.seccomp import filter_for
from prowess.sandbox.guest import allowed
from prowess.sandbox.guest.bridge import PRINT
from prowess.sandbox.guest.task import run_task

FAILED, UNCONFINED = 70, 77
"""Exit codes of a process that could not report an outcome, and of one that could not be confined."""
MAX_THREADS = 4_096
"""The kernel counts all threads of the user, so this must leave room for other runs."""
_CHANNEL_FD, _MAX_FD = 3, 1 << 16
_DIE_WITH_PARENT = 1

RunTask = Callable[[dict[str, Any], Callable[[str, str], str], types.ModuleType], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """What a process may read and use."""

    read: list[str]
    seconds: int
    memory_bytes: int
    path: list[str] = field(default_factory=list[str])
    """Where it imports packages from, after the standard library."""


class HostChannel:
    """The only way out: frames to the host, and its answers. Threads take turns."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._limits: dict[str, int] = {}

    def task(self) -> dict[str, Any]:
        """Receive the task."""
        head, _, task = self._read().partition(b"\n")
        self._limits = json.loads(head)
        return json.loads(task)

    def call(self, name: str, payload: str) -> str:
        """Call the host and return its answer, '' for printed text.

        A payload that is too long is cut one character beyond the limit: enough for the host to reject it.
        """
        most = self._limits["output_chars"] if name == PRINT else self._limits["call_bytes"]
        with self._turn:
            self._send(frames.CALL, f"{name}\n{payload[: most + 1]}".encode("utf-8", "replace"))
            return "" if name == PRINT else self._read().decode()

    def report(self, outcome: str) -> None:
        """Report the outcome. One that is too long is cut one byte beyond the limit: enough for the host to reject it."""
        self._send(frames.DONE, outcome.encode("utf-8", "replace")[: self._limits["result_bytes"] + 1])

    def _send(self, kind: int, payload: bytes) -> None:
        """Send one frame."""
        rest = memoryview(frames.encode_frame(frames.ONLY, kind, payload))
        while rest:
            rest = rest[os.write(_CHANNEL_FD, rest) :]

    def _read(self) -> bytes:
        """Return the payload of the next frame; the process exits if there is none."""
        size, _, _ = frames.HEADER.unpack(self._bytes(frames.HEADER.size))
        return self._bytes(size)

    def _bytes(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = os.read(_CHANNEL_FD, size - len(data))
            # The host is gone or has given up the run; `sys.exit` could be caught by the script.
            if not piece:
                os._exit(0)
            data += piece
        return bytes(data)


def serve(line: int, confinement: Confinement, run_task: RunTask, skillkit: types.ModuleType) -> NoReturn:
    """Confine this process, run the task that arrives over the socket, and exit."""
    # `os._exit` on every path: returning would let this copy of the zygote serve requests, unconfined.
    code = FAILED
    try:
        _isolate_process(line)
        code = UNCONFINED
        if set(NEEDED) <= set(_confine(confinement)):
            code = FAILED
            _run_one(confinement.path, run_task, skillkit)
            code = 0
    finally:
        os._exit(code)


def probe_confinement(confinement: Confinement) -> list[str]:
    """Return what a confinement achieves; it is tried in a forked process."""
    achieved, report_end = os.pipe()
    if os.fork() == 0:
        try:
            # A confinement cannot be undone, so it is tried in a process that is thrown away.
            os.write(report_end, json.dumps(_confine(confinement)).encode())
        finally:
            os._exit(0)
    os.close(report_end)
    with os.fdopen(achieved) as pipe:
        report = pipe.read()
    os.wait()
    return json.loads(report or "[]")


def _isolate_process(line: int) -> None:
    """Close everything but the socket, and die with the process that this one was forked from."""
    prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    # Inherited descriptors would lead to other runs: the zygote holds the socket of each of them.
    os.dup2(line, _CHANNEL_FD)
    os.closerange(_CHANNEL_FD + 1, _MAX_FD)


def _confine(confinement: Confinement) -> list[str]:
    return lock_down(
        read=confinement.read,
        write=(),
        seconds=confinement.seconds,
        memory_bytes=confinement.memory_bytes,
        file_bytes=0,
        processes=MAX_THREADS,
    )


def _run_one(path: list[str], run_task: RunTask, skillkit: types.ModuleType) -> None:
    line = HostChannel()
    task = line.task()
    # A script that imports `prowess` gets its host module, never the code of this package.
    for name in [name for name in sys.modules if name.partition(".")[0] == "prowess"]:
        del sys.modules[name]
    sys.path += path
    line.report(run_task(task, line.call, skillkit))


_MESSAGE_BYTES = 1 << 16
# CPython specializes bytecode only after it has run several times.
_REHEARSALS = 10
_M_ARENA_MAX = -8
"""The glibc option for the number of malloc arenas. Each reserves 64 MiB of addresses, which count against RLIMIT_AS."""
_TASK = json.dumps(
    {
        "source": "async def execute(args, ctx):\n    await ctx.log('')\n    print(args)\n    return dict(args)\n",
        "shown": "",
        "marks": {},
        "inputs": {"a": 1},
        "variables": [],
        "modules": ["inklings", "prowess"],
        "functions": ["log", "nothing"],
        "entry": "execute",
        "env": {},
        "file": "execute.py",
    }
)


class ForkServer:
    """Forks processes for the host."""

    def __init__(self, requests: socket.socket, read: list[str]) -> None:
        self._requests = requests
        self._read = read
        self._waiting = selectors.DefaultSelector()
        self._waiting.register(requests, selectors.EVENT_READ)

    def serve(self) -> None:
        """Serve requests until the host is gone."""
        while True:
            for key, _ in self._waiting.select():
                if key.data is not None:
                    self._reap(key.fd, *key.data)
                elif not self._take():
                    return

    def _take(self) -> bool:
        """Fork one process; return False if the host is gone."""
        message, lines, _, _ = socket.recv_fds(self._requests, _MESSAGE_BYTES, 1)
        if not message:
            return False
        options, line = json.loads(message), lines[0]
        pid = os.fork()
        if pid == 0:
            serve(line, Confinement(read=[*self._read, *options.pop("read")], **options), run_task, skillkit)
        # Not reaped before `_reap`, so the id is still that of this process.
        process, host = os.pidfd_open(pid), socket.socket(fileno=line)
        self._waiting.register(process, selectors.EVENT_READ, (pid, host))
        # The host may be gone, or have given the run up: the zygote must neither fail nor wait for it.
        with contextlib.suppress(OSError):
            socket.send_fds(host, [frames.encode_frame(frames.ONLY, frames.STARTED)], [process], socket.MSG_DONTWAIT)
        return True

    def _reap(self, process: int, pid: int, line: socket.socket) -> None:
        """Reap a process and report how it ended; the host has closed the socket if it knows already."""
        self._waiting.unregister(process)
        os.close(process)
        _, status = os.waitpid(pid, 0)
        frame = frames.encode_frame(
            frames.ONLY, frames.EXITED, _describe_exit(os.waitstatus_to_exitcode(status)).encode()
        )
        with line, contextlib.suppress(OSError):
            line.send(frame, socket.MSG_DONTWAIT)


def _describe_exit(code: int) -> str:
    if code == UNCONFINED:
        return "it could not be confined"
    return f"its process exited with {code}" if code >= 0 else f"its process was killed by {signal.Signals(-code).name}"


def main(options: dict[str, Any]) -> NoReturn:
    """Serve; `options` holds the paths that every process may read."""
    requests = socket.socket(fileno=os.dup(0))  # descriptor 0 becomes /dev/null, which scripts may read
    _prepare(options["folders"])
    reached = ["network"] if leave_network() else []
    drop_privileges()
    probe = probe_confinement(Confinement(read=options["read"], seconds=1, memory_bytes=1 << 28))
    reached += [word for word in probe if word not in reached]
    requests.send(json.dumps(reached).encode())
    if set(NEEDED) <= set(reached):
        # Frozen objects are not visited by the collector, which would copy their shared pages in every process.
        gc.collect()
        gc.freeze()
        ForkServer(requests, options["read"]).serve()
    os._exit(0)


def _prepare(folders: list[str]) -> None:
    """Load the modules that every run uses, and remove everything that no run may see."""
    loop = asyncio.events.new_event_loop
    allowed.load()
    asyncio.new_event_loop = asyncio.events.new_event_loop = loop
    os.environ.clear()
    sys.path[:] = [path for path in sys.path if path not in folders]
    if hasattr(libc(), "mallopt"):
        libc().mallopt(_M_ARENA_MAX, 1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nothing, descriptor)
    _rehearse()


def _rehearse() -> None:
    """Run tasks once before forking: every process inherits specialized bytecode, caches and warm memory."""
    filter_for(may_start=False)  # cached, so that no process has to assemble it
    modules, outputs = dict(sys.modules), (sys.stdout, sys.stderr)
    for _ in range(_REHEARSALS):
        run_task(json.loads(_TASK), _ignore_call, skillkit)
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__ = outputs  # type: ignore[misc]
    # Modules that a task made, such as `inklings`, must not be inherited.
    sys.modules.clear()
    sys.modules.update(modules)


def _ignore_call(name: str, payload: str) -> str:
    """Answer a call with nothing."""
    del name, payload
    return json.dumps({"value": None})
