"""How large a folder has become that a foreign program had the run of, and how it is removed, whatever lies in it."""

from __future__ import annotations

import itertools
import os
import stat
from contextlib import suppress
from pathlib import Path

MOST_ENTRIES = 20_000
"""So many files and folders are counted; more are too many."""


def size_of(folder: str, most: int) -> int:
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
                    if total > most or count > MOST_ENTRIES:
                        return most + 1
                    if stat.S_ISDIR(found.st_mode):
                        pending.append(entry.path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            return most + 1
    return total


def remove_folder(folder: Path) -> None:
    """Remove a folder that nothing works in any more, whatever lies in it; without following links.

    No path that is used is longer than two names below the folder, so that neither deep trees nor long names can stop it.
    """
    numbers = itertools.count()
    while True:
        try:
            folder.chmod(0o700)
            entries = list(folder.iterdir())
        except OSError:
            return
        removed = [_remove(entry, numbers) for entry in entries]
        if not any(removed):
            break
    with suppress(OSError):
        folder.rmdir()


def _remove(entry: Path, numbers: itertools.count[int]) -> bool:
    """Whether an entry was removed; folders that it had in it come to lie beside it."""
    try:
        if not _is_folder(entry):
            entry.unlink()
            return True
        entry.chmod(0o700)
        for inner in list(entry.iterdir()):
            _bring_up(inner, numbers)
        entry.rmdir()
    except OSError:
        return False
    return True


def _bring_up(inner: Path, numbers: itertools.count[int]) -> None:
    if not _is_folder(inner):
        inner.unlink()
        return
    inner.chmod(0o700)
    beside = (inner.parents[1] / f".{number}-{os.getpid()}" for number in numbers)
    inner.rename(next(free for free in beside if not os.path.lexists(free)))


def _is_folder(path: Path) -> bool:
    return stat.S_ISDIR(path.lstat().st_mode)
