"""Temporary folders for one run of foreign code, and private folders for files that are executed later.

The process that makes a temporary folder holds a lock on it, which the kernel releases when the process ends. The lock
distinguishes folders in use from those that a killed process left, also between containers, where process ids mean nothing.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from prowess.errors import Refused, Unavailable
from prowess.sandbox.removal import remove_tree

FOLDER_PREFIX = "prowess-run-"
SETTLED_SECONDS = 60.0
"""A younger folder may not have its lock yet: its owner makes it first and locks it then."""

_held_locks: dict[Path, int] = {}
"""The descriptors that hold the locks of this process."""


def new_folder() -> Path:
    """Make an empty folder that only this user can reach; it belongs to this process until it is removed."""
    folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX)).resolve()
    with suppress(OSError):
        # If the file system has no locks, the sweep cannot lock the folder either, and leaves it alone.
        _held_locks[folder] = _lock_folder(folder, fcntl.LOCK_SH)
    return folder


def sweep_folders() -> list[Path]:
    """Remove folders of this user whose process has ended without removing them, and return their paths."""
    swept: list[Path] = []
    with suppress(OSError):
        for folder in Path(tempfile.gettempdir()).resolve().glob(f"{FOLDER_PREFIX}*"):
            with suppress(OSError):
                if _is_abandoned(folder):
                    remove_folder(folder)
                    swept.append(folder)
    return swept


def _is_abandoned(folder: Path) -> bool:
    found = folder.lstat()
    # The temporary folder is shared: any user may have put a file, a link or a folder of that name there.
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        return False
    # The change time, because code that ran in the folder cannot set it back.
    if found.st_ctime > time.time() - SETTLED_SECONDS:
        return False
    folder.chmod(0o700)  # foreign code may have removed the permission to open it
    try:
        os.close(_lock_folder(folder, fcntl.LOCK_EX))
    except BlockingIOError:
        return False
    return True


def _lock_folder(folder: Path, how: int) -> int:
    """Lock a folder and return the descriptor that holds the lock; `BlockingIOError` if another lock excludes it."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(opened, how | fcntl.LOCK_NB)
    except BaseException:
        os.close(opened)
        raise
    return opened


def remove_folder(folder: Path) -> None:
    """Remove a folder that is no longer in use, and release its lock."""
    # The lock is released last, or a sweep in another process would remove the tree at the same time.
    remove_tree(folder)
    lock = _held_locks.pop(folder, None)
    if lock is not None:
        os.close(lock)


def private_folder(path: Path, what: str) -> Path:
    """Return a folder that only this user can write to, made if missing.

    Raise `Refused` if others can write to it, since what is in it is executed, and `Unavailable` if it cannot be made. `what`
    starts the message: "The sandbox", "Packages".
    """
    folder = path.absolute()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except OSError as error:
        raise keep_error(folder, what, error) from error
    if found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise Refused(
            f"The folder {str(folder)!r} is writable by other users, but Prowess runs files from it.",
            hint=f"Remove it, or run `chmod 700 {str(folder)!r}`.",
        )
    return folder


def keep_error(folder: Path, what: str, error: OSError) -> Unavailable:
    """Return the error for a folder that cannot be written to."""
    return Unavailable(
        f"{what} cannot be stored in {str(folder)!r}: {error.strerror or error}.",
        hint="Check the permissions and the free disk space.",
    )
