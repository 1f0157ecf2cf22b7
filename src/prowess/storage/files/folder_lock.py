"""Lock a folder for one writer at a time, across threads and processes; the lock is released when its holder dies."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from prowess.errors import Unavailable

LOCK_WAIT_SECONDS = 30.0
"""How long a writer waits for another one. A write takes milliseconds; a longer one hangs, or stores thousands of
skills."""

_FIRST_PAUSE, _LONGEST_PAUSE = 0.0005, 0.02


@contextmanager
def lock_folder(folder: Path, *, patience: float = LOCK_WAIT_SECONDS) -> Generator[None]:
    """Hold the folder's lock; raise `Unavailable` if it is not free in time.

    The folder itself is locked, so no lock file is left behind.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not _wait_for_folder(descriptor, folder, patience):
            raise Unavailable(
                f"The folder {str(folder)!r} is locked by {describe_holder(descriptor)}, which is still writing.",
                hint=f"Wait for the program that writes to {str(folder)!r}, or stop it, then try again.",
            )
        yield
    finally:
        os.close(descriptor)  # this releases the lock, as does the death of the process


@contextmanager
def try_lock_folder(folder: Path) -> Generator[bool]:
    """Hold the folder's lock if it is free, and yield True; otherwise yield False."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield _wait_for_folder(descriptor, folder, 0)
    finally:
        os.close(descriptor)


def _wait_for_folder(descriptor: int, folder: Path, patience: float) -> bool:
    try:
        return wait_for_lock(descriptor, patience)
    except OSError as error:
        raise Unavailable(
            f"The folder {str(folder)!r} cannot be locked: {error.strerror}.",
            hint="Move the skills to a file system that supports locks.",
        ) from error


def wait_for_lock(descriptor: int, patience: float) -> bool:
    """Take the lock of an open file or folder; return False if it is not free in time.

    Raise `OSError` if its file system has no locks.
    """
    # Polling, because a blocking flock has no timeout and signals cannot interrupt it outside the main thread.
    deadline = time.monotonic() + patience
    pause = _FIRST_PAUSE
    while not _try_flock(descriptor):
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)
    return True


def _try_flock(descriptor: int) -> bool:
    """Take the lock if it is free; return True if it is ours now."""
    try:
        # `flock`, not `lockf`: a POSIX lock belongs to the process. It would not exclude other threads, and closing any
        # descriptor of the folder would drop it.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def describe_holder(descriptor: int) -> str:
    """Return who holds the lock of an open file or folder, with the process id if the kernel tells it."""
    pid = 0
    with suppress(OSError, ValueError):
        status = os.fstat(descriptor)
        lock_id = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
        # Linux lists all locks, such as `1: FLOCK  ADVISORY  WRITE 4711 08:01:131 0 EOF`.
        rows = [line.split() for line in Path("/proc/locks").read_text("ascii").splitlines()]
        pid = next((int(row[4]) for row in rows if row[1] == "FLOCK" and row[5] == lock_id), 0)
    # The kernel gives no positive number for a process of another container.
    return f"another program (process {pid})" if pid > 0 else "another program"
