"""Confine this process permanently, so that untrusted code can run in it."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

from prowess.sandbox.confine.kernel import drop_privileges, enter_namespaces
from prowess.sandbox.confine.landlock import restrict_paths
from prowess.sandbox.confine.seccomp import filter_for, install_filter

NEEDED = ("files", "calls", "privileges")
"""Without these no untrusted code is run."""
_DEVICES, _SINK = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom"), "/dev/null"
_PROBE_SECONDS = 20
_PROBE = (
    "import sys; sys.path.append(sys.argv[1]); from prowess.sandbox.confine.lockdown import lock_down; "
    "print(*lock_down(read=(), write=(), seconds=9, memory_bytes=1 << 28, file_bytes=0, may_start=True))"
)
_FILES_OF_CODE, _FILES_OF_PROGRAMS = 64, 256


def lock_down(
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
    mask: Sequence[str] = (),
    cover: str = "",
    exact: Collection[str] = (),
) -> list[str]:
    """Confine the calling process, which must have one thread, and return what was achieved.

    If one of `NEEDED` is missing, the process is not confined, and the caller must run nothing in it. The words: `network` (no
    socket can be made or reached), `files` (only below these paths, and a few harmless devices), `attributes` (modes, owners
    and times can be changed in writable places only), `calls` (system calls that are not listed are refused), `privileges`,
    `signals` (none to processes outside), `masks` (the files and folders in `mask` are empty), `processor`, `memory` and `sizes`
    (limits).

    With `may_start`, programs below `execute` can be executed, and processes started; with `may_become`, the process can
    execute one of these programs, and start no process; with neither, nothing can be executed or forked. Without `may_start`
    no attribute of any file can be changed. Set-user-ID files can never be made. Open descriptors stay open: close them first.
    Writable places must exist; a working folder inside one must be entered again afterwards. Those of the paths that are `exact`
    have no links: one with a link in it was changed meanwhile, and nothing that it leads to can be reached.
    """
    foreign = may_start or may_become
    # The order matters: namespaces need privileges, Landlock opens paths, and the filter refuses the calls of all the others.
    achieved = enter_namespaces(write, mask, cover, exact) if foreign else []
    achieved += drop_privileges()
    achieved += restrict_paths(read=[*read, *_DEVICES], write=[*write, _SINK], execute=execute, exact=exact)
    achieved += set_limits(
        seconds=seconds, memory_bytes=memory_bytes, file_bytes=file_bytes, processes=processes, foreign=foreign
    )
    if install_filter(filter_for(may_start=may_start, may_become=may_become, attributes="attributes" in achieved)):
        closed = ("calls", "network") if may_start else ("calls", "network", "attributes")
        achieved += [word for word in closed if word not in achieved]
    return achieved


def probe_confinement() -> list[str]:
    """Return what `lock_down` achieves on this machine; it is tried in another process, so nothing is confined."""
    try:
        probe = subprocess.run(  # noqa: S603  (our own program)
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
    return probe.stdout.decode().split()


def set_limits(*, seconds: int, memory_bytes: int, file_bytes: int, processes: int, foreign: bool) -> list[str]:
    """Set limits that cannot be raised again, and return which are in force.

    `memory_bytes` bounds the address space from now on; for `foreign` programs only their data, since engines such as V8
    reserve far more addresses than they use. `processes` counts threads too, and everything that this user runs; the kernel
    does not apply it to root.
    """
    # CPU time of all threads together. The hard limit, a second later, kills what ignores SIGXCPU.
    at_work = max(1, seconds) * (os.cpu_count() or 1)
    most = {
        "CPU": (at_work, at_work + 1),
        "DATA": _soft_and_hard(memory_bytes) if foreign else None,
        # On top of what the interpreter has mapped already, which is not the script's doing.
        "AS": None if foreign else _soft_and_hard(_mapped_bytes() + memory_bytes),
        "FSIZE": _soft_and_hard(file_bytes),
        "NPROC": _soft_and_hard(processes) if processes else None,
        "NOFILE": _soft_and_hard(_FILES_OF_PROGRAMS if foreign else _FILES_OF_CODE),
        # A core dump would write the memory of a run to the disk.
        "CORE": (0, 0),
        "MEMLOCK": (0, 0),
        "MSGQUEUE": (0, 0),
    }
    in_force = {name for name, pair in most.items() if pair and _set_limit(name, pair)}
    words = {"processor": "CPU", "memory": "DATA" if foreign else "AS", "sizes": "FSIZE"}
    return [word for word, name in words.items() if name in in_force]


def _soft_and_hard(value: int) -> tuple[int, int]:
    return value, value


def _set_limit(name: str, pair: tuple[int, int]) -> bool:
    """Set a limit, unless it is lower already; return True if it is in force."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        number = getattr(resource, f"RLIMIT_{name}")
        _, now = resource.getrlimit(number)
        # A hard limit can only be lowered.
        soft, hard = (value if now == resource.RLIM_INFINITY else min(value, now) for value in pair)
        resource.setrlimit(number, (soft, hard))
        return True
    return False


def _mapped_bytes() -> int:
    """Return the size of the address space of this process; 0 if unknown."""
    try:
        statm = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return int(os.read(statm, 100).split()[0]) * resource.getpagesize()
        finally:
            os.close(statm)
    except (OSError, ValueError, IndexError):
        return 0
