"""Where the temporary files of tests are: in memory where there is room, since tests wait for a disk more than for all else."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

MEMORY = Path("/dev/shm")
NEEDED_BYTES = 6 << 30
"""Twice what the files of all tests take at the end."""

KEPT = "PROWESS_TEST_KEPT"
"""The variable that names the folder for what one run leaves to the next."""


def use_memory() -> Callable[[], None]:
    """Put temporary files of this process and its children into memory. Return a function that removes them all.

    With TMPDIR, or without a large folder in memory, they stay where they are. Each run has a folder of its own, named after
    its process, so that the next one can remove what a killed one has left.
    """
    os.environ.setdefault(KEPT, tempfile.gettempdir())
    if "TMPDIR" in os.environ or not _has_room():
        return lambda: None
    folder = MEMORY / f"prowess-{os.getpid()}"
    for left in MEMORY.glob("prowess-[0-9]*"):
        if left == folder or not _is_running(int(left.name.rpartition("-")[2])):
            shutil.rmtree(left, ignore_errors=True)
    folder.mkdir()
    folder.chmod(0o711)  # PostgreSQL has a user of its own, which must get to its folder
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)

    def remove() -> None:
        os.environ.pop("TMPDIR", None)
        tempfile.tempdir = None
        shutil.rmtree(folder, ignore_errors=True)

    return remove


def kept_folder() -> Path:
    """Return the folder for what one run leaves to the next."""
    return Path(os.environ.get(KEPT, tempfile.gettempdir()))


def _has_room() -> bool:
    """Return True if there is a folder in memory that has room, and memory for what is put there."""
    try:
        free = shutil.disk_usage(MEMORY).free
        available = re.search(r"^MemAvailable: *(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    except OSError:
        return False
    room = min(free, int(available[1]) << 10) if available else 0
    return os.access(MEMORY, os.W_OK) and room >= NEEDED_BYTES


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
