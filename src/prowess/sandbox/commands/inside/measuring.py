"""How large a folder has become that a foreign program has the run of."""

from __future__ import annotations

import os
import stat

MOST_ENTRIES = 20_000
"""So many files and folders are counted; more are too many."""


def size_of(folder: str, most: int) -> int:
    """How many bytes the files in the folder take on the disk together; `most` + 1 where it is more, or hidden."""
    total = count = 0
    pending = [folder]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    found = entry.stat(follow_symlinks=False)
                    total += found.st_blocks * 512
                    count += 1
                    if total > most or count > MOST_ENTRIES:
                        return most + 1
                    if stat.S_ISDIR(found.st_mode):
                        pending.append(entry.path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:
            return most + 1
    return total
