"""Inspect a database URL, and open an existing SQLite file, without SQLAlchemy."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from prowess.errors import Unavailable

if TYPE_CHECKING:
    import sqlite3

SQLITE_PREFIX = "sqlite:///"
_SIDE_FILES = ("", "-journal", "-wal", "-shm")


def sqlite_path(url: str) -> str:
    """Return the path of a SQLite file, exactly as in the URL; '' for other databases."""
    return url.removeprefix(SQLITE_PREFIX) if url.startswith(SQLITE_PREFIX) else ""


def database_exists(url: str) -> bool:
    """Return True if the database can be opened: an existing SQLite file, or any server."""
    if not url.startswith(SQLITE_PREFIX):
        return True
    # Asked several times in every run: `os.stat` costs a quarter of `Path.exists`.
    try:
        os.stat(sqlite_path(url))  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError:
        return True  # it exists but cannot be checked; opening it will say why
    return True


def display_url(url: str) -> str:
    """Return the URL to show to people: the path of a SQLite file, or a server without user and password."""
    if url.startswith(SQLITE_PREFIX):
        return sqlite_path(url)
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "the database of PROWESS_DATABASE_URL"
    return f"{parts.scheme}://{host}{port}{parts.path}" if parts.scheme else "the database of PROWESS_DATABASE_URL"


def check_sqlite_file(path: str) -> None:
    """Raise `Unavailable` if a pipe, a socket or a device is in the place of a database or of a file next to it.

    SQLite opens all of them, and opening or reading a pipe waits until someone writes to it.
    """
    path = os.path.realpath(path)  # SQLite looks for its side files next to the file itself, not next to a link to it
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
