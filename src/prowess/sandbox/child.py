"""Child processes that run scripts: start one, exchange frames with it, limit its time, and kill it.

Nothing a child process says is trusted, except about itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, get_args

from prowess.errors import RunFailed
from prowess.sandbox import frames
from prowess.sandbox.protocol import EndReason, SandboxLimits

_PROGRAM_PACKAGES = ("prowess", "wasmtime", "componentize_py")
_BOOTSTRAP = (
    "import sys, json, importlib; told = json.loads(sys.argv[1]); sys.path += told['folders']; "
    "importlib.import_module(told['program']).main(told)"
)


def program_command(program: str, *, package: str = "wasm.inside", **told: Any) -> list[str]:
    """What starts the `main` of a module; it is handed what it is told, and has the standard library and three packages."""
    found = [importlib.util.find_spec(name) for name in _PROGRAM_PACKAGES]
    folders = list(dict.fromkeys(str(Path(spec.origin).parents[1]) for spec in found if spec and spec.origin))
    argument = json.dumps({**told, "program": f"prowess.sandbox.{package}.{program}", "folders": folders})
    return [sys.executable, "-ISB", "-X", "utf8", "-c", _BOOTSTRAP, argument]


OnCall = Callable[[str, str], None]
"""Told of every call of a script: the name of the function, and its arguments as JSON."""


class Peer(Protocol):
    """A process, seen from outside by one run."""

    @property
    def confined(self) -> tuple[str, ...]:
        """By what it is confined, besides the engine."""
        ...

    def open(self, number: int, on_call: OnCall) -> asyncio.Future[bytes]:
        """What will come of a run: a line of JSON about it, then what it says itself; `RunFailed` where the process broke."""
        ...

    def send(self, number: int, kind: int, payload: bytes = b"") -> None:
        """Give a frame, as soon as the process takes it."""
        ...

    def end(self) -> None:
        """End it, whatever it does."""
        ...


MAX_FRAME_BYTES, MAX_PRINTS = 16 << 20, 20_000
"""No honest frame is larger, and no honest script hands over its output in more pieces."""
SLICE_SECONDS = 0.005
"""So long the event loop works on what one process has said, before others have a turn."""
_CHUNK, _EXIT_MILLISECONDS = 1 << 16, 2_000
_PROTOCOL_ERROR = "it spoke nonsense"
_PRINT = "print"
_END_REASONS = frozenset(get_args(EndReason))


class Child:
    """The process. Its time runs while it has the word, and stands while its host answers; it is killed when that is over.

    It is told nothing before it is known how to kill it. However it ends, it is dead when the future of its run has a result.
    """

    def __init__(self, line: socket.socket, limits: SandboxLimits, confined: tuple[str, ...]) -> None:
        self._line = line
        self._line.setblocking(False)
        self._process: int | None = None
        self._limits = limits
        self._left = limits.seconds
        self._since = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[bytes] = self._loop.create_future()
        self._number = 0
        self._on_call: OnCall | None = None
        self._begun = False
        self._unread, self._unsent = bytearray(), bytearray()
        self._writing = False
        self._printed: list[str] = []
        self._room = limits.output_chars
        self.confined = confined

    def open(self, number: int, on_call: OnCall) -> asyncio.Future[bytes]:
        """What will come of its run."""
        self._number, self._on_call = number, on_call
        self._loop.add_reader(self._line, self._read)
        return self._ended

    def send(self, number: int, kind: int, payload: bytes = b"") -> None:
        """Give a frame, after which it has the word; or end it, for the reason that it is to be cancelled for."""
        if self._ended.done():
            return
        if kind == frames.CANCEL:
            reason = payload.decode()
            self._finish(reason if reason in _END_REASONS else "crashed", reason)
            return
        self._unsent += frames.frame(number, kind, payload)
        self._since = self._loop.time()
        self._timer = self._loop.call_later(self._left, self._finish, "time")
        if self._process is not None and not self._writing:
            self._write()

    def end(self) -> None:
        """Kill it."""
        self._finish("crashed", "it was ended")

    def _read(self) -> None:
        try:
            piece = self._received()
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        if not piece:
            self._break_off()
            return
        self._unread += piece
        self._take_all()

    def _take_all(self) -> None:
        """Take what has been read, as long as it is this process's turn; nothing more is read before all of it is taken."""
        until = self._loop.time() + SLICE_SECONDS
        while not self._ended.done() and (found := self._next()):
            self._take(*found)
            if self._loop.time() > until:
                self._pause()
                return

    def _next(self) -> tuple[int, bytes] | None:
        """The kind and the payload of the next frame, where it has come whole; a frame that nobody can have meant ends it."""
        if len(self._unread) < frames.HEADER.size:
            return None
        size, number, kind = frames.HEADER.unpack_from(self._unread)
        if size > MAX_FRAME_BYTES or number != self._number:
            self._finish("crashed", _PROTOCOL_ERROR)
            return None
        end = frames.HEADER.size + size
        if len(self._unread) < end:
            return None
        payload = bytes(self._unread[frames.HEADER.size : end])
        del self._unread[:end]
        return kind, payload

    def _pause(self) -> None:
        if not self._ended.done():
            self._loop.remove_reader(self._line)
            self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        if self._ended.done():
            return
        self._loop.add_reader(self._line, self._read)
        self._take_all()

    def _received(self) -> bytes:
        """What has come; first of all the descriptor of the process, after which it is told what it is to do."""
        if self._process is not None:
            return self._line.recv(_CHUNK)
        piece, processes, _, _ = socket.recv_fds(self._line, frames.HEADER.size, 1, socket.MSG_CMSG_CLOEXEC)
        if processes:
            self._process = processes[0]
            self._write()
        return piece

    def _break_off(self) -> None:
        """The line is closed; nothing was run where the process had not started."""
        if self._process is None and not self._ended.done():
            self._ended.set_exception(RunFailed("The process that native runs start from broke.", hint="Try again."))
            self._release()
        else:
            self._finish("crashed", "it broke off")

    def _take(self, kind: int, payload: bytes) -> None:
        """Do what a frame says. That it has started stands first, and once."""
        if not self._begun or kind == frames.STARTED:
            if self._begun or kind != frames.STARTED:
                self._finish("crashed", _PROTOCOL_ERROR)
            self._begun = True
        elif kind == frames.CALL:
            name, _, arguments = payload.decode("utf-8", "replace").partition("\n")
            if name == _PRINT:
                self._print(arguments)
            elif self._on_call:
                self._rest()
                self._on_call(name, arguments)
        elif kind == frames.DONE:
            self._finish("done", said=payload)
        elif kind == frames.EXITED:
            self._finish("crashed", payload.decode("utf-8", "replace"))
        else:
            self._finish("crashed", _PROTOCOL_ERROR)

    def _print(self, text: str) -> None:
        self._printed.append(text[: self._room])
        self._room -= len(text)
        if self._room < 0 or len(self._printed) > MAX_PRINTS:
            self._finish("output")

    def _finish(self, word: str, detail: str = "", said: bytes = b"") -> None:
        """Have it dead, and say how it ended; the first time counts."""
        if self._ended.done():
            return
        self._release()
        if self._process is not None:
            _kill_process(self._process, wait=word != "done")
        head: dict[str, Any] = {"word": word, "stdout": "".join(self._printed), "detail": detail}
        self._ended.set_result(json.dumps(head).encode() + b"\n" + said)

    def _release(self) -> None:
        self._rest()
        self._loop.remove_reader(self._line)
        self._write_on(False)
        self._line.close()

    def _rest(self) -> None:
        """Its time stands still."""
        if self._timer:
            self._timer.cancel()
            self._timer = None
            self._left -= self._loop.time() - self._since

    def _write(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: self._line.send(self._unsent[:_CHUNK])]
        except BlockingIOError:
            pass
        except OSError:
            self._unsent.clear()
        self._write_on(bool(self._unsent))

    def _write_on(self, more: bool) -> None:
        if more and not self._writing:
            self._loop.add_writer(self._line, self._write)
        elif self._writing and not more:
            self._loop.remove_writer(self._line)
        self._writing = more


def _kill_process(process: int, *, wait: bool) -> None:
    """Have it dead: now, or else soon."""
    with contextlib.suppress(OSError):
        signal.pidfd_send_signal(process, signal.SIGKILL)
    if wait:
        ending = select.poll()
        ending.register(process, select.POLLIN)
        ending.poll(_EXIT_MILLISECONDS)
    os.close(process)
