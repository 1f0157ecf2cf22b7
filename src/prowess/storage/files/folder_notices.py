"""Learn from the kernel whether anything in some folders may have changed (inotify), without looking at any of them.

Looking at ten thousand skill folders takes 100 ms of CPU; asking whether there is a notice takes a few microseconds. This
only ever spares a look: where notices are impossible or may be incomplete, callers look at the files as before. That is so
on other systems than Linux, on file systems that other machines can change, and where the kernel's limits are reached.
"""

from __future__ import annotations

import os
import struct
import sys
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ctypes

_LOCAL_TYPES = frozenset(
    {"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay", "ramfs", "reiserfs", "tmpfs", "xfs", "zfs"}
)
"""File systems whose every change passes through this kernel, which is not so for network and FUSE file systems."""

# From <sys/inotify.h>: the same on all processors.
_MODIFY, _ATTRIB, _MOVED, _CREATE, _DELETE, _SELF = 0x2, 0x4, 0xC0, 0x100, 0x200, 0xC00
_OVERFLOW, _IGNORED, _ONLYDIR, _DONT_FOLLOW = 0x4000, 0x8000, 0x0100_0000, 0x0200_0000
_MASK = _MODIFY | _ATTRIB | _MOVED | _CREATE | _DELETE | _SELF | _ONLYDIR
_HEADER = struct.Struct("iIII")
_READ_BYTES = 1 << 16


class FolderNotices:
    """Notices of changes below a root. Not thread-safe. A process that is forked off gets none."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._opened: _Inotify | None = None
        self._identity: tuple[int, int] | None = None
        self._armed: dict[str, tuple[int, int]] = {}
        """The inode and the number of the watch of each folder."""
        self._paths: dict[int, str] = {}
        self._impossible = sys.platform != "linux"

    def are_quiet(self) -> bool:
        """Return True if nothing has changed in the watched folders since the last call, and the root is still the same folder."""
        opened = self._opened
        if opened is None or opened.process != os.getpid():
            return False
        events = opened.read()
        for number, mask in events:
            if mask & _OVERFLOW:
                # Notices are lost, also those of folders that are no longer watched.
                self.stop()
                return False
            if mask & _IGNORED and (path := self._paths.pop(number, None)) is not None:
                self._armed.pop(path, None)
        return not events and _identify(self._root) == self._identity

    def cover(self, folders: Mapping[str, int]) -> bool:
        """Watch all of these folders, given with their inodes; return True if all were watched already.

        If not, the caller must look at the folders again: something may have changed before they were watched.
        """
        missing = [path for path, inode in folders.items() if self._armed.get(path, (0, 0))[0] != inode]
        if not missing and self._opened is not None and self._opened.process == os.getpid():
            return True
        if not self._impossible:
            try:
                self._arm(missing, folders)
            except (FileNotFoundError, NotADirectoryError):
                self.stop()  # a folder is gone already
            except OSError:
                # A limit of the kernel is reached, which is not worth another attempt at each look.
                self._impossible = True
                self.stop()
        return False

    def stop(self) -> None:
        """Watch nothing any more."""
        if self._opened is not None:
            self._opened.close()
        self._opened, self._identity = None, None
        self._armed.clear()
        self._paths.clear()

    def _arm(self, missing: list[str], folders: Mapping[str, int]) -> None:
        # More than twice as many were watched before: folders that were moved away still are.
        if self._opened is None or self._opened.process != os.getpid() or len(self._paths) > 2 * len(folders):
            self.stop()
            if not _is_local(self._root):
                self._impossible = True
                return
            self._opened = _Inotify()
            self._identity = _identify(self._root)
            missing = list(folders)
        for path in missing:
            number = self._opened.add(path, _MASK if path == self._root else _MASK | _DONT_FOLLOW)
            self._armed[path] = (folders[path], number)
            self._paths[number] = path


class _Inotify:
    """An inotify instance of this process."""

    def __init__(self) -> None:
        self._library = _load_library()
        self._descriptor = _check(self._library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        self.process = os.getpid()
        self.close = weakref.finalize(self, os.close, self._descriptor)

    def add(self, path: str, mask: int) -> int:
        """Watch a folder; return the number of the watch."""
        return _check(self._library.inotify_add_watch(self._descriptor, os.fsencode(path), mask))

    def read(self) -> list[tuple[int, int]]:
        """Return the watch and the mask of each notice that has come."""
        found: list[tuple[int, int]] = []
        while True:
            try:
                content = os.read(self._descriptor, _READ_BYTES)
            except BlockingIOError:
                return found
            offset = 0
            while offset < len(content):
                number, mask, _, length = _HEADER.unpack_from(content, offset)
                found.append((number, mask))
                offset += _HEADER.size + length


def _load_library() -> ctypes.CDLL:
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    library.inotify_add_watch.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32)
    return library


def _check(result: int) -> int:
    if result < 0:
        import ctypes

        raise OSError(ctypes.get_errno(), "inotify")
    return result


def _identify(root: str) -> tuple[int, int] | None:
    try:
        status = os.stat(root)  # noqa: PTH116
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _is_local(root: str) -> bool:
    """Return True if everything below a folder is on one file system that only this kernel changes."""
    mounts = [
        line.split(" ") for line in Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape").splitlines()
    ]
    # The mount point has its spaces as octal numbers. The type comes after a lone dash, behind optional fields.
    kinds = {fields[4].replace("\\040", " "): fields[fields.index("-") + 1] for fields in mounts}
    real = os.path.realpath(root)
    if any(point.startswith(f"{real}/") for point in kinds):
        return False
    above = real
    while above not in kinds and above != "/":
        above = os.path.dirname(above)  # noqa: PTH120
    return kinds.get(above, "") in _LOCAL_TYPES
