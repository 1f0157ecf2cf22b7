"""One process of the sidecar, and the lines of JSON that are exchanged with it.

A thread starts the process, reads from it, and ends with it, so that any number of event loops can share the process. The
process is not trusted: a line that is too long or not JSON ends it.
"""

from __future__ import annotations

import json
import os
import select
import socket
import threading
from concurrent.futures import Future
from contextlib import suppress
from time import monotonic
from typing import IO, Any, Final, Protocol, cast

from prowess.child.process import ChildProcess
from prowess.errors import SidecarFailed, TooLarge, Unavailable
from prowess.sandbox.folders import new_folder, remove_folder
from prowess.sandbox.messages import parse_json
from prowess.sandbox.programs import DATA_PATHS, PROGRAM_FOLDERS, existing_paths
from prowess.sandbox.script_process import start_confined
from prowess.sidecar.environment import SidecarProgram
from prowess.skill.kinds import JsonObject
from prowess.skill.limits import MIB

MAX_LINE_BYTES: Final = 32 * MIB
"""The longest message in either direction."""
START_SECONDS: Final = 60.0
"""How long it may take to start. It takes half a second, but much longer on a machine that is busy with other things."""
ENDING_SECONDS: Final = 2.0
ABANDONED_SECONDS: Final = 10.0
"""How long a process without requests may continue with those that were cancelled. Parsing a hostile answer can take hours."""

_CHUNK = 1 << 16
_ERROR_BYTES = 4096
_MEMORY_BYTES = 2048 * MIB
_FILE_BYTES = 256 * MIB
_CPU_SECONDS = 30 * 86_400
_LOADERS = (
    *("/lib/ld-linux-aarch64.so.1", "/lib64/ld-linux-x86-64.so.2"),
    *("/lib/ld-musl-aarch64.so.1", "/lib/ld-musl-x86_64.so.1"),
)
_SYSTEM = ("/sys/devices/system/cpu", "/proc/self", "/proc/cpuinfo", "/proc/meminfo")
_LIBRARY_PATHS = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


class Listener(Protocol):
    """Receives the messages about one request, in the thread of the connection."""

    def receive(self, message: JsonObject) -> None:
        """Take a message; raise `ValueError` if it is not acceptable, which ends the process."""
        ...

    def fail(self, error: SidecarFailed) -> None:
        """Take the error that ended the process."""
        ...


class Ended(Exception):
    """The process has ended, or is about to; a new one can be started."""


