"""Inspect a database URL without opening the database or importing its driver."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

SQLITE_PREFIX = "sqlite:///"


def sqlite_path(url: str) -> str:
    """The path of a SQLite file, exactly as the URL has it; '' for other databases."""
    return url.removeprefix(SQLITE_PREFIX) if url.startswith(SQLITE_PREFIX) else ""


def database_exists(url: str) -> bool:
    """Whether there is something to open: a SQLite file that was made, or a server that was named."""
    if not url.startswith(SQLITE_PREFIX):
        return True
    # Asked several times in every run: `os.stat` costs a quarter of `Path.exists`.
    try:
        os.stat(sqlite_path(url))  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError:
        return True  # there is something; opening it will say what is wrong
    return True


def display_url(url: str) -> str:
    """The URL for people: a SQLite file by its path, anything else without user and password."""
    if url.startswith(SQLITE_PREFIX):
        return sqlite_path(url)
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "the database of PROWESS_DATABASE_URL"
    return f"{parts.scheme}://{host}{port}{parts.path}" if parts.scheme else "the database of PROWESS_DATABASE_URL"
