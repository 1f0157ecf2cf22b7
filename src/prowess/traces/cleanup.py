"""Close the traces of runs whose process died."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from prowess.storage import traces
from prowess.storage.clock import now, seconds_from_now
from prowess.storage.database import Connections

DEADLINE_GRACE_SECONDS = 60
"""How long after its deadline a run counts as gone, even if its process is on another host."""

INTERRUPTED_ERROR = "The process exited before the run ended."
INTERRUPTED_CODE = "interrupted"

_identities: dict[int, str] = {}


def process_identity() -> str:
    """Return what identifies this process: host, boot, process id and start time.

    The id alone is not enough, because the system gives the ids of dead processes out again.
    """
    own = os.getpid()
    if own not in _identities:
        _identities.clear()  # a forked child is another process
        _identities[own] = f"{_host_identity()}/{own}/{_start_ticks(own) or 0}"
    return _identities[own]


def close_interrupted(records: Connections) -> int:
    """Close the traces of runs whose process on this host died or whose deadline is long over; return how many.

    A run that ends later after all overwrites this with its own result.
    """
    with records.read() as connection:
        running = traces.read_running(connection)
    overdue = seconds_from_now(-DEADLINE_GRACE_SECONDS)
    lost = [trace for trace, process, deadline in running if deadline < overdue or is_process_gone(process)]
    if not lost:
        return 0
    with records.write() as connection:
        return traces.close_running(connection, lost, moment=now(), error=INTERRUPTED_ERROR, code=INTERRUPTED_CODE)


def is_process_gone(mark: str) -> bool:
    """Return True if the process is certainly dead; False for a process of another host, which cannot be checked."""
    host, number, started = [*mark.rsplit("/", 2), "", ""][:3]
    if host != _host_identity() or not number.isdigit():
        return False
    if not _is_running(int(number)):
        return True
    found = _start_ticks(int(number))
    # Another start time means that the id was given to a new process. `0` means that the system did not say.
    return found is not None and started != "0" and str(found) != started


def _host_identity() -> str:
    """Return what identifies the processes that can be checked from here.

    That is the host since its last boot, and the PID namespace: a container does not see the processes of another one,
    and would take them for dead.
    """
    boot = _read_text("/proc/sys/kernel/random/boot_id")[:8]
    try:
        space = Path("/proc/self/ns/pid").readlink().name.strip("pid:[]")
    except OSError:
        space = ""
    return f"{socket.gethostname()}+{boot}+{space}"


def _is_running(number: int) -> bool:
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        pass  # it runs, as another user
    # A dead process that its parent has not waited for yet still takes signals. The state follows the program's name,
    # which is in parentheses and may contain some itself.
    return not _read_text(f"/proc/{number}/stat").rpartition(") ")[2].startswith(("Z", "X"))


def _start_ticks(number: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None if the system does not say."""
    # Field 22 of proc(5); the first two, id and name, are cut off.
    fields = _read_text(f"/proc/{number}/stat").rpartition(") ")[2].split()
    return int(fields[19]) if len(fields) > 19 else None


def _read_text(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except (OSError, ValueError):
        return ""
