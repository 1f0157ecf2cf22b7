"""The program that runs one command: it starts a confined process, watches it and its descendants, and cleans up.

Three processes: this one, which no command can see and which reports how the command ended; the init process of a new PID
namespace, whose end kills everything in the namespace; and the command itself, which drops what it does not need before
it executes the foreign program. Where such namespaces are not available nothing is run: what a command starts could outlive it.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import socket
import stat
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from prowess.sandbox.commands.inside.usage import (
    MemoryGroup,
    descendants,
    folder_size,
    make_memory_group,
    memory_use,
    open_files,
)
from prowess.sandbox.confine.lockdown import NEEDED, lock_down
from prowess.sandbox.removal import remove_tree


class FolderModes:
    """The modes of folders that a command may write to, held by descriptor: the command could put another folder in its place."""

    def __init__(self, folders: list[str]) -> None:
        self._held: list[tuple[int, int]] = []
        for folder in folders:
            with suppress(OSError):
                opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                self._held.append((opened, stat.S_IMODE(os.fstat(opened).st_mode)))

    def restore(self) -> None:
        """Restore the modes."""
        for opened, mode in self._held:
            with suppress(OSError):
                if stat.S_IMODE(os.fstat(opened).st_mode) != mode:
                    os.fchmod(opened, mode)
            os.close(opened)
        self._held.clear()


_TICK_SECONDS = 0.05
"""How often memory, processes and files are measured: rlimits bind each process, not all of a command together."""
_NEW_NAMESPACES = 0x20000000 | 0x40000000 | 0x08000000
"""PID, network and IPC namespaces."""
_NEW_USER = 0x10000000
_SET_PARENT_DEATH_SIGNAL, _SET_DUMPABLE = 1, 4
_NICE = 10
"""The niceness of a command: the launcher, which enforces its limits, must get the processor first."""
_RESTORED_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT)


def main(options: dict[str, Any]) -> None:
    """Run the command that arrives over the socket in the last argument, and send its outcome back over it."""
    del options
    line = socket.socket(fileno=int(sys.argv[2]))
    line.set_inheritable(False)
    task = json.loads(_read_line(line))
    modes = FolderModes(task["roots"])
    try:
        outcome = _run(task, line)
    except OSError as error:
        outcome = {"failed": f"{error.strerror}"}
    modes.restore()  # only now: everything that could change them again is dead
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
    alone = _enter_namespaces(libc)
    task["lock"]["processes"] = task["processes"] if alone else 0  # otherwise all processes of the user would count
    # The command may run as the same user: it must not attach to the launcher or read its memory.
    libc.prctl(_SET_DUMPABLE, 0, 0, 0, 0)
    report, report_end = os.pipe()
    # The init process waits for a byte on this pipe: it asked to die with its parent only after the fork, and a launcher that
    # was killed in between would leave it behind. It recognizes that by the end of file.
    alive, life = os.pipe()
    first = os.fork()
    if not first:
        os.close(report)
        os.close(life)
        _run_init(task, libc, report_end, alive)
    os.close(report_end)
    os.close(alive)
    # The host reads the output until the last writer has closed it, which must be the command.
    _drop_standard_streams()
    group = _limit_memory(task["memory_bytes"], first)
    os.write(life, b"!")
    reason = _watch(task, first, line, group)
    _kill_namespace(first)
    if group:
        # The kernel may have killed the command before anyone looked.
        reason = reason or ("memory" if group.has_killed() else "")
        group.remove()
    outcome: dict[str, Any] = {"reason": reason}
    for line_of_report in _read_all(report).splitlines():
        outcome |= json.loads(line_of_report)
    return {**outcome, "confined": [*outcome.get("confined", ()), "processes", *(["cgroup"] if group else [])]}


def _limit_memory(limit: int, first: int) -> MemoryGroup | None:
    """Put the init process, which waits, into a control group; None if there can be none."""
    group = make_memory_group(limit)
    if group is None:
        return None
    try:
        group.add(first)
    except OSError:
        group.remove()
        return None
    return group


def _enter_namespaces(libc: ctypes.CDLL) -> bool:
    """Enter new namespaces for what is started from here on; return True if that took a new user namespace."""
    if libc.unshare(_NEW_NAMESPACES) == 0:
        return False
    user, group = os.getuid(), os.getgid()
    if libc.unshare(_NEW_USER | _NEW_NAMESPACES) != 0:
        raise OSError(ctypes.get_errno(), "this system does not allow process namespaces")
    for name, line in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        Path(f"/proc/self/{name}").write_text(line)
    return True


def _run_init(task: dict[str, Any], libc: ctypes.CDLL, report_end: int, alive: int) -> NoReturn:
    """Be the init process of the PID namespace: start the command, reap orphans, and exit with the command or the launcher."""
    try:
        libc.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        if not os.read(alive, 1):
            os._exit(1)
        command = os.fork()
        if not command:
            _exec_command(task, libc, report_end)
        _drop_standard_streams()
        while True:
            ended, status = os.wait()
            if ended == command:
                os.write(report_end, json.dumps({"status": status}).encode() + b"\n")
                os._exit(0)
    finally:
        os._exit(1)


def _exec_command(task: dict[str, Any], libc: ctypes.CDLL, report_end: int) -> NoReturn:
    """Confine this process, and execute the command."""
    try:
        os.setsid()
        libc.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        # Nothing of the launcher may stay open: its socket decides how the command is said to have ended.
        os.closerange(3, report_end)
        os.closerange(report_end + 1, 1024)
        os.umask(0o077)
        os.nice(_NICE)
        confined = lock_down(may_start=True, **task["lock"])
        os.chdir(task["work"])
        _report(report_end, confined=confined)
        needed = (*NEEDED, "network", "masks") if task["lock"]["mask"] else (*NEEDED, "network")
        missing = [word for word in needed if word not in confined]
        if missing:
            _report(report_end, failed=f"this system cannot confine {', '.join(missing)}")
            os._exit(1)
        # Python ignores SIGPIPE and SIGXFSZ, and a background job may ignore SIGINT. A program would inherit that, and for
        # instance `yes | head` would never end.
        for number in _RESTORED_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        _exec_program(task, report_end)
    except OSError as error:
        _report(report_end, failed=f"{error.strerror}")
    finally:
        os._exit(1)


def _exec_program(task: dict[str, Any], report_end: int) -> None:
    try:
        os.execve(task["program"], task["argv"], task["env"])  # noqa: S606  (no shell is wanted)
    except OSError as error:
        _report(report_end, not_started=f"{error.strerror}")


def _report(report_end: int, **what: Any) -> None:
    os.write(report_end, json.dumps(what).encode() + b"\n")


def _watch(task: dict[str, Any], first: int, line: socket.socket, group: MemoryGroup | None) -> str:
    """Watch the command until it ends; return why it must be ended, '' if it has ended by itself."""
    over = time.monotonic() + task["seconds"]
    ended = os.pidfd_open(first)
    try:
        while True:
            left = over - time.monotonic()
            if left <= 0:
                return "time"
            # The socket becomes readable when the host closes it or its writing half: both mean to stop.
            ready = select.select([line, ended], [], [], min(left, _TICK_SECONDS))[0]
            if ended in ready:
                return ""
            if ready:
                return "stopped"
            reason = "memory" if group and group.has_killed() else _exceeded_limit(task, first)
            if reason:
                return reason
    finally:
        os.close(ended)


def _exceeded_limit(task: dict[str, Any], first: int) -> str:
    """Return the limit that the command and its descendants exceed, or ''."""
    # The first is the init process, which is ours. A few more than allowed are enough to see that there are too many.
    pids = descendants(first, task["processes"] + 2)[1:]
    if len(pids) > task["processes"]:
        return "processes"
    unlinked, sockets = open_files(pids)
    if memory_use(pids, sockets, task["memory_bytes"]) > task["memory_bytes"]:
        return "memory"
    most = task["folder_bytes"]
    return "files" if folder_size(task["folder"], most) + unlinked > most else ""


def _kill_namespace(first: int) -> None:
    """Kill the init process; the kernel kills all others of the namespace before it can be reaped."""
    with suppress(ProcessLookupError):
        os.kill(first, signal.SIGKILL)
    os.waitpid(first, 0)


def _drop_standard_streams() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(nothing, number)
    os.close(nothing)


def _read_all(source: int) -> bytes:
    with os.fdopen(source, "rb") as file:
        return file.read()
