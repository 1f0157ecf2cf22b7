"""Scan a file in a child process, because some texts take tree-sitter hours and gigabytes, or crash it, and it cannot be stopped.

A child is kept for the next file, and ended when none comes for a while.
"""

from __future__ import annotations

import atexit
import json
import threading
from typing import Any

from prowess.child import frames
from prowess.child.process import ChildProcess, IdleChildren, package_folders, python_command
from prowess.scan.finding import Budget, Finding, Severity
from prowess.skill.limits import MIB
from prowess.skill.package import File

MEMORY_BYTES = 512 * MIB
"""Address space for one file. Of 977 ordinary files, the largest took 50 MB."""
_PROGRAM = "from prowess.scan.worker_program import main; main()"
_PACKAGES = ("prowess", "tree_sitter", "tree_sitter_bash", "tree_sitter_typescript")
_ANSWER_BYTES = MIB
_WAIT_SECONDS = 120.0
"""The limit of a file is CPU time, which takes far longer on a busy machine. This ends the wait for a child that hangs."""
_MOST_IDLE = 2
_IDLE_SECONDS = 10.0


class ScanWorker:
    """A child process that scans one file at a time, each in its own fork."""

    def __init__(self) -> None:
        """Start the process; `OSError` if the system refuses."""
        folders = package_folders(_PACKAGES)
        program = f"import sys; sys.path += {folders!r}; {_PROGRAM}"
        self._child = ChildProcess.start(python_command("-c", program), channel="stdio")
        self._child.channel.settimeout(_WAIT_SECONDS)

    @property
    def alive(self) -> bool:
        """True if it accepts requests."""
        return self._child.alive

    def ask(self, request: bytes) -> dict[str, Any]:
        """Return the answer; raise `OSError` or `InvalidFrame` if there is none."""
        channel = self._child.channel
        channel.sendall(frames.encode_frame(frames.ONLY, frames.RUN, request))
        buffer = frames.FrameBuffer(_ANSWER_BYTES, run=frames.ONLY)
        while (frame := buffer.next()) is None:
            data = channel.recv(1 << 16)
            if not data:
                raise ConnectionResetError
            buffer.feed(data)
        return json.loads(frame[2])

    def end(self) -> None:
        """Kill it, and release what it holds."""
        self._child.end()

    def abandon(self) -> None:
        """Forget it without ending it, in a fork of the process that started it."""
        self._child.abandon()


_idle: IdleChildren[ScanWorker] = IdleChildren()
atexit.register(_idle.end)
_timer: threading.Timer | None = None


def _keep(worker: ScanWorker) -> None:
    """Keep a child for the next file. If none comes for a while, end it."""
    global _timer
    _idle.put(worker, limit=_MOST_IDLE)
    # Not left to the child: if it exited by itself, it would stay a zombie until someone asks for it.
    last, _timer = _timer, threading.Timer(_IDLE_SECONDS, _idle.end)
    _timer.daemon = True
    _timer.start()
    if last:
        last.cancel()


def scan_in_child(file: File, budget: Budget, seconds: int) -> tuple[list[Finding], float]:
    """Return the findings about a file, and the CPU seconds that the scan took. The budget's steps are counted down.

    A file that takes too much time or memory, or crashes the parser, has one finding, which says so.
    """
    task = {"path": file.path, "steps": budget.steps, "seconds": seconds, "memory": MEMORY_BYTES}
    answer = _ask(json.dumps(task).encode() + b"\n" + file.content)
    if answer is None:
        return [_not_scanned(file, "warning", "The scan of this file was interrupted.")], 0.0
    if answer["findings"] is None:
        message = (
            f"The code takes more than {seconds} seconds or {MEMORY_BYTES // MIB} MB to parse, or crashes the parser; it was not "
            "scanned."
        )
        # The gravest severity: this is how code that must not be seen would hide, and ordinary code is far from these limits.
        return [_not_scanned(file, "danger", message)], answer["seconds"]
    budget.steps = answer["steps"]
    return [Finding(**row) for row in answer["findings"]], answer["seconds"]


def _ask(request: bytes) -> dict[str, Any] | None:
    """Return a child's answer, or None if the system does not let a child live."""
    # A child may be killed from outside.
    for _ in range(2):
        try:
            worker = _idle.take() or ScanWorker()
        except OSError:
            return None
        try:
            answer = worker.ask(request)
        except (OSError, frames.InvalidFrame):
            worker.end()
            continue
        except BaseException:
            worker.end()  # the answer to this request would be taken for the answer to the next
            raise
        _keep(worker)
        return answer
    return None


def _not_scanned(file: File, severity: Severity, message: str) -> Finding:
    return Finding(
        severity=severity, kind="not-scanned", path=file.path, message=message, hint="Read the file yourself."
    )
