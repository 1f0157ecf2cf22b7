"""Runs that nobody will end any more, because their process is gone: their traces are closed as interrupted."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from prowess.storage import traces
from prowess.storage.clock import later, now
from prowess.storage.database import Connections

GRACE_SECONDS = 60
"""So long after its deadline a run is taken for gone, wherever its process is."""

ERROR = "The process that ran it ended before the run did."
CODE = "interrupted"

_marks: dict[int, str] = {}


def process_mark() -> str:
    """This process, told apart from every other one that ever had its number: host, number, start and boot."""
    own = os.getpid()
    if own not in _marks:
        _marks.clear()  # a forked child is another process
        _marks[own] = f"{_host()}/{own}/{_started(own) or 0}"
    return _marks[own]


def close_interrupted(records: Connections) -> int:
    """Close the traces of runs whose process on this host is gone, or whose time is long over; how many that were.

    A run that does end later all the same writes its own end over this.
    """
    with records.read() as connection:
        running = traces.read_running(connection)
    overdue = later(-GRACE_SECONDS)
    lost = [trace for trace, process, deadline in running if deadline < overdue or is_gone(process)]
    if not lost:
        return 0
    with records.write() as connection:
        return traces.close_running(connection, lost, moment=now(), error=ERROR, code=CODE)


def is_gone(mark: str) -> bool:
    """Whether the process of a mark certainly does not run any more; False for one of another host."""
    host, number, started = [*mark.rsplit("/", 2), "", ""][:3]
    if host != _host() or not number.isdigit():
        return False
    if not _runs(int(number)):
        return True
    found = _started(int(number))
    return found is not None and started != "0" and str(found) != started


def _host() -> str:
    """Names the set of processes that can be told from here: the machine since it started, and the part seen of it."""
    boot = _read("/proc/sys/kernel/random/boot_id")[:8]
    try:
        space = Path("/proc/self/ns/pid").readlink().name.strip("pid:[]")
    except OSError:
        space = ""
    return f"{socket.gethostname()}+{boot}+{space}"


def _runs(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        pass  # somebody else's, which runs
    return not _read(f"/proc/{number}/stat").rpartition(") ")[2].startswith(("Z", "X"))


def _started(number: int) -> int | None:
    """When a process started, in ticks since the machine did; None where the system does not tell."""
    fields = _read(f"/proc/{number}/stat").rpartition(") ")[2].split()
    return int(fields[19]) if len(fields) > 19 else None


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except (OSError, ValueError):
        return ""
