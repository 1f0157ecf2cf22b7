"""The program of a worker: it runs scripts for whoever is at the other end of its standard input.

Each run has a thread; a script that calls its host waits in it. It ends when its input ends, and so with the process that
started it, however that ends.
"""

from __future__ import annotations

import json
import os
import queue
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any, NoReturn

from wasmtime.component import Component

from prowess.sandbox import frames
from prowess.sandbox.wasm.begun import Begun
from prowess.sandbox.wasm.inside.confine import confine_process, confine_thread
from prowess.sandbox.wasm.inside.engine import THREAD_BYTES, make_engine
from prowess.sandbox.wasm.inside.guest import Ending, Guest, GuestLimits, Interpreters
from prowess.sandbox.wasm.inside.spares import Spares
from prowess.sandbox.wasm.inside.stopping import Clock, Stop

IDLE_SECONDS = 10
"""How often an idle worker looks whether its parent is still there."""


class Run:
    """One script on its way."""

    def __init__(self, number: int, payload: bytes) -> None:
        head, _, task = payload.partition(b"\n")
        self.number = number
        self.limits = GuestLimits(**json.loads(head))
        self.task = task.decode()
        self.clock = Clock(self.limits.seconds)
        self.answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def cancel(self, reason: str) -> None:
        """Stop it, also where it waits for an answer."""
        self.clock.cancel(reason)
        self.answers.put(None)


class Worker:
    """Takes frames and gives frames."""

    def __init__(self, line: socket.socket, begun: Begun, house: Interpreters, spares: int) -> None:
        self._line = line
        self._begun = begun
        self._house = house
        self._lock = threading.Lock()
        self._runs: dict[int, Run] = {}
        self._waiting: queue.SimpleQueue[Run] = queue.SimpleQueue()
        self._spares = Spares(house.make, spares)

    def start(self, threads: int) -> None:
        """Have everything ready."""
        threading.stack_size(THREAD_BYTES)
        for place in range(threads):
            threading.Thread(target=self._work, args=(place,), daemon=True).start()
        self._house.ticker.start()
        self._spares.start()

    def serve(self, parent: int) -> None:
        """Do as the frames say, until they end."""
        for number, kind, payload in self._frames(parent):
            self._take(number, kind, payload)

    def send(self, number: int, kind: int, payload: bytes) -> None:
        """Give one frame."""
        with self._lock:
            self._line.sendall(frames.frame(number, kind, payload))

    def _frames(self, parent: int) -> Iterator[tuple[int, int, bytes]]:
        data = bytearray()
        while piece := self._received(parent):
            data += piece
            while len(data) >= frames.HEADER.size:
                size, number, kind = frames.HEADER.unpack_from(data)
                end = frames.HEADER.size + size
                if len(data) < end:
                    break
                yield number, kind, bytes(data[frames.HEADER.size : end])
                del data[:end]

    def _received(self, parent: int) -> bytes:
        """What has come; nothing at the end of the parent."""
        while os.getppid() == parent:
            try:
                return self._line.recv(1 << 16)
            except BlockingIOError:
                continue
        return b""

    def _take(self, number: int, kind: int, payload: bytes) -> None:
        if kind == frames.RUN:
            run = self._runs[number] = Run(number, payload)
            self._waiting.put(run)
        elif run := self._runs.get(number):
            if kind == frames.RETURN:
                run.answers.put(payload.decode())
            else:
                run.cancel(payload.decode())

    def _work(self, place: int) -> None:
        while True:
            run = self._waiting.get()
            guest: Guest | None = None
            try:
                guest = self._spares.take()
                self._begun.note(place, run.number)
                ending = guest.run(run.task, run.limits, partial(self._ask, run), run.clock)
            except Exception as error:  # noqa: BLE001  (a thread that ended would take the run with it)
                ending = Ending(word="crashed", detail=type(error).__name__)
            self._runs.pop(run.number, None)
            self._tell(run, ending)
            self._spares.give_back(guest)

    def _tell(self, run: Run, ending: Ending) -> None:
        head = {"word": ending.word, "stdout": ending.stdout, "fuel": ending.fuel, "detail": ending.detail}
        payload = json.dumps(head).encode() + b"\n" + ending.said.encode("utf-8", "replace")
        self.send(run.number, frames.DONE, payload)

    def _ask(self, run: Run, name: str, payload: str) -> str:
        self.send(run.number, frames.CALL, f"{name}\n{payload}".encode("utf-8", "replace"))
        answer = run.answers.get()
        if answer is None:
            raise Stop
        return answer


def main(told: dict[str, Any]) -> NoReturn:
    """Serve; `told` has the precompiled component, the parent, and how many threads and spare guests there are to be."""
    line = socket.socket(fileno=0)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", IDLE_SECONDS, 0))
    engine = make_engine()
    house = Interpreters(engine, Component.deserialize_file(engine, told["component"]))
    begun = Begun(told["begun"], told["threads"])
    os.close(told["begun"])
    worker = Worker(line, begun, house, told["spares"])
    house.make().close()
    reached = confine_thread()
    worker.start(told["threads"])
    reached += confine_process(told["threads"] * THREAD_BYTES)
    worker.send(0, frames.READY, json.dumps(reached).encode())
    worker.serve(told["parent"])
    os._exit(0)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
