"""The program that runs one command: it makes a confined process for it, watches over that and all it starts, and clears up.

Three processes: this one, which no command can see and which says how it ended; the first of a new process namespace, with
which all others in it end, whatever they do; and the command itself, which gives up what it does not need before it becomes the
foreign program. Where the system has no such namespaces, nothing is run: what a command starts could outlive it.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from prowess.sandbox.commands.inside.measuring import size_of
from prowess.sandbox.commands.inside.modes import Modes
from prowess.sandbox.commands.inside.watching import descendants, memory_of, unnamed_of
from prowess.sandbox.confining.lock import NEEDED, lock
from prowess.sandbox.removing import remove_tree

_TICK_SECONDS = 0.05
_NEW_NAMESPACES = 0x20000000 | 0x40000000 | 0x08000000
"""Processes, network, shared memory."""
_NEW_USER = 0x10000000
_SET_PARENT_DEATH_SIGNAL, _SET_DUMPABLE = 1, 4
_NICE = 10
"""So much a command lets others go first, above all this program."""
_RESTORED = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT)


def main(told: dict[str, Any]) -> None:
    """Run the command that comes over the line, and say over it what came of that."""
    line = socket.socket(fileno=told["line"])
    line.set_inheritable(False)
    task = json.loads(_read_line(line))
    modes = Modes(task["roots"])
    try:
        outcome = _run(task, line)
    except OSError as error:
        outcome = {"failed": f"{error.strerror}"}
    modes.restore()
    remove_tree(Path(task["folder"]))
    with suppress(OSError):
        line.sendall(json.dumps(outcome).encode())


def _read_line(line: socket.socket) -> bytes:
    read = bytearray()
    while not read.endswith(b"\n"):
        piece = line.recv(1 << 16)
        if not piece:
            raise SystemExit(1)
        read += piece
    return bytes(read)


def _run(task: dict[str, Any], line: socket.socket) -> dict[str, Any]:
    libc = ctypes.CDLL(None, use_errno=True)
    alone = _separate(libc)
    task["lock"]["processes"] = task["processes"] if alone else 0  # elsewhere all that the user has would count
    libc.prctl(_SET_DUMPABLE, 0, 0, 0, 0)
    told, tell = os.pipe()
    alive, life = os.pipe()
    first = os.fork()
    if not first:
        os.close(told)
        os.close(life)
        _be_first(task, libc, tell, alive)
    os.close(tell)
    os.close(alive)
    _let_go_of_standard_streams()
    os.write(life, b"!")
    reason = _watch(task, first, line)
    _end(first)
    outcome: dict[str, Any] = {"reason": reason}
    for said in _read_all(told).splitlines():
        outcome |= json.loads(said)
    return {**outcome, "confined": [*outcome.get("confined", ()), "processes"]}


def _separate(libc: ctypes.CDLL) -> bool:
    """Have what is started from here on in namespaces of its own; whether they are a new user's."""
    if libc.unshare(_NEW_NAMESPACES) == 0:
        return False
    user, group = os.getuid(), os.getgid()
    if libc.unshare(_NEW_USER | _NEW_NAMESPACES) != 0:
        raise OSError(ctypes.get_errno(), "this system makes no namespace for its processes")
    for name, line in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        Path(f"/proc/self/{name}").write_text(line)
    return True


def _be_first(task: dict[str, Any], libc: ctypes.CDLL, tell: int, alive: int) -> NoReturn:
    """Start the command, take in whatever loses its parent, and end with the command or with who watches."""
    try:
        libc.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        if not os.read(alive, 1):
            os._exit(1)
        command = os.fork()
        if not command:
            _become(task, libc, tell)
        _let_go_of_standard_streams()
        while True:
            ended, status = os.wait()
            if ended == command:
                os.write(tell, json.dumps({"status": status}).encode() + b"\n")
                os._exit(0)
    finally:
        os._exit(1)


def _become(task: dict[str, Any], libc: ctypes.CDLL, tell: int) -> NoReturn:
    """Give up what a command does not need, and become it."""
    try:
        os.setsid()
        libc.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        os.closerange(3, tell)
        os.closerange(tell + 1, 1024)
        os.umask(0o077)
        os.nice(_NICE)
        confined = lock(may_start=True, **task["lock"])
        os.chdir(task["work"])
        _say(tell, confined=confined)
        missing = [word for word in (*NEEDED, "network") if word not in confined]
        if missing:
            _say(tell, failed=f"this system cannot confine {', '.join(missing)}")
            os._exit(1)
        for number in _RESTORED:
            signal.signal(number, signal.SIG_DFL)
        _execute(task, tell)
    except OSError as error:
        _say(tell, failed=f"{error.strerror}")
    finally:
        os._exit(1)


def _execute(task: dict[str, Any], tell: int) -> None:
    try:
        os.execve(task["program"], task["argv"], task["env"])  # noqa: S606  (no shell is wanted)
    except OSError as error:
        _say(tell, not_started=f"{error.strerror}")


def _say(tell: int, **what: Any) -> None:
    os.write(tell, json.dumps(what).encode() + b"\n")


def _watch(task: dict[str, Any], first: int, line: socket.socket) -> str:
    """Why the command is to be ended; '' where it has ended by itself."""
    over = time.monotonic() + task["seconds"]
    ended = os.pidfd_open(first)
    try:
        while True:
            left = over - time.monotonic()
            if left <= 0:
                return "time"
            ready = select.select([line, ended], [], [], min(left, _TICK_SECONDS))[0]
            if ended in ready:
                return ""
            if ready:
                return "stopped"
            reason = _excess(task, first)
            if reason:
                return reason
    finally:
        os.close(ended)


def _excess(task: dict[str, Any], first: int) -> str:
    """What the command and those it started have too much of."""
    pids = descendants(first, task["processes"] + 2)[1:]
    if len(pids) > task["processes"]:
        return "processes"
    if memory_of(pids, task["memory_bytes"]) > task["memory_bytes"]:
        return "memory"
    most = task["folder_bytes"]
    return "files" if size_of(task["folder"], most) + unnamed_of(pids) > most else ""


def _end(first: int) -> None:
    """End the first process, and with it all others; they have ended when it has."""
    with suppress(ProcessLookupError):
        os.kill(first, signal.SIGKILL)
    os.waitpid(first, 0)


def _let_go_of_standard_streams() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    os.close(nothing)


def _read_all(source: int) -> bytes:
    with os.fdopen(source, "rb") as file:
        return file.read()
