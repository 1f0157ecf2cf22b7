"""Resource limits of a process: CPU time, memory, file sizes."""

from __future__ import annotations

import contextlib
import os
import resource

_FILES_OF_CODE, _FILES_OF_PROGRAMS = 64, 256


def limit(*, seconds: int, memory_bytes: int, file_bytes: int, processes: int, foreign: bool) -> list[str]:
    """Set limits that cannot be raised again, and say which are kept.

    Memory is what is taken from now on, all of it; for `foreign` programs it is their data, since some reserve more addresses
    than there is memory. `processes` counts threads too, and all that this user has; it binds nobody who is root.
    """
    at_work = max(1, seconds) * (os.cpu_count() or 1)
    most = {
        "CPU": (at_work, at_work + 1),
        "DATA": _soft_and_hard(memory_bytes) if foreign else None,
        "AS": None if foreign else _soft_and_hard(_mapped_bytes() + memory_bytes),
        "FSIZE": _soft_and_hard(file_bytes),
        "NPROC": _soft_and_hard(processes) if processes else None,
        "NOFILE": _soft_and_hard(_FILES_OF_PROGRAMS if foreign else _FILES_OF_CODE),
        "CORE": (0, 0),
        "MEMLOCK": (0, 0),
        "MSGQUEUE": (0, 0),
    }
    kept = {name for name, pair in most.items() if pair and _set_limit(name, pair)}
    words = {"processor": "CPU", "memory": "DATA" if foreign else "AS", "sizes": "FSIZE"}
    return [word for word, name in words.items() if name in kept]


def _soft_and_hard(value: int) -> tuple[int, int]:
    return value, value


def _set_limit(name: str, pair: tuple[int, int]) -> bool:
    """Whether a limit is kept; one that is lower already stays."""
    with contextlib.suppress(AttributeError, OSError, ValueError):
        number = getattr(resource, f"RLIMIT_{name}")
        _, now = resource.getrlimit(number)
        soft, hard = (value if now == resource.RLIM_INFINITY else min(value, now) for value in pair)
        resource.setrlimit(number, (soft, hard))
        return True
    return False


def _mapped_bytes() -> int:
    """How many bytes of addresses this process has."""
    try:
        told = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
        try:
            return int(os.read(told, 100).split()[0]) * resource.getpagesize()
        finally:
            os.close(told)
    except (OSError, ValueError, IndexError):
        return 0
