"""Temporary folders that one run of foreign code has, and nobody else: how they are made, removed, and found again.

Whoever makes one holds a lock on it, which the system takes back when the process ends. So folders that a killed process has
left can be told from those in use, also where process numbers mean nothing, as between containers.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from prowess.sandbox.removing import remove_tree

PREFIX = "prowess-run-"
SETTLED_SECONDS = 60.0
"""A folder that was touched later than this may not have its lock yet."""

_held: dict[Path, int] = {}
"""The descriptors that hold the locks of this process."""


def new_folder() -> Path:
    """An empty folder that only this user can reach. It is this process's until it is removed."""
    folder = Path(tempfile.mkdtemp(prefix=PREFIX)).resolve()
    with suppress(OSError):
        _held[folder] = _locked(folder, fcntl.LOCK_SH)
    return folder


def sweep_folders() -> list[Path]:
    """Remove the folders of this user whose process has ended without doing so, and say which they were."""
    swept: list[Path] = []
    with suppress(OSError):
        for folder in Path(tempfile.gettempdir()).resolve().glob(f"{PREFIX}*"):
            with suppress(OSError):
                if _is_left(folder):
                    remove_folder(folder)
                    swept.append(folder)
    return swept


def _is_left(folder: Path) -> bool:
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        return False
    if found.st_ctime > time.time() - SETTLED_SECONDS:
        return False
    folder.chmod(0o700)
    try:
        os.close(_locked(folder, fcntl.LOCK_EX))
    except BlockingIOError:
        return False
    return True


def _locked(folder: Path, how: int) -> int:
    """A descriptor that holds a lock on a folder; `BlockingIOError` where another holds one that excludes it."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(opened, how | fcntl.LOCK_NB)
    except BaseException:
        os.close(opened)
        raise
    return opened


def remove_folder(folder: Path) -> None:
    """Remove a folder that nothing works in any more, and let go of it."""
    remove_tree(folder)
    lock = _held.pop(folder, None)
    if lock is not None:
        os.close(lock)
