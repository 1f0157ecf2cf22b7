"""Start a child process, exchange frames with it, and kill it.

A child has an empty environment, its own session, and one socket to this process, its channel. It belongs to the process that
started it: in a fork of that process it is abandoned, neither killed nor waited for.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Generic, Literal, Protocol, TypeVar

from prowess.child.frames import FrameBuffer, InvalidFrame, encode_frame

SLICE_SECONDS = 0.005
"""How long the event loop handles the frames of one child before it serves others: a flood must not starve the rest."""
_CHUNK = 1 << 16
"""How much is received at a time. A larger buffer would be allocated with `mmap` on every call, however little arrives."""


def python_command(*arguments: str) -> list[str]:
    """Return a command line of this interpreter, without site packages, `PYTHON*` variables and bytecode files."""
    # -I ignores `PYTHON*` variables and the current folder, -S runs no `.pth` file of an installed package, -B writes
    # no bytecode. The environment of a child has no locale, so UTF-8 is set explicitly.
    return [sys.executable, "-ISB", "-X", "utf8", *arguments]


def package_folders(packages: Iterable[str]) -> list[str]:
    """Return the folders that a child must add to `sys.path` to import these packages; missing packages are left out."""
    # `find_spec` does not import a package, which for wasmtime would be slow and load native code into this process.
    specs = [importlib.util.find_spec(package) for package in packages]
    # `origin` is `folder/package/__init__.py`.
    return list(dict.fromkeys(str(Path(spec.origin).parents[1]) for spec in specs if spec and spec.origin))


def has_exited(process: subprocess.Popen[bytes]) -> bool:
    """Return True if a process has exited, without collecting its status.

    Until that is collected, no other process can get its id, so that its group can be killed safely.
    """
    if process.returncode is not None:
        return True
    if not hasattr(os, "waitid"):  # on macOS, Python has it from 3.13 on
        return process.poll() is not None
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # someone else has collected it
        return True


class ChildProcess:
    """A process that this one started, with a socket to it."""

    def __init__(self, process: subprocess.Popen[bytes], channel: socket.socket) -> None:
        self._process = process
        self._owner = os.getpid()
        self.channel = channel

    @classmethod
    def start(
        cls,
        command: Sequence[str],
        *,
        channel: Literal["stdin", "stdio", "argument"] = "stdin",
        kind: socket.SocketKind = socket.SOCK_STREAM,
        stderr: IO[bytes] | None = None,
        pass_fds: Sequence[int] = (),
        env: Mapping[str, str] | None = None,
    ) -> ChildProcess:
        """Start a program; `OSError` if the system refuses.

        The child finds its end of the channel at standard input, at standard input and output, or, for `argument`, at the
        descriptor that is appended to its command line; its standard streams are pipes then.
        """
        parent_end, child_end = socket.socketpair(socket.AF_UNIX, kind)
        # This process must not keep the child's end open: the channel would never report that the child is gone.
        with child_end:
            pipe, nothing, socket_fd = subprocess.PIPE, subprocess.DEVNULL, child_end.fileno()
            piped = channel == "argument"
            try:
                process = subprocess.Popen(  # noqa: S603  (a list of our own words, without a shell)
                    [*command, str(socket_fd)] if piped else command,
                    stdin=pipe if piped else socket_fd,
                    stdout=pipe if piped else socket_fd if channel == "stdio" else nothing,
                    stderr=stderr or (pipe if piped else nothing),
                    pass_fds=(*pass_fds, socket_fd) if piped else pass_fds,
                    # Unbuffered: the pipes are read and written by descriptor, which would miss what a buffer holds.
                    bufsize=0,
                    # Empty unless given: the variables of this process hold API keys.
                    env=env or {},
                    cwd="/",
                    # Its own session: a Ctrl-C in the terminal is for this process alone, and the group can be killed whole.
                    start_new_session=True,
                )
            except BaseException:
                parent_end.close()
                raise
        return cls(process, parent_end)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """True if it is running and belongs to this process."""
        return os.getpid() == self._owner and not has_exited(self._process)

    @property
    def returncode(self) -> int | None:
        """The exit code, negative for a signal; None before the process was waited for."""
        return self._process.returncode

    @property
    def pipes(self) -> tuple[IO[bytes], IO[bytes], IO[bytes]]:
        """Standard input, output and error of a child whose channel is an argument."""
        stdin, stdout, stderr = self._process.stdin, self._process.stdout, self._process.stderr
        if stdin is None or stdout is None or stderr is None:
            raise ValueError("this child has no pipes")
        return stdin, stdout, stderr

    def kill(self) -> None:
        """Kill it and its process group: also what it left behind, if it has exited by itself."""
        if os.getpid() != self._owner or self._process.returncode is not None:
            return
        # Its status was not collected, so its id, which is that of the group, cannot be another process's.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        # Not every member of a group may be signalled, and that fails for the group as a whole.
        self._process.kill()

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has exited, and return the exit code; `subprocess.TimeoutExpired` after `timeout` seconds."""
        return self._process.wait(timeout)

    def end(self, *, grace: float = 0.0) -> int:
        """Close the channel, wait `grace` seconds for it to exit, then kill it; return the exit code.

        In a fork of the process that started it, only the descriptors are closed.
        """
        if os.getpid() != self._owner:
            self.abandon()
            return 0
        self.channel.close()
        if grace:
            with suppress(subprocess.TimeoutExpired):
                self.wait(grace)
        self.kill()
        code = self.wait()
        self._close()
        return code

    def abandon(self) -> None:
        """Close the descriptors without ending the child, in a fork of the process that it belongs to."""
        self._process.returncode = 0  # or `Popen` would wait for a process that is not our child
        self._close()

    def _close(self) -> None:
        self.channel.close()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe:
                with suppress(OSError):
                    pipe.close()


