"""Open an existing SQLite file by its path, and refuse what is not a file, without SQLAlchemy."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from prowess.errors import Unavailable

if TYPE_CHECKING:
    import sqlite3

_SIDE_FILES = ("", "-journal", "-wal", "-shm")


def check_sqlite_file(path: str) -> None:
    """Raise `Unavailable` if a pipe, a socket or a device is in the place of a database or of a file beside it.

    SQLite opens all of them, and opening or reading a pipe waits until somebody writes to it.
    """
    path = os.path.realpath(path)  # SQLite looks for its side files beside the file itself, not beside a link to it
    for suffix in _SIDE_FILES:
        try:
            mode = os.stat(path + suffix).st_mode  # noqa: PTH116  (no `Path` for every connection)
        except (OSError, ValueError):
            continue
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise Unavailable(
                f"{path + suffix!r} is a pipe or a device, not a file of a database.",
                hint="Remove it, then try again.",
            )


def connect_existing(path: str, *, mode: str = "ro", **options: Any) -> sqlite3.Connection:
    """Return a connection to an existing file, by default for reading only."""
    import sqlite3  # only where a database is read

    check_sqlite_file(path)
    return sqlite3.connect(f"file:{quote(path)}?mode={mode}", uri=True, **options)
