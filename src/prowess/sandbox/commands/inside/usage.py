"""Measure what a process and its descendants use: how many there are, their memory, and their files."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")
_PROC = Path("/proc")
_SHARED_MEMORY = " /dev/zero (deleted)"
"""What stands for memory that processes share, which counts as such."""


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


def memory_use(pids: list[int], most: int) -> int:
    """How many bytes they hold; what they share is counted once where it matters."""
    held = sum(map(_resident_bytes, pids))
    return held if held <= most else sum(map(_proportional_bytes, pids))


def _resident_bytes(pid: int) -> int:
    with suppress(OSError, IndexError, ValueError):
        return int((_PROC / f"{pid}/statm").read_text().split()[1]) * _PAGE
    return 0


def _proportional_bytes(pid: int) -> int:
    with suppress(OSError, ValueError):
        for line in (_PROC / f"{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return _resident_bytes(pid)


def unlinked_bytes(pids: list[int]) -> int:
    """How many bytes are in files that they hold open or have mapped, and that stand in no folder."""
    sizes: dict[tuple[int, int], int] = {}
    for pid in pids:
        for file, size in (*_mapped_unlinked(pid), *_open_unlinked(pid)):
            sizes[file] = max(size, sizes.get(file, 0))
    return sum(sizes.values())


def _open_unlinked(pid: int) -> Iterator[tuple[tuple[int, int], int]]:
    with suppress(OSError):
        for descriptor in (_PROC / f"{pid}/fd").iterdir():
            with suppress(OSError):
                found = descriptor.stat()
                if stat.S_ISREG(found.st_mode) and not found.st_nlink:
                    yield (found.st_dev, found.st_ino), found.st_blocks * 512


def _mapped_unlinked(pid: int) -> Iterator[tuple[tuple[int, int], int]]:
    """Removed files that are mapped, each with the bytes up to where it is: a descriptor is not needed for that."""
    with suppress(OSError, ValueError):
        for line in (_PROC / f"{pid}/maps").read_text(errors="replace").splitlines():
            if line.endswith(" (deleted)") and not line.endswith(_SHARED_MEMORY):
                where, _, offset, device, number, _ = line.split(maxsplit=5)
                start, end = (int(part, 16) for part in where.split("-"))
                major, minor = (int(part, 16) for part in device.split(":"))
                yield (os.makedev(major, minor), int(number)), int(offset, 16) + end - start


MAX_ENTRIES = 20_000
"""So many files and folders are counted; more are too many."""


def folder_size(folder: str, most: int) -> int:
    """How many bytes the files in the folder take on the disk together; `most` + 1 where it is more, or hidden."""
    total = count = 0
    pending = [folder]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    found = entry.stat(follow_symlinks=False)
                    total += found.st_blocks * 512
                    count += 1
                    if total > most or count > MAX_ENTRIES:
                        return most + 1
                    if stat.S_ISDIR(found.st_mode):
                        pending.append(entry.path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            return most + 1
    return total
