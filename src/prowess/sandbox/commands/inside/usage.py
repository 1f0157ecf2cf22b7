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
"""How shared anonymous memory appears in the maps; it already counts as memory."""


def descendants(pid: int, most: int) -> list[int]:
    """Return a process and its descendants, parents first; it stops soon after `most`."""
    found = [pid]
    for one in found:
        if len(found) > most:
            break
        found += _children(one)
    return found


def _children(pid: int) -> Iterator[int]:
    with suppress(OSError):
        # The kernel lists children by the thread that started them.
        for task in (_PROC / f"{pid}/task").iterdir():
            with suppress(OSError):
                yield from map(int, (task / "children").read_text().split())


def memory_use(pids: list[int], most: int) -> int:
    """Return how many bytes of memory they hold.

    The resident size counts shared pages for each process. Only if it exceeds the limit is the exact size read, which is slow.
    """
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
    """Return the size of removed files that they hold open or mapped: these take space that no folder shows."""
    sizes: dict[tuple[int, int], int] = {}
    for pid in pids:
        for file, size in (*_mapped_unlinked(pid), *_open_unlinked(pid)):
            # By device and inode: one file can be open and mapped in many processes, and takes space once.
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
    """Yield removed files that are mapped, with their size as far as it is mapped: a mapping outlives its descriptor."""
    with suppress(OSError, ValueError):
        for line in (_PROC / f"{pid}/maps").read_text(errors="replace").splitlines():
            if line.endswith(" (deleted)") and not line.endswith(_SHARED_MEMORY):
                where, _, offset, device, number, _ = line.split(maxsplit=5)
                start, end = (int(part, 16) for part in where.split("-"))
                major, minor = (int(part, 16) for part in device.split(":"))
                yield (os.makedev(major, minor), int(number)), int(offset, 16) + end - start


MAX_ENTRIES = 20_000
"""How many files and folders are counted; more are too many."""


def folder_size(folder: str, most: int) -> int:
    """Return the disk space of the files in a folder; `most` + 1 if it is more, or cannot be seen."""
    total = count = 0
    pending = [folder]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    found = entry.stat(follow_symlinks=False)
                    # Blocks, always of 512 bytes here: a sparse file takes less space than its size says.
                    total += found.st_blocks * 512
                    count += 1
                    if total > most or count > MAX_ENTRIES:
                        return most + 1
                    if stat.S_ISDIR(found.st_mode):
                        pending.append(entry.path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            return most + 1  # a command could hide files by removing the permissions of their folder
    return total
