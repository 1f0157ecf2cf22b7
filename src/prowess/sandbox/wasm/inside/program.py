"""The program of a worker: it runs scripts for the process at the other end of its standard input.

Each run has a thread; a script that calls its host blocks that thread. The program exits when its input closes, and so with
the process that started it, however that ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import resource
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NoReturn

from wasmtime import WasmtimeError
from wasmtime.component import Component

from prowess.child import frames
from prowess.sandbox.confine.kernel import drop_privileges, leave_network, machine
from prowess.sandbox.confine.landlock import restrict_paths
from prowess.sandbox.confine.seccomp import filter_for, install_filter
from prowess.sandbox.wasm.inside.engine import THREAD_BYTES, GuestClock, StopGuest, make_engine
from prowess.sandbox.wasm.inside.guest import Guest, GuestFactory, GuestLimits, GuestOutcome
from prowess.sandbox.wasm.started_runs import StartedRuns

DATA_BYTES = 4 << 30
"""How much memory all scripts may use together, besides the stacks of their threads."""
_NICE, _DESCRIPTORS = 5, 32
_CLOSED_BY_FILTER = ("calls", "network", "attributes")
"""What the system call filter closes."""


def confine_thread() -> list[str]:
    """Give up files, the network, privileges and most system calls, for this thread and those that it starts later.

    The engine keeps scripts in; this is what an error in the engine would meet next. What the system lacks is skipped. The
    result uses the words of `lock_down`.
    """
    os.nice(_NICE)
    if not machine():
        return []
    reached = ["network"] if leave_network() else []
    reached += drop_privileges()
    reached += restrict_paths(read=(), write=(), execute=())
    # Last, because the filter refuses the calls that the steps above make.
    if install_filter(filter_for(may_start=False)):
        reached += [word for word in _CLOSED_BY_FILTER if word not in reached]
    return reached


def confine_process(stacks_bytes: int) -> list[str]:
    """Set limits, once all threads have started: no further one can start, and their stacks are known."""
    most = {"DATA": DATA_BYTES + stacks_bytes, "FSIZE": 0, "CORE": 0, "NOFILE": _DESCRIPTORS, "NPROC": 0}
    in_force = {name for name, limit in most.items() if _set_limit(name, limit)}
    words = {"memory": "DATA", "sizes": "FSIZE"}
    return [word for word, name in words.items() if name in in_force]


def _set_limit(name: str, limit: int) -> bool:
    """Set a limit; return True if it is in force."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (limit, limit))
        return True
    return False


PAUSE_SECONDS = 0.002
"""How long a used guest is kept, so that releasing its memory does not delay the report of its outcome."""


class SpareGuests:
    """Keeps a few unused guests ready, and releases used ones; both in its own thread, so that no run waits for it."""

    def __init__(self, make: Callable[[], Guest], most: int) -> None:
        self._make = make
        self._most = most
        self._ready: queue.SimpleQueue[Guest] = queue.SimpleQueue()
        self._used: queue.SimpleQueue[Guest | None] = queue.SimpleQueue()

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._keep, name="spare-guests", daemon=True).start()

    def take(self) -> Guest:
        """Return a guest that is ready, or make one."""
        try:
            return self._ready.get_nowait()
        except queue.Empty:
            return self._make()

    def give_back(self, guest: Guest | None) -> None:
        """Release a used guest, and make another in its place, both later."""
        self._used.put(guest)

    def _keep(self) -> None:
        while True:
            self._fill()
            guest = self._used.get()
            time.sleep(PAUSE_SECONDS)
            while guest:
                guest.close()
                guest = None if self._used.empty() else self._used.get()

    def _fill(self) -> None:
        """Make missing guests, unless used ones wait to be released."""
        while self._ready.qsize() < self._most and self._used.empty():
            try:
                self._ready.put(self._make())
            except (WasmtimeError, MemoryError):
                # Out of memory: runs then make their own guests, one by one, and report the failure.
                self._most = 0


MAX_FRAME_BYTES = 1 << 30
"""The host is trusted: this only bounds what a bug could do."""
IDLE_SECONDS = 10
"""How often an idle worker checks whether its parent is still there."""


class GuestRun:
    """One run."""

    def __init__(self, number: int, payload: bytes) -> None:
        head, _, task = payload.partition(b"\n")
        self.number = number
        self.limits = _parse_limits(head)
        self.task = task.decode()
        self.clock = GuestClock(self.limits.seconds)
        self.answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def cancel(self, reason: str) -> None:
        """Stop it, also while it waits for an answer."""
        self.clock.cancel(reason)
        self.answers.put(None)


@lru_cache(32)
def _parse_limits(line: bytes) -> GuestLimits:
    return GuestLimits(**json.loads(line))