class Connection:
    """A running sidecar. It ends when it is idle for `idle_seconds`, when it is closed, or with this process."""

    def __init__(self, program: SidecarProgram, *, idle_seconds: float) -> None:
        self._program = program
        self._idle_seconds = idle_seconds
        self._lock = threading.Lock()
        self._listeners: dict[int, Listener] = {}
        self._abandoned: set[int] = set()
        """The requests that were cancelled and have not ended."""
        self._next_id = 0
        self._unsent = bytearray()
        self._is_ended = False
        self._idle_since = monotonic()
        self._child: ChildProcess | None = None
        self._owner = os.getpid()
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_writer.setblocking(False)
        self._error_tail = b""
        self.hello: Future[JsonObject] = Future()
        """What the sidecar says when it is ready; `Unavailable` if it does not start."""
        self.confined: tuple[str, ...] = ()
        self._thread = threading.Thread(target=self._serve, name="prowess-sidecar", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """True if it accepts requests from this process."""
        return not self._is_ended and os.getpid() == self._owner

    @property
    def idle_since(self) -> float | None:
        """When the last request ended, by the monotonic clock; None while it starts or has requests."""
        with self._lock:
            return None if self._listeners or not self.hello.done() else self._idle_since

    @property
    def pid(self) -> int | None:
        """The process id, or None while it starts."""
        return self._child.pid if self._child else None

    def open(self, message: JsonObject, listener: Listener) -> int:
        """Send a request and return its id; raise `Ended` if the process takes no more."""
        with self._lock:
            if not self.is_alive:
                raise Ended
            self._next_id += 1
            line = _encode({"id": self._next_id, **message})
            self._listeners[self._next_id] = listener
            self._send(line)
            return self._next_id

    def send(self, message: JsonObject) -> None:
        """Send a message; do nothing if the process has ended."""
        line = _encode(message)
        with self._lock:
            if self.is_alive:
                self._send(line)

    def cancel(self, number: int) -> None:
        """Stop a request; nothing more is received about it."""
        with self._lock:
            if self._listeners.pop(number, None) is None or not self.is_alive:
                return  # it has ended
            self._idle_since = monotonic()
            self._abandoned.add(number)
            self._send(_encode({"type": "cancel", "target": number}))
        self._wake(b"w")  # it may be idle now

    def close(self) -> None:
        """Ask the process to end, kill it if it does not, and wait. Its requests fail. Blocking."""
        self.send({"type": "shutdown"})
        self._wake(b"q")
        if threading.current_thread() is not self._thread and os.getpid() == self._owner:
            self._thread.join()

    def _send(self, line: bytes) -> None:
        """Send a line. What the process does not accept at once is left to the thread, so that no event loop waits."""
        if self._child is None or self._unsent:
            self._unsent += line
            return
        sent = 0
        with suppress(OSError):  # full, or gone, which is seen when it is read from
            sent = self._child.channel.send(line, socket.MSG_DONTWAIT)
        if sent < len(line):
            self._unsent += line[sent:]
            self._wake(b"w")

    def _wake(self, why: bytes) -> None:
        with suppress(OSError):
            self._wake_writer.send(why)

    def _serve(self) -> None:
        """Start the process and serve it until its end. The thread starts it, because it dies with the thread that did."""
        folder, errors, reason = None, -1, ""
        try:
            folder = new_folder()
            errors, for_child = os.pipe()
            with os.fdopen(for_child, "wb", buffering=0) as stderr:
                child = self._start(str(folder), stderr)
            with self._lock:
                self._child = child
            reason = self._exchange(child, errors)
        except Unavailable as error:
            self.hello.set_exception(error)
        except OSError as error:
            reason = error.strerror or str(error)
        finally:
            self._end(reason)
            if errors >= 0:
                os.close(errors)
            if folder is not None:
                remove_folder(folder)

    def _start(self, folder: str, stderr: IO[bytes]) -> ChildProcess:
        """Start the launcher, and wait until it has executed the sidecar."""
        try:
            child, report = start_confined(**_launch_options(self._program, folder), stderr=stderr)
        except OSError as error:
            raise Unavailable(f"The DSPy sidecar failed to start: {error.strerror}.") from error
        if len(report) != 1:
            code = child.end()
            reason = report[1] if report else f"its launcher exited with {code}"
            raise Unavailable(f"The DSPy sidecar failed to start: {reason}.", hint="Run `prowess doctor`.")
        self.confined = tuple(report[0])
        return child

    def _exchange(self, child: ChildProcess, errors: int) -> str:
        """Read and write until the process ends, is idle or is closed; return why."""
        channel, wake = child.channel, self._wake_reader
        received = bytearray()
        deadline = monotonic() + START_SECONDS
        watched = select.poll()
        for file in (channel.fileno(), wake.fileno(), errors):
            watched.register(file, select.POLLIN)
        while True:
            ready = self._wait(watched, channel, deadline)
            if reason := self._check_idle(deadline):
                return reason
            if wake.fileno() in ready and b"q" in wake.recv(_CHUNK):
                return "it was closed"
            if errors in ready and not self._read_errors(errors):
                watched.unregister(errors)
            events = ready.get(channel.fileno(), 0)
            if events & select.POLLOUT:
                self._write(channel)
            if events & ~select.POLLOUT and (reason := self._read(channel, received)):
                return reason

    def _wait(self, watched: select.poll, channel: socket.socket, deadline: float) -> dict[int, int]:
        """Return the files that are ready, with their events; {} if the process is not ready in time, or idle."""
        with self._lock:
            events = select.POLLIN | (select.POLLOUT if self._unsent else 0)
            end = None if self._listeners else self._idle_end()
        watched.modify(channel, events)
        if not self.hello.done():
            end = deadline
        return dict(watched.poll(None if end is None else max(0.0, end - monotonic()) * 1000))

    def _check_idle(self, deadline: float) -> str:
        """Return why the process must end, or '': it is not ready in time, or has had no request for long.

        What it sends in the meantime does not count, or a process that nobody uses could continue forever.
        """
        if not self.hello.done():
            return f"it was not ready after {START_SECONDS:g} seconds" if monotonic() >= deadline else ""
        with self._lock:
            # Under the lock: a request that comes now starts another process.
            self._is_ended = not self._listeners and monotonic() >= self._idle_end()
        return "it was idle" if self._is_ended else ""

    def _idle_end(self) -> float:
        """Return when a process without requests must end."""
        seconds = min(ABANDONED_SECONDS, self._idle_seconds) if self._abandoned else self._idle_seconds
        return self._idle_since + seconds

    def _read_errors(self, errors: int) -> bool:
        """Keep the end of what the process writes to its error output; return False at its end."""
        data = os.read(errors, _CHUNK)
        self._error_tail = (self._error_tail + data)[-_ERROR_BYTES:]
        return bool(data)

    def _write(self, channel: socket.socket) -> None:
        with self._lock, suppress(OSError):
            del self._unsent[: channel.send(self._unsent[:_CHUNK], socket.MSG_DONTWAIT)]

    def _read(self, channel: socket.socket, received: bytearray) -> str:
        """Handle what has arrived; return why the process must end, or ''."""
        try:
            data = channel.recv(_CHUNK)
        except OSError:
            data = b""  # a process that was killed with unread data resets the connection
        if not data:
            return "gone"
        received += data
        if b"\n" not in data:
            return "it sent a message that is too long" if len(received) > MAX_LINE_BYTES else ""
        *lines, rest = bytes(received).split(b"\n")
        received[:] = rest
        for line in lines:
            try:
                self._take(_decode(line))
            except (ValueError, RecursionError, KeyError, TypeError):
                return "it sent an invalid message"
        return ""

    def _take(self, message: JsonObject) -> None:
        if "hello" in message:
            if not self.hello.done():
                self._idle_since = monotonic()
                self.hello.set_result(dict(message["hello"]))
            return
        number = message["for"] if "call" in message else message["id"]
        with self._lock:
            listener = self._listeners.get(number)
            if listener is None:  # it was cancelled
                if "ok" in message:
                    self._abandoned.discard(number)
                return
            listener.receive(message)
            if "ok" in message:  # only the answer has it: the request is finished
                del self._listeners[number]
                self._idle_since = monotonic()

    def _end(self, reason: str) -> None:
        """End the process, and fail what is still open."""
        with self._lock:
            self._is_ended = True
            listeners, self._listeners = list(self._listeners.values()), {}
        code = self._child.end(grace=ENDING_SECONDS) if self._child else None
        self._wake_reader.close()
        self._wake_writer.close()
        last = self._error_tail.decode("utf-8", "replace").strip().splitlines()[-1:]
        last_words = f" {last[0][:300]}" if last and reason == "gone" else ""
        why = f"it exited with {code}" if reason == "gone" else reason
        if not self.hello.done():
            self.hello.set_exception(Unavailable(f"The DSPy sidecar failed to start: {why}.{last_words}", hint=_HINT))
        for listener in listeners:
            listener.fail(
                SidecarFailed(f"The DSPy sidecar ended while it worked: {why}.{last_words}", hint="Try again.")
            )


_HINT = "Run `prowess sidecar install` to install it again, or `prowess doctor`."


def _launch_options(program: SidecarProgram, folder: str) -> dict[str, Any]:
    """Return how to start the sidecar, confined as far as this system can.

    It cannot write files, except that a single-file binary unpacks itself into `folder`; then its program gives that up, too.
    No code of a skill runs in the sidecar, so it also runs where a system cannot confine it.
    """
    executable = program.argv[0]
    # Nothing of our own environment, which holds API keys.
    env = {name: os.environ[name] for name in _LIBRARY_PATHS if name in os.environ}
    env |= {"HOME": folder, "TMPDIR": folder, "LANG": "C.UTF-8", "DSPY_CACHEDIR": folder}
    lock = {
        "read": existing_paths((*program.folders, *PROGRAM_FOLDERS, *DATA_PATHS, *_SYSTEM)),
        "write": [folder] if program.starts_itself else [],
        "execute": existing_paths((executable, os.path.realpath(executable), *_LOADERS)),
        "seconds": _CPU_SECONDS,
        "memory_bytes": _MEMORY_BYTES,
        "file_bytes": _FILE_BYTES if program.starts_itself else 0,
        "may_start" if program.starts_itself else "may_become": True,
    }
    return {"argv": program.argv, "env": env, "lock": lock}


def _encode(message: JsonObject) -> bytes:
    line = (
        json.dumps(message, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8", "replace")
        + b"\n"
    )
    if len(line) > MAX_LINE_BYTES:
        raise TooLarge(f"The inputs have {len(line):,} bytes, more than the limit of {MAX_LINE_BYTES:,}.")
    return line


def _decode(line: bytes) -> JsonObject:
    """Return a message. One with values that cannot be stored becomes an error of its request.

    A model may have written them, so only that request fails, and not the others of the process.
    """
    try:
        # The outermost levels of an answer are those of the protocol.
        message: Any = parse_json(line.decode(), around=3)
    except ValueError as error:
        message = json.loads(line)
        if isinstance(message, dict):
            about = cast("JsonObject", message)
            report = {"type": "InvalidOutput", "message": str(error)}
            return {"id": about.get("for", about.get("id")), "error": report}
    if not isinstance(message, dict):
        raise TypeError
    return cast("JsonObject", message)
