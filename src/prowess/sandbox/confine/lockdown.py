"""Confine this process for good, so that untrusted code can run in it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from prowess.sandbox.confine import kernel, landlock, limits, seccomp
from prowess.sandbox.confine import kernel as privileges

NEEDED = ("files", "calls", "privileges")
"""Without these nobody's code is run."""
_DEVICES, _SINK = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"), "/dev/null"
_PROBE_SECONDS = 20
_PROBE = (
    "import sys; sys.path.append(sys.argv[1]); from prowess.sandbox.confine.lockdown import lock; "
    "print(*lock(read=(), write=(), seconds=9, memory_bytes=1 << 28, file_bytes=0, may_start=True))"
)


def lock(
    *,
    read: Sequence[str],
    write: Sequence[str],
    execute: Sequence[str] = (),
    seconds: int,
    memory_bytes: int,
    file_bytes: int,
    processes: int = 0,
    may_start: bool = False,
    may_become: bool = False,
) -> list[str]:
    """Confine the calling process, which has one thread, and say what was reached; what is missing in `NEEDED` is no lock.

    The words: `network` (no socket can be made or reached), `files` (only below these paths, and a few harmless devices),
    `attributes` (modes, owners and times can be changed where may be written and nowhere else), `calls` (every system call is
    refused that is not listed), `privileges`, `signals` (none to processes outside), `processor`, `memory` and `sizes` (limits).

    With `may_start` programs can be executed from the paths in `execute`, and others started; with `may_become` the process
    can become one of these, and start no other; with neither, nothing can be executed or forked. Without `may_start` no
    attribute of any file can be changed. Nowhere can a file be made that runs as whoever it belongs to. Descriptors that are
    open stay open: close them first. The places to write to have to exist; a current folder that is inside one is to be
    entered again after this.
    """
    foreign = may_start or may_become
    reached = kernel.separate(write) if foreign else []
    reached += privileges.drop()
    reached += landlock.keep_only(read=[*read, *_DEVICES], write=[*write, _SINK], execute=execute)
    reached += limits.limit(
        seconds=seconds, memory_bytes=memory_bytes, file_bytes=file_bytes, processes=processes, foreign=foreign
    )
    if seccomp.keep_only(
        seccomp.filter_for(may_start=may_start, may_become=may_become, attributes="attributes" in reached)
    ):
        closed = ("calls", "network") if may_start else ("calls", "network", "attributes")
        reached += [word for word in closed if word not in reached]
    return reached


def probe_confinement() -> list[str]:
    """What `lock` reaches on this machine, without confining anything: it is found out in a process of its own."""
    try:
        asked = subprocess.run(  # noqa: S603  (our own program)
            [sys.executable, "-ISB", "-c", _PROBE, str(Path(__file__).parents[3])],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROBE_SECONDS,
            check=True,
            env={},
            cwd="/",
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return asked.stdout.decode().split()
