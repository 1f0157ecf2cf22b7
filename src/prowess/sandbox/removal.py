"""Remove a folder that foreign code could write to, whatever it contains. Standard library only."""

from __future__ import annotations

import itertools
import os
import stat
from contextlib import suppress
from pathlib import Path


def remove_tree(folder: Path) -> None:
    """Remove a folder that is no longer in use, whatever is in it, without following links.

    Paths never go deeper than two names below the folder: a hostile tree can be deeper than a path may be long, or than a
    recursion can go. Inner folders are moved up before their parent is removed.
    """
    numbers = itertools.count()
    while True:
        try:
            folder.chmod(0o700)
            entries = list(folder.iterdir())
        except OSError:
            break
        # Each round removes one level: the folders that were below it are now at the top.
        removed = [_remove_entry(entry, numbers) for entry in entries]
        if not any(removed):
            break  # what is left cannot be removed, for instance a mount point
    with suppress(OSError):
        folder.rmdir()


def _remove_entry(entry: Path, numbers: itertools.count[int]) -> bool:
    """Remove an entry, after moving the folders in it up next to it; return True if that worked."""
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
    # A hostile tree may already contain such names.
    beside = (inner.parents[1] / f".{number}-{os.getpid()}" for number in numbers)
    inner.rename(next(free for free in beside if not os.path.lexists(free)))


def _is_folder(path: Path) -> bool:
    return stat.S_ISDIR(path.lstat().st_mode)
