"""Paths as people and programs give them: `~` expanded and links resolved, without an exception for odd ones."""

from __future__ import annotations

import os
from pathlib import Path


def expand_user(path: str | Path) -> Path:
    """Return a path with `~` and `~name` expanded. A user who does not exist is left as written, as in a shell."""
    return Path(os.path.expanduser(path))  # noqa: PTH111  (`Path.expanduser` raises a RuntimeError)


def real_path(path: str | Path) -> Path:
    """Return a path with all links resolved as far as it exists. Links in a circle are left as they are."""
    return Path(os.path.realpath(path))  # before Python 3.13, `Path.resolve` raises a RuntimeError for a circle
