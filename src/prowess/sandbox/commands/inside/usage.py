"""Measure and limit what a process and its descendants use: how many there are, their memory, and their files.

A control group of the kernel counts all memory, also that of sockets and pipes, and never lets it exceed the limit. Few
systems let a program make one, so everything is measured as well.
"""

from __future__ import annotations

import functools
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


def memory_use(pids: list[int], sockets: int, most: int) -> int:
    """Return how many bytes of memory they hold, with what is waiting in their sockets at the most.

    The resident size counts shared pages for each process. Only if it exceeds the limit is the exact size read, which is slow.
    """
    waiting = sockets * _socket_bytes()
    held = sum(map(_resident_bytes, pids)) + waiting
    return held if held <= most else sum(map(_proportional_bytes, pids)) + waiting


@functools.cache
def _socket_bytes() -> int:
    """Return how much can wait in one socket: its buffer, which no command can enlarge, and the last piece."""
    size = 212_992
    with suppress(OSError, ValueError):
        size = int(Path("/proc/sys/net/core/wmem_default").read_text())
    return size + (64 << 10)


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


def open_files(pids: list[int]) -> tuple[int, int]:
    """Return the size of removed files that they hold open or mapped, which no folder shows, and the number of their sockets."""
    sizes: dict[tuple[int, int], int] = {}
    sockets: set[int] = set()
    for pid in pids:
        # By device and inode: one file can be open and mapped in many processes, and takes space once.
        for file, size in _mapped_unlinked(pid):
            sizes[file] = max(size, sizes.get(file, 0))
        for found in _open_descriptors(pid):
            if stat.S_ISSOCK(found.st_mode):
                sockets.add(found.st_ino)
            elif stat.S_ISREG(found.st_mode) and not found.st_nlink:
                file = found.st_dev, found.st_ino
                sizes[file] = max(found.st_blocks * 512, sizes.get(file, 0))
    return sum(sizes.values()), len(sockets)


def _open_descriptors(pid: int) -> Iterator[os.stat_result]:
    with suppress(OSError):
        for descriptor in (_PROC / f"{pid}/fd").iterdir():
            with suppress(OSError):
                yield descriptor.stat()


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


_GROUP_PREFIX = "prowess-run-"
_GROUP_OVERHEAD = 32 << 20
"""Memory for the launcher's own process in the group, and for what the kernel keeps about each process."""


class MemoryGroup:
    """A control group that limits the memory of a command, in version 2 of the interface or in version 1."""

    def __init__(self, folder: Path, limit: int) -> None:
        folder.mkdir()
        self._folder = folder
        try:
            # The limit with swap comes last: it may not be below the one without.
            for name, value in {"memory.max": limit, "memory.swap.max": 0, **dict.fromkeys(_OLD_LIMITS, limit)}.items():
                if (folder / name).exists():
                    (folder / name).write_text(str(value))
            self._events = next(folder / name for name in _EVENTS if (folder / name).exists())
        except (OSError, StopIteration):
            self.remove()
            raise OSError from None

    def add(self, pid: int) -> None:
        """Put a process into the group, with everything that it will start."""
        (self._folder / "cgroup.procs").write_text(str(pid))

    def has_killed(self) -> bool:
        """Return True if the kernel has killed a process because the limit was reached."""
        with suppress(OSError, ValueError):
            counts = dict(line.split() for line in self._events.read_text().splitlines())
            return int(counts.get("oom_kill", 0)) > 0
        return False

    def remove(self) -> None:
        """Remove the group, which must be empty."""
        with suppress(OSError):
            self._folder.rmdir()


_OLD_LIMITS = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")
_EVENTS = ("memory.events", "memory.oom_control")


def make_memory_group(limit: int) -> MemoryGroup | None:
    """Return a new group with this limit; None if this process may not make one."""
    for parent in _group_parents():
        with suppress(OSError, ValueError):
            _sweep_groups(parent)
            return MemoryGroup(parent / f"{_GROUP_PREFIX}{os.getpid()}", limit + _GROUP_OVERHEAD)
    return None


def _group_parents() -> Iterator[Path]:
    """Yield the folders of groups in which one with a limit on memory might be made."""
    with suppress(OSError, ValueError):
        lines = (_PROC / "self/cgroup").read_text().splitlines()
        for _, controllers, path in (line.split(":", 2) for line in lines):
            if controllers == "memory":
                yield from _group_folders("cgroup", "memory", path)
            elif not controllers:
                for own in _group_folders("cgroup2", "", path):
                    # A group with processes gives its children no controllers, so one next to it is needed. It would
                    # escape a limit that someone has set for this very group.
                    limited = own / "memory.max"
                    beside = [own.parent] if limited.exists() and limited.read_text().strip() == "max" else []
                    yield from (
                        folder
                        for folder in (own, *beside)
                        if "memory" in (folder / "cgroup.subtree_control").read_text().split()
                    )


def _group_folders(kind: str, option: str, path: str) -> Iterator[Path]:
    """Yield where a group is mounted."""
    for line in (_PROC / "self/mountinfo").read_text().splitlines():
        mounted, _, described = line.partition(" - ")
        root, place = mounted.split()[3:5]
        name, _, options = described.split(maxsplit=2)
        if (
            name == kind
            and (not option or option in options.split(","))
            and f"{path}/".startswith(root.rstrip("/") + "/")
        ):
            yield Path(place) / path[len(root.rstrip("/")) :].lstrip("/")


def _sweep_groups(parent: Path) -> None:
    """Remove empty groups that killed launchers have left."""
    for folder in parent.glob(f"{_GROUP_PREFIX}*"):
        owner = folder.name.removeprefix(_GROUP_PREFIX)
        if owner == str(os.getpid()) or not (_PROC / owner).exists():
            with suppress(OSError):
                folder.rmdir()
