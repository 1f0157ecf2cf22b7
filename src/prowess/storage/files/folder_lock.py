"""Lock a folder for one writer at a time, across threads and processes; the lock is released when its holder dies."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
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
        _wait_for_lock(descriptor, folder, patience)
        yield
    finally:
        os.close(descriptor)  # this releases the lock, as does the death of the process


@contextmanager
def try_lock_folder(folder: Path) -> Generator[bool]:
    """Hold the folder's lock if it is free, and yield True; otherwise yield False."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield _try_flock(descriptor, folder)
    finally:
        os.close(descriptor)


def _wait_for_lock(descriptor: int, folder: Path, patience: float) -> None:
    # Polling, because a blocking flock has no timeout and signals cannot interrupt it outside the main thread.
    deadline = time.monotonic() + patience
    pause = _FIRST_PAUSE
    while not _try_flock(descriptor, folder):
        if time.monotonic() >= deadline:
            raise Unavailable(
                f"The folder {str(folder)!r} is locked by another program that is still writing.",
                hint=f"Wait for the program that writes to {str(folder)!r}, or stop it, then try again.",
            )
        time.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)


def _try_flock(descriptor: int, folder: Path) -> bool:
    """Take the lock if it is free; return True if it is ours now."""
    try:
        # `flock`, not `lockf`: a POSIX lock belongs to the process. It would not exclude other threads, and closing any
        # descriptor of the folder would drop it.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise Unavailable(
            f"The folder {str(folder)!r} cannot be locked: {error.strerror}.",
            hint="Move the skills to a file system that supports locks.",
        ) from error
    return True
