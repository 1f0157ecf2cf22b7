"""Write the files of caches, which may be lost at any time."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def write_cache(path: Path, text: str) -> None:
    """Write a cache file, creating its folder. A disk that is full or read-only is not an error."""
    # Another process may be saving too. Each writes its own file and puts it in place in one step.
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        try:
            temporary.write_text(text)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            temporary.write_text(text)
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
