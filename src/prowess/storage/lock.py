"""One writer at a time in a folder, across threads and processes; the lock dies with its holder."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from prowess.errors import Unavailable


@contextmanager
def locked(folder: Path) -> Generator[None]:
    """Hold the folder's lock; waits for whoever has it. No file is left behind: the folder itself is locked."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _lock(descriptor, folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def locked_if_free(folder: Path) -> Generator[bool]:
    """Hold the folder's lock if nobody else does, and say whether that is so."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            _lock(descriptor, folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free = True
        except BlockingIOError:
            free = False
        yield free
    finally:
        os.close(descriptor)


def _lock(descriptor: int, folder: Path, operation: int) -> None:
    try:
        fcntl.flock(descriptor, operation)
    except BlockingIOError:
        raise
    except OSError as error:
        raise Unavailable(
            f"The folder {str(folder)!r} cannot be locked: {error.strerror}.",
            hint="Keep skills that change on a file system that has locks.",
        ) from error
