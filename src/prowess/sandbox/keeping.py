"""A folder of one's own for what is run later: nobody else can have put anything into it."""

from __future__ import annotations

import os
from pathlib import Path

from prowess.errors import Refused, Unavailable


def private_folder(path: Path, what: str) -> Path:
    """The folder, made where it is missing; `Refused` where it is not ours alone, `Unavailable` where it cannot be had.

    `what` is kept in it, and begins the sentence that says so: "The sandbox", "Packages".
    """
    folder = path.absolute()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.stat()
    except OSError as error:
        raise unkept(folder, what, error) from error
    if found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise Refused(
            f"The folder {str(folder)!r} can be written by others, and what lies in it is run.",
            hint=f"Remove it, or make it yours alone: chmod 700 {str(folder)!r}",
        )
    return folder


def unkept(folder: Path, what: str, error: OSError) -> Unavailable:
    """That nothing can be kept there, and why."""
    return Unavailable(
        f"{what} cannot be kept in {str(folder)!r}: {error.strerror or error}.",
        hint="Check the permissions there and the space on the disk.",
    )
