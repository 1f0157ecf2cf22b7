"""What a process and all that descend from it take: how many they are, their memory, and their files that have no name."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")
_PROC = Path("/proc")


def descendants(pid: int, most: int) -> list[int]:
    """The process and those that descend from it, each after the one that started it; not many more than `most`."""
    found = [pid]
    for one in found:
        if len(found) > most:
            break
        found += _children(one)
    return found


def _children(pid: int) -> Iterator[int]:
    with suppress(OSError):
        for task in (_PROC / f"{pid}/task").iterdir():
            with suppress(OSError):
                yield from map(int, (task / "children").read_text().split())


def memory_of(pids: list[int], most: int) -> int:
    """How many bytes they hold; what they share is counted once where it matters."""
    held = sum(map(_resident, pids))
    return held if held <= most else sum(map(_proportional, pids))


def _resident(pid: int) -> int:
    with suppress(OSError, IndexError, ValueError):
        return int((_PROC / f"{pid}/statm").read_text().split()[1]) * _PAGE
    return 0


def _proportional(pid: int) -> int:
    with suppress(OSError, ValueError):
        for line in (_PROC / f"{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return _resident(pid)


def unnamed_of(pids: list[int]) -> int:
    """How many bytes are in files that they hold open and that stand in no folder."""
    sizes: dict[tuple[int, int], int] = {}
    for pid in pids:
        with suppress(OSError):
            for descriptor in (_PROC / f"{pid}/fd").iterdir():
                with suppress(OSError):
                    found = descriptor.stat()
                    if stat.S_ISREG(found.st_mode) and not found.st_nlink:
                        sizes[found.st_dev, found.st_ino] = found.st_blocks * 512
    return sum(sizes.values())
