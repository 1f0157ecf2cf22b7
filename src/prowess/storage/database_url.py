"""Inspect a database URL without opening the database or importing its driver."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

SQLITE_PREFIX = "sqlite:///"


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
