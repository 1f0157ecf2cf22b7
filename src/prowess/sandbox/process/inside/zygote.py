"""The program from which the processes of native runs are forked, so that each starts with an interpreter that is warm.

It is asked over its standard input for one process at a time: with the line that the process is to speak over, and how it is
to be confined. It says over the line that the process is there, with a descriptor of it, and how it ended. It ends when its
input ends, and its processes with it.
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
from typing import Any, NoReturn

from prowess import skillkit
from prowess.sandbox import frames
from prowess.sandbox.confining import privileges
from prowess.sandbox.confining.kernel import libc
from prowess.sandbox.confining.lock import NEEDED
from prowess.sandbox.confining.namespaces import leave_network
from prowess.sandbox.confining.seccomp import filter_for
from prowess.sandbox.guest import allowed
from prowess.sandbox.guest.task import run_task
from prowess.sandbox.process.inside.child import UNCONFINED, Confinement, probed, serve

_MESSAGE_BYTES = 1 << 16
_REHEARSALS = 10
_MOST_ARENAS = -8
"""Of memory: further ones would reserve addresses for every thread, which count as taken."""
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


class Zygote:
    """Forks processes for whoever is at the other end."""

    def __init__(self, asked: socket.socket, read: list[str]) -> None:
        self._asked = asked
        self._read = read
        self._waiting = selectors.DefaultSelector()
        self._waiting.register(asked, selectors.EVENT_READ)

    def serve(self) -> None:
        """Do as is asked, until nobody is there."""
        while True:
            for key, _ in self._waiting.select():
                if key.data is not None:
                    self._bury(key.fd, *key.data)
                elif not self._take():
                    return

    def _take(self) -> bool:
        """Fork one process; whether there was somebody who asked."""
        message, lines, _, _ = socket.recv_fds(self._asked, _MESSAGE_BYTES, 1)
        if not message:
            return False
        told, line = json.loads(message), lines[0]
        pid = os.fork()
        if pid == 0:
            serve(line, Confinement(read=[*self._read, *told.pop("read")], **told), run_task, skillkit)
        process, told_over = os.pidfd_open(pid), socket.socket(fileno=line)
        self._waiting.register(process, selectors.EVENT_READ, (pid, told_over))
        with contextlib.suppress(OSError):
            socket.send_fds(told_over, [frames.frame(frames.ONLY, frames.STARTED)], [process], socket.MSG_DONTWAIT)
        return True

    def _bury(self, process: int, pid: int, line: socket.socket) -> None:
        """Say how a process ended; the other side has closed the line where it knows already."""
        self._waiting.unregister(process)
        os.close(process)
        _, status = os.waitpid(pid, 0)
        told = frames.frame(frames.ONLY, frames.EXITED, _ended(os.waitstatus_to_exitcode(status)).encode())
        with line, contextlib.suppress(OSError):
            line.send(told, socket.MSG_DONTWAIT)


def _ended(code: int) -> str:
    if code == UNCONFINED:
        return "it could not be confined"
    return f"its process exited with {code}" if code >= 0 else f"its process was ended by {signal.Signals(-code).name}"


def main(told: dict[str, Any]) -> NoReturn:
    """Serve; `told` has the paths that every process may read."""
    asked = socket.socket(fileno=os.dup(0))
    _prepare(told["folders"])
    reached = ["network"] if leave_network() else []
    privileges.drop()
    probe = probed(Confinement(read=told["read"], seconds=1, memory_bytes=1 << 28))
    reached += [word for word in probe if word not in reached]
    asked.send(json.dumps(reached).encode())
    if set(NEEDED) <= set(reached):
        gc.collect()
        gc.freeze()
        Zygote(asked, told["read"]).serve()
    os._exit(0)


def _prepare(folders: list[str]) -> None:
    """Load what every run has, and take away what none is to have."""
    loop = asyncio.events.new_event_loop
    allowed.load()
    asyncio.new_event_loop = asyncio.events.new_event_loop = loop
    os.environ.clear()
    sys.path[:] = [path for path in sys.path if path not in folders]
    if hasattr(libc(), "mallopt"):
        libc().mallopt(_MOST_ARENAS, 1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nothing, descriptor)
    _rehearse()


def _rehearse() -> None:
    """Do once what every process does, so that it finds it done."""
    filter_for(may_start=False)
    modules, outputs = dict(sys.modules), (sys.stdout, sys.stderr)
    for _ in range(_REHEARSALS):
        run_task(json.loads(_TASK), _unheard, skillkit)
    sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__ = outputs  # type: ignore[misc]
    sys.modules.clear()
    sys.modules.update(modules)


def _unheard(name: str, payload: str) -> str:
    """What a host answers that does nothing."""
    del name, payload
    return json.dumps({"value": None})
