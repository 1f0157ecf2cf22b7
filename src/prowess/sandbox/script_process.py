"""The process of one script, seen from the host, and how programs of the sandbox are started.

The process is not trusted: everything that it sends is checked, and it can only harm its own run.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, Protocol, get_args

from prowess.child import frames
from prowess.child.process import ChildProcess, FrameChannel, package_folders, python_command
from prowess.errors import RunFailed
from prowess.sandbox.protocol import EndReason, SandboxLimits

MAX_FRAME_BYTES = 16 << 20
"""A process that sends a larger frame is broken or hostile, and is ended."""
MAX_PRINTS = 20_000
"""The most pieces of output of one script; each costs the host a list entry, even if it is empty."""
_EXIT_MILLISECONDS = 2_000
_PROTOCOL_ERROR = "it sent an invalid message"
_PRINT = "print"
_END_REASONS = frozenset(get_args(EndReason))

_PROGRAM_PACKAGES = ("prowess", "wasmtime", "componentize_py")
# The interpreter starts without site packages. Folders are appended, so that no package hides a module of Python.
_BOOTSTRAP = (
    "import sys, json, importlib; options = json.loads(sys.argv[1]); sys.path += options['folders']; "
    "importlib.import_module(options['program']).main(options)"
)


def program_command(program: str, *, package: str = "sandbox.wasm.inside", **options: Any) -> list[str]:
    """Return the command line that calls `main(options)` of a module; it can import the standard library and three packages."""
    folders = package_folders(_PROGRAM_PACKAGES)
    argument = json.dumps({**options, "program": f"prowess.{package}.{program}", "folders": folders})
    return python_command("-c", _BOOTSTRAP, argument)


def start_confined(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    lock: Mapping[str, Any],
    required: Sequence[str] = (),
    stderr: IO[bytes],
) -> tuple[ChildProcess, list[Any]]:
    """Start a program that confines itself by `lock_down` first, and wait until it was executed. Blocking.

    Return it with what its launcher reported: how it is confined and, if it could not be executed, why not. Raise `OSError` if
    the launcher cannot be started.
    """
    report, report_end = os.pipe()
    options = {"argv": list(argv), "env": dict(env), "lock": dict(lock), "required": list(required)}
    command = program_command("launcher", package="sandbox.confine", parent=os.getpid(), **options)
    with os.fdopen(report, "rb") as pipe:
        try:
            child = ChildProcess.start(
                [*command, str(report_end)], channel="stdio", stderr=stderr, pass_fds=(report_end,)
            )
        finally:
            os.close(report_end)  # or the end of the report would never be seen
        try:
            return child, [json.loads(line) for line in pipe]
        except ValueError:
            return child, []  # it was killed while it wrote


OnCall = Callable[[str, str], None]
"""Called for every call of a script, with the name of the host function and its arguments as JSON."""


class Peer(Protocol):
    """A process that runs scripts, as one run sees it."""

    @property
    def confined(self) -> tuple[str, ...]:
        """How the process is confined, besides by the engine."""
        ...

    def open(self, number: int, on_call: OnCall, on_end: Callable[[], None]) -> asyncio.Future[bytes]:
        """Return a future of the outcome: a line of JSON, then what the script reports; `RunFailed` if the process broke.

        `on_end` is called as soon as the future is done.
        """
        ...

    def send(self, number: int, kind: int, payload: bytes = b"") -> None:
        """Send a frame as soon as the process takes it."""
        ...

    def end(self) -> None:
        """Kill the process, whatever it does."""
        ...


class ScriptProcess:
    """A process that runs one script and is never used again.

    Its time runs while it computes, and stands still while its host answers a call; it is killed when the time is up. When the
    future of its run has a result, the process is dead, however it ended.

    `process` is its pidfd. Without one, it arrives with the first frame, from the process that forks it. Nothing is sent before
    it is here: a script that runs must be one that can be killed.
    """

    def __init__(
        self, line: socket.socket, limits: SandboxLimits, confined: tuple[str, ...], process: int | None = None
    ) -> None:
        self._line = line
        self._process = process
        self._left = limits.seconds
        self._since = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[bytes] = self._loop.create_future()
        self._on_call: OnCall | None = None
        self._on_end: Callable[[], None] | None = None
        self._started = process is not None
        self._unsent: list[tuple[int, int, bytes]] = []
        self._printed: list[str] = []
        self._room = limits.output_chars
        buffer = frames.FrameBuffer(MAX_FRAME_BYTES, run=frames.ONLY)
        self._channel = FrameChannel(line, buffer, self._take, self._lose, receive=self._receive)
        self.confined = confined

    def open(self, number: int, on_call: OnCall, on_end: Callable[[], None]) -> asyncio.Future[bytes]:
        """Return a future of the outcome."""
        del number
        self._on_call, self._on_end = on_call, on_end
        self._channel.attach(self._loop)
        return self._ended

    def send(self, number: int, kind: int, payload: bytes = b"") -> None:
        """Send a frame, after which its time runs; to cancel it is to kill it, for the reason in the payload."""
        if self._ended.done():
            return
        if kind == frames.CANCEL:
            reason = payload.decode()
            self._finish(reason if reason in _END_REASONS else "crashed", reason)
            return
        # The script computes from here until its next call.
        self._since = self._loop.time()
        self._timer = self._loop.call_later(self._left, self._finish, "time")
        if self._process is None:
            self._unsent.append((number, kind, payload))
        else:
            self._channel.send(number, kind, payload)

    def end(self) -> None:
        """Kill it."""
        self._finish("crashed", "it was killed")

    def _receive(self, size: int) -> bytes:
        """Receive bytes; the first also carry the pidfd, after which the process gets its task."""
        if self._process is not None:
            return self._line.recv(size)
        # `STARTED` is a header without payload: nothing of later frames is received here.
        data, descriptors, _, _ = socket.recv_fds(self._line, frames.HEADER.size, 1, socket.MSG_CMSG_CLOEXEC)
        if descriptors:
            self._process = descriptors[0]
            while self._unsent:
                self._channel.send(*self._unsent.pop(0))
        return data

    def _lose(self, is_invalid: bool) -> None:
        """The socket was closed, or an invalid frame came; nothing was run if the process had not started."""
        if is_invalid:
            self._finish("crashed", _PROTOCOL_ERROR)
        elif self._process is None and not self._ended.done():
            self._ended.set_exception(RunFailed("The parent process of native runs crashed.", hint="Try again."))
            self._release()
            self._tell_end()
        else:
            self._finish("crashed", "it exited unexpectedly")

    def _take(self, number: int, kind: int, payload: bytes) -> None:
        """Handle a frame. The first must be `STARTED`, and no other may be: the script could send one, too."""
        del number
        if not self._started or kind == frames.STARTED:
            if self._started or kind != frames.STARTED:
                self._finish("crashed", _PROTOCOL_ERROR)
            self._started = True
        elif kind == frames.CALL:
            name, _, arguments = payload.decode("utf-8", "replace").partition("\n")
            if name == _PRINT:
                self._print(arguments)
            elif self._on_call:
                self._stop_clock()
                self._on_call(name, arguments)
        elif kind == frames.DONE:
            self._finish("done", report=payload)
        elif kind == frames.EXITED:
            self._finish("crashed", payload.decode("utf-8", "replace"))
        else:
            self._finish("crashed", _PROTOCOL_ERROR)

    def _print(self, text: str) -> None:
        # Counted here, too: the process is untrusted, and could send output without end.
        self._printed.append(text[: self._room])
        self._room -= len(text)
        if self._room < 0 or len(self._printed) > MAX_PRINTS:
            self._finish("output")

    def _finish(self, reason: str, detail: str = "", report: bytes = b"") -> None:
        """Kill it, and resolve the future; only the first reason counts."""
        if self._ended.done():
            return
        self._release()
        if self._process is not None:
            _kill_process(self._process, wait=reason != "done")
        head: dict[str, Any] = {"word": reason, "stdout": "".join(self._printed), "detail": detail}
        self._ended.set_result(json.dumps(head).encode() + b"\n" + report)
        self._tell_end()

    def _tell_end(self) -> None:
        if self._on_end:
            self._on_end()

    def _release(self) -> None:
        self._stop_clock()
        self._channel.close()

    def _stop_clock(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None
            self._left -= self._loop.time() - self._since


def _kill_process(process: int, *, wait: bool) -> None:
    """Kill a process by its pidfd, and close that. Do not wait for one that has reported its result: it exits by itself."""
    with contextlib.suppress(OSError):
        signal.pidfd_send_signal(process, signal.SIGKILL)
    if wait:
        exited = select.poll()
        exited.register(process, select.POLLIN)
        # This blocks the event loop, but briefly: after SIGKILL a process is gone at once unless it is stuck in the
        # kernel.
        exited.poll(_EXIT_MILLISECONDS)
    os.close(process)
