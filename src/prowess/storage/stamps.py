"""Stamps: telling from its metadata alone whether a file or folder is still as it was read."""

from __future__ import annotations

import os
from collections.abc import Iterable

Stamp = tuple[int, int, int, int, int]
"""Modification and change time in nanoseconds, size, inode and mode."""

_SECOND = 1_000_000_000
_FINE = _SECOND // 10
COARSE = 2 * _SECOND
"""The longest tick of a file system's clock."""


def stamp_of(status: os.stat_result) -> Stamp:
    """The stamp of one file or folder."""
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, status.st_mode)


def is_settled(stamp: Stamp, read_at: int) -> bool:
    """Whether any change after `read_at` (nanoseconds by the clock) must show in the stamp.

    A file that changed only just before it was read could change again within the same tick of the file system's
    clock and keep its stamp, so it must be read again next time. The change time counts, since nobody can set it.
    A time without a fraction comes from a file system that counts in whole seconds, or two.
    """
    changed = stamp[1]
    tick = _FINE if changed % _SECOND else COARSE
    return changed < read_at - tick


def all_hold(stamps: Iterable[tuple[str, Stamp]]) -> bool:
    """Whether every place still has the stamp that it had."""
    try:
        for location, stamp in stamps:
            now = os.lstat(location)
            # Written out: this line runs once for every file of every skill at every look.
            if (now.st_mtime_ns, now.st_ctime_ns, now.st_size, now.st_ino, now.st_mode) != stamp:
                return False
    except OSError:
        return False
    return True
