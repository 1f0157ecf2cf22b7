"""The program of a scan worker: it scans every file in a fork, with limits of CPU time and memory, and reports how that ended.

A request has one line of JSON, `{path, steps, seconds, memory}`, and then the bytes of the file. An answer is JSON, `{findings,
steps, seconds}`; `findings` is null if the fork did not live to report. It ends when its input ends, and so with the process
that started it.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from contextlib import suppress
from typing import Any

from prowess.child import frames
from prowess.scan import javascript, powershell, python, shell
from prowess.scan.finding import Budget
from prowess.scan.package_scan import scan_file
from prowess.skill.package import File

ANALYSERS = (javascript, powershell, python, shell)
"""Imported here once, not in each fork."""


def main() -> None:
    """Answer requests from standard input."""
    shell.load_language()
    javascript.load_language()
    source, target = sys.stdin.buffer, sys.stdout.buffer
    while len(head := source.read(frames.HEADER.size)) == frames.HEADER.size:
        answer = _scan_in_fork(source.read(frames.HEADER.unpack(head)[0]))
        target.write(frames.encode_frame(frames.ONLY, frames.DONE, answer))
        target.flush()


def _scan_in_fork(request: bytes) -> bytes:
    head, _, content = request.partition(b"\n")
    task: dict[str, Any] = json.loads(head)
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            # It cannot answer for another file: the channel stays with the process that forked it.
            os.closerange(0, 3)
            _confine(task)
            budget = Budget(task["steps"])
            findings = [finding.as_json() for finding in scan_file(File(path=task["path"], content=content), budget)]
            with os.fdopen(writer, "wb") as target:
                target.write(json.dumps({"findings": findings, "steps": budget.steps}).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as source:
        report = source.read()
    _, _, usage = os.wait4(pid, 0)
    # Whatever ended it early, a limit or a crash, there is no report then: never a report without findings.
    answer: dict[str, Any] = {"findings": None, "steps": 0}
    with suppress(ValueError):
        answer = json.loads(report)
    return json.dumps({**answer, "seconds": usage.ru_utime + usage.ru_stime}).encode()


def _confine(task: dict[str, Any]) -> None:
    """Limit this process to the task, as far as the system knows the limits."""
    limits = {
        "RLIMIT_AS": task["memory"],
        "RLIMIT_CPU": task["seconds"],
        "RLIMIT_CORE": 0,
        "RLIMIT_FSIZE": 0,
        "RLIMIT_NPROC": 0,
    }
    for name, limit in limits.items():
        with suppress(AttributeError, OSError, ValueError):
            resource.setrlimit(getattr(resource, name), (limit, limit))