class Worker:
    """Receives frames and sends frames.

    Every thread can both receive and run a guest. One of them receives; with the first run that arrives it hands this duty to
    the next thread and runs the guest itself. That saves each run the switch from a receiving thread to a running one, about
    0.1 ms. There is one thread more than runs at a time, so that one is always left to receive answers and cancellations.
    """

    def __init__(
        self, line: socket.socket, started: StartedRuns, factory: GuestFactory, spare_guests: int, parent: int
    ) -> None:
        self._line = line
        self._parent = parent
        self._started = started
        self._factory = factory
        self._sending = threading.Lock()
        self._receiving = threading.Lock()
        self._receiving.acquire()
        self._buffer = frames.FrameBuffer(MAX_FRAME_BYTES)
        self._runs: dict[int, GuestRun] = {}
        self._spares = SpareGuests(factory.make, spare_guests)

    def start(self, threads: int) -> None:
        """Start all threads. They receive nothing before `serve`."""
        # Deep recursion in the guest must hit its own limit, not the end of the thread's stack.
        threading.stack_size(THREAD_BYTES)
        for thread in range(threads):
            threading.Thread(target=self._work, args=(thread,), daemon=True).start()
        self._factory.ticker.start()
        self._spares.start()

    def send(self, number: int, kind: int, payload: bytes) -> None:
        """Send one frame."""
        with self._sending:
            self._line.sendall(frames.encode_frame(number, kind, payload))

    def serve(self) -> None:
        """Let the threads receive, and block forever."""
        self._receiving.release()
        threading.Event().wait()

    def _next_run(self) -> GuestRun:
        """Receive until a run arrives; the process exits when the host is gone."""
        with self._receiving:
            while True:
                while frame := self._buffer.next():
                    if run := self._take(*frame):
                        return run
                piece = self._receive()
                if not piece:
                    os._exit(0)  # `sys.exit` would only end this thread
                self._buffer.feed(piece)

    def _receive(self) -> bytes:
        """Return received bytes, b'' if the host is gone. The end of a killed host may still be open in processes that it forked."""
        while os.getppid() == self._parent:
            try:
                return self._line.recv(1 << 16)
            except BlockingIOError:
                continue
        return b""

    def _take(self, number: int, kind: int, payload: bytes) -> GuestRun | None:
        """Handle a frame, and return the run that it starts, if it does."""
        if kind == frames.RUN:
            run = self._runs[number] = GuestRun(number, payload)
            return run
        if run := self._runs.get(number):
            if kind == frames.RETURN:
                run.answers.put(payload.decode())
            else:
                run.cancel(payload.decode())
        return None

    def _work(self, thread: int) -> None:
        while True:
            run = self._next_run()
            guest: Guest | None = None
            try:
                guest = self._spares.take()
                # Recorded before the script runs: from here on the run may have effects and must not be repeated.
                self._started.note(thread, run.number)
                outcome = guest.run(run.task, run.limits, partial(self._ask, run), run.clock)
            except Exception as error:  # noqa: BLE001  (a thread that ended would take the run with it)
                outcome = GuestOutcome(word="crashed", detail=type(error).__name__)
            self._runs.pop(run.number, None)
            # The outcome is sent before the guest is released, which takes longer.
            self._send_outcome(run, outcome)
            self._spares.give_back(guest)

    def _send_outcome(self, run: GuestRun, outcome: GuestOutcome) -> None:
        head = {"word": outcome.word, "stdout": outcome.stdout, "fuel": outcome.fuel, "detail": outcome.detail}
        payload = json.dumps(head).encode() + b"\n" + outcome.report.encode("utf-8", "replace")
        self.send(run.number, frames.DONE, payload)

    def _ask(self, run: GuestRun, name: str, payload: str) -> str:
        self.send(run.number, frames.CALL, f"{name}\n{payload}".encode("utf-8", "replace"))
        answer = run.answers.get()
        if answer is None:
            raise StopGuest
        return answer


def main(options: dict[str, Any]) -> NoReturn:
    """Serve; `options` holds the compiled component, the parent, and the numbers of threads and spare guests."""
    line = socket.socket(fileno=0)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", IDLE_SECONDS, 0))
    engine = make_engine()
    factory = GuestFactory(engine, Component.deserialize_file(engine, options["component"]))
    started = StartedRuns(options["started"], options["threads"] + 1)
    os.close(options["started"])
    threads = options["threads"] + 1
    worker = Worker(line, started, factory, options["spare_guests"], options["parent"])
    # An interpreter that does not work must fail before the worker reports that it is ready.
    factory.make().close()
    # Landlock and seccomp confine the calling thread and those that it starts later, so all threads start after this.
    reached = confine_thread()
    worker.start(threads)
    reached += confine_process(threads * THREAD_BYTES)
    worker.send(0, frames.READY, json.dumps(reached).encode())
    worker.serve()
    os._exit(0)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