class Endable(Protocol):
    """A holder of a child process, as `Children` knows it."""

    def end(self) -> None:
        """Kill the child and release what it holds."""
        ...

    def abandon(self) -> None:
        """Close descriptors without killing, in a fork of the process that started the child."""
        ...


ChildT = TypeVar("ChildT", bound=Endable)


class Children(Generic[ChildT]):
    """The children of this process, for any number of threads. In a fork of the process the list is empty."""

    def __init__(self) -> None:
        self._children: list[ChildT] = []
        self._owner = os.getpid()
        self._lock = threading.Lock()

    def __enter__(self) -> list[ChildT]:
        """Return the list, to be read and changed; no other thread has it until the block ends."""
        self._check_fork()
        self._lock.acquire()
        return self._children

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def snapshot(self) -> list[ChildT]:
        """Return a copy of the list. It never waits for the lock, which is held while a child starts."""
        self._check_fork()
        # Copying a list is one step under the GIL, so no lock is needed for a consistent copy.
        return list(self._children)

    def end(self) -> None:
        """End all of them."""
        with self as children:
            while children:
                children.pop().end()

    def _check_fork(self) -> None:
        if os.getpid() != self._owner:
            # The lock may have been held by a thread that does not exist in the fork, and would never be released.
            self._owner, self._lock = os.getpid(), threading.Lock()
            while self._children:
                self._children.pop().abandon()


class Reusable(Endable, Protocol):
    """A holder of a child process that serves one request after another."""

    @property
    def alive(self) -> bool:
        """True if it accepts requests."""
        ...


ReusableT = TypeVar("ReusableT", bound=Reusable)


class IdleChildren(Generic[ReusableT]):
    """Children that wait for a request, the most recently used last."""

    def __init__(self) -> None:
        self._children: Children[ReusableT] = Children()

    def take(self) -> ReusableT | None:
        """Remove and return a live child, if there is one."""
        with self._children as children:
            while children:
                child = children.pop()
                if child.alive:
                    return child
                child.end()
        return None

    def put(self, child: ReusableT, *, limit: int) -> None:
        """Keep a child, or end it if there are enough."""
        with self._children as children:
            if len(children) < limit:
                children.append(child)
                return
        child.end()

    def end(self) -> None:
        """End all children."""
        self._children.end()


class FrameChannel:
    """Frames over a socket, for one event loop at a time, without blocking it.

    `on_frame` is called with run, kind and payload. `on_end` is called when the other side has closed the socket, with False,
    or has sent an invalid frame, with True.
    """

    def __init__(
        self,
        line: socket.socket,
        buffer: FrameBuffer,
        on_frame: Callable[[int, int, bytes], None],
        on_end: Callable[[bool], None],
        *,
        receive: Callable[[int], bytes] | None = None,
    ) -> None:
        line.setblocking(False)
        self._line = line
        self._buffer = buffer
        self._on_frame, self._on_end = on_frame, on_end
        self._receive = receive or line.recv
        self._loop: asyncio.AbstractEventLoop | None = None
        self._unsent = bytearray()
        self._writing = False

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that it is attached to."""
        return self._loop

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Receive frames in this event loop from now on; the one before must be closed or have been detached."""
        # The writer that the previous loop had registered is gone with it.
        if self._loop is not loop:
            self._loop, self._writing = loop, False
            loop.add_reader(self._line.fileno(), self._read)

    def detach(self) -> None:
        """Receive nothing until it is attached again."""
        if self._loop and not self._loop.is_closed():
            self._loop.remove_reader(self._line.fileno())
            self._watch_writes(False)
        self._loop = None

    def close(self) -> None:
        """Detach, and close the socket."""
        if self._line.fileno() >= 0:
            self.detach()
            self._line.close()

    def send(self, run: int, kind: int, payload: bytes = b"") -> None:
        """Send a frame as soon as the other side accepts it; do nothing if the channel is not attached."""
        if self._loop is None:
            return
        self._unsent += encode_frame(run, kind, payload)
        # Most frames fit into the buffer of the socket. Writing at once saves a turn of the event loop; while a writer
        # is registered, the frame waits behind the bytes before it.
        if not self._writing:
            self._write()

    def _read(self) -> None:
        try:
            data = self._receive(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""  # a child that was killed with unread data resets the connection: that is an end, too
        if not data:
            self._on_end(False)
            return
        self._buffer.feed(data)
        self._handle()

    def _handle(self) -> None:
        """Handle what was received for one time slice; nothing more is received before all of it is handled."""
        loop = self._loop
        if loop is None:
            return
        until = loop.time() + SLICE_SECONDS
        # A callback may detach the channel: the frames after that are dropped.
        while self._loop is loop:
            try:
                frame = self._buffer.next()
            except InvalidFrame:
                self._on_end(True)
                return
            if frame is None:
                return
            self._on_frame(*frame)
            if self._loop is loop and loop.time() > until:
                # Receiving stops as well: the kernel then blocks the sender, and the buffer here cannot grow.
                loop.remove_reader(self._line.fileno())
                loop.call_soon(self._resume, loop)
                return

    def _resume(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._loop is loop:
            loop.add_reader(self._line.fileno(), self._read)
            self._handle()

    def _write(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: self._line.send(self._unsent[:_CHUNK])]
        except BlockingIOError:
            pass
        except OSError:
            self._unsent.clear()  # the other side is gone, which is seen when it is read from
        self._watch_writes(bool(self._unsent))

    def _watch_writes(self, more: bool) -> None:
        if self._loop and more and not self._writing:
            self._loop.add_writer(self._line.fileno(), self._write)
        elif self._loop and self._writing and not more:
            self._loop.remove_writer(self._line.fileno())
        self._writing = more
