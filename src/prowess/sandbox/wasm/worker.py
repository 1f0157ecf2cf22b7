"""One process that runs scripts, seen from outside: many runs at a time, all of one event loop."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
from pathlib import Path
from typing import Any

from prowess.errors import RunFailed, Unavailable
from prowess.sandbox import frames
from prowess.sandbox.child import OnCall, program_command
from prowess.sandbox.wasm.started_runs import StartedRuns, shared_file

START_SECONDS = 60.0
MAX_FRAME_BYTES = 64 << 20
"""No honest frame is larger."""
_CHUNK = 1 << 16
"""How much is read at a time: more would be mapped anew for every read, however little comes."""
_EXIT_SECONDS = 0.2


class Worker:
    """A worker process. It belongs to the event loop that took it, until that is closed; then another may take it."""

    def __init__(self, process: subprocess.Popen[bytes], line: socket.socket, begun: StartedRuns) -> None:
        self._process = process
        self._begun = begun
        self._line = line
        self._line.setblocking(False)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._runs: dict[int, tuple[OnCall, asyncio.Future[bytes]]] = {}
        self._lost: frozenset[int] = frozenset()
        self._number = 0
        self._unread = bytearray()
        self._unsent = bytearray()
        self._writing = False
        self.confined: tuple[str, ...] = ()
        """By what it is confined, besides the engine."""

    @classmethod
    async def start(cls, component: Path, *, threads: int, spares: int) -> Worker:
        """A worker that is ready, for as many runs at a time as it has threads."""
        worker = await asyncio.to_thread(_start_worker, component, threads, spares)
        worker.take()
        try:
            ready = worker.open(0, _ignore_call)
            async with asyncio.timeout(START_SECONDS):
                worker.confined = tuple(json.loads(await ready))
        except TimeoutError:
            worker.end()
            raise Unavailable(
                "The sandbox does not become ready.", hint="Try again when the machine is less busy."
            ) from None
        except RunFailed as error:
            raise Unavailable(f"The sandbox cannot be started: {error.message}") from error
        except BaseException:
            worker.end()
            raise
        return worker

    @property
    def pid(self) -> int:
        """The number of its process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it can be asked; one whose event loop was closed while it had runs cannot."""
        return self._process.poll() is None and not (self._runs and self._loop and self._loop.is_closed())

    @property
    def is_free(self) -> bool:
        """Whether the running event loop can ask it."""
        return self._loop is None or self._loop is asyncio.get_running_loop() or self._loop.is_closed()

    def take(self) -> int:
        """The number of a new run, for the running event loop."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._writing = loop, False
            loop.add_reader(self._line.fileno(), self._read)
        self._number += 1
        return self._number

    def open(self, number: int, on_call: OnCall) -> asyncio.Future[bytes]:
        """What will come of a run: the payload of its last frame, or `RunFailed` where the worker ends before."""
        ended: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._runs[number] = (on_call, ended)
        return ended

    def send(self, number: int, kind: int, payload: bytes = b"") -> None:
        """Give a frame, as soon as the worker takes it."""
        if self._loop is None:
            return
        self._unsent += frames.frame(number, kind, payload)
        if not self._writing:
            self._write()

    def lost(self, number: int) -> bool:
        """Whether it ended by itself before the run began, which may therefore be given to another."""
        return number in self._lost

    def end(self) -> None:
        """Kill it, and give back what it holds; its runs fail."""
        if self._process.poll() is not None:
            self._lose()
        self._process.kill()
        if self._loop and self._loop is not _running_loop() and self._loop.is_running():
            return  # the loop that it belongs to, in another thread, sees that it has ended
        self._process.wait()
        self._fail("it was ended")

    def forget(self) -> None:
        """Let go of it without ending it, in a process that was forked from the one that it belongs to."""
        self._process.returncode = 0
        self._line.close()

    def _read(self) -> None:
        try:
            piece = self._line.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        if not piece:
            self._lose()
            self._fail(f"its process ended with {self._exit()}")
            return
        self._unread += piece
        while len(self._unread) >= frames.HEADER.size:
            size, number, kind = frames.HEADER.unpack_from(self._unread)
            end = frames.HEADER.size + size
            if size > MAX_FRAME_BYTES:
                self.end()
                return
            if len(self._unread) < end:
                return
            payload = bytes(self._unread[frames.HEADER.size : end])
            del self._unread[:end]
            self._take(number, kind, payload)

    def _exit(self) -> int:
        """How the process ended; one that has only closed its line is ended."""
        try:
            return self._process.wait(_EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def _take(self, number: int, kind: int, payload: bytes) -> None:
        on_call, ended = self._runs.get(number, (None, None))
        if on_call is None or ended is None:
            return
        if kind == frames.CALL:
            name, _, arguments = payload.decode("utf-8", "replace").partition("\n")
            on_call(name, arguments)
            return
        del self._runs[number]
        if not ended.done():
            ended.set_result(payload)

    def _write(self) -> None:
        try:
            while self._unsent:
                sent = self._line.send(self._unsent[:_CHUNK])
                del self._unsent[:sent]
        except BlockingIOError:
            pass
        except OSError:
            self._unsent.clear()
        self._write_on(bool(self._unsent))

    def _write_on(self, more: bool) -> None:
        """Go on writing when the worker takes more, or not any longer."""
        if self._loop and more and not self._writing:
            self._loop.add_writer(self._line.fileno(), self._write)
        elif self._loop and self._writing and not more:
            self._loop.remove_writer(self._line.fileno())
        self._writing = more

    def _release(self) -> None:
        """Let go of the event loop that it belongs to."""
        if self._loop and not self._loop.is_closed():
            self._loop.remove_reader(self._line.fileno())
            self._write_on(False)
        self._loop = None

    def _lose(self) -> None:
        self._lost |= self._runs.keys() - self._begun.numbers()

    def _fail(self, why: str) -> None:
        self._release()
        self._line.close()
        runs, self._runs = self._runs, {}
        for _, ended in runs.values():
            if not ended.done() and not ended.get_loop().is_closed():
                ended.set_exception(RunFailed(f"The sandbox broke while it ran a script: {why}.", hint="Try again."))


def _ignore_call(name: str, arguments: str) -> None:
    """Nothing is called before the worker is ready."""


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _start_worker(component: Path, threads: int, spares: int) -> Worker:
    ours, theirs = socket.socketpair()
    shared = shared_file(threads)
    told: dict[str, Any] = {"component": str(component), "parent": os.getpid(), "threads": threads, "spares": spares}
    with theirs:
        try:
            begun = StartedRuns(shared, threads)
            process = subprocess.Popen(  # noqa: S603  (our own program)
                program_command("program", begun=shared, **told),
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={},
                cwd="/",
                start_new_session=True,
                pass_fds=(shared,),
            )
        except OSError as error:
            ours.close()
            raise Unavailable(f"The sandbox cannot be started: {error.strerror}.") from error
        finally:
            os.close(shared)
    return Worker(process, ours, begun)
