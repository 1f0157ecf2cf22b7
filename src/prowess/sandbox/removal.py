"""Remove a folder that foreign code could write to, whatever it contains. Standard library only."""

from __future__ import annotations

import itertools
import os
import stat
from contextlib import suppress
from pathlib import Path


def remove_tree(folder: Path) -> None:
    """Remove a folder that nothing works in any more, whatever lies in it; without following links.

    No path that is used is longer than two names below the folder, so that neither deep trees nor long names can stop it.
    """
    numbers = itertools.count()
    while True:
        try:
            folder.chmod(0o700)
            entries = list(folder.iterdir())
        except OSError:
            break
        removed = [_remove_entry(entry, numbers) for entry in entries]
        if not any(removed):
            break
    with suppress(OSError):
        folder.rmdir()


def _remove_entry(entry: Path, numbers: itertools.count[int]) -> bool:
    """Whether an entry was removed; folders that it had in it come to lie beside it."""
    try:
        if not _is_folder(entry):
            entry.unlink()
            return True
        entry.chmod(0o700)
        for inner in list(entry.iterdir()):
            _move_up(inner, numbers)
        entry.rmdir()
    except OSError:
        return False
    return True


def _move_up(inner: Path, numbers: itertools.count[int]) -> None:
    if not _is_folder(inner):
        inner.unlink()
        return
    inner.chmod(0o700)
    beside = (inner.parents[1] / f".{number}-{os.getpid()}" for number in numbers)
    inner.rename(next(free for free in beside if not os.path.lexists(free)))


def _is_folder(path: Path) -> bool:
    return stat.S_ISDIR(path.lstat().st_mode)
