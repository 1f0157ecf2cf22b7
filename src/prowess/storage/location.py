"""Where a database is, told without opening it."""

from __future__ import annotations

from pathlib import Path

SQLITE = "sqlite:///"


def database_exists(url: str) -> bool:
    """Whether there is something to open: a SQLite file that was made, or a server that was named."""
    return not url.startswith(SQLITE) or Path(url.removeprefix(SQLITE)).exists()
