"""Undo forbidden writes: remove files that a program must not leave in a folder it may write to."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from prowess.errors import Refused
from prowess.sandbox import safe_files
from prowess.sandbox.folders import new_folder, remove_folder
from prowess.sandbox.roots import Root, write_refusal

MAX_ENTRIES = 50_000
"""The most files and folders in a folder that a program may write to."""
MAX_SCANNED = 100 * MAX_ENTRIES
"""The most that are checked after the run, from the top down: skills are not looked for far below."""

_Fingerprint = tuple[int, int, bool]
"""The inode, the time of the last change, and whether it is a folder."""


class WriteGuard:
    """Checks the writable folders of one run: created before the run, it looks again afterwards. Blocking.

    Raise `Refused` if a folder has too many entries to check, or contains a folder that may not be written to: changes in
    that could not be undone.
    """

    def __init__(self, roots: Sequence[Root]) -> None:
        self._roots = tuple(root for root in roots if root.writable)
        self._before = {root: self._first_look(root) for root in self._roots}

    def clear(self) -> list[str]:
        """Remove forbidden files that are new, rename those that were changed to `name.refused`, and return their paths."""
        cleared: list[str] = []
        for root, before in self._before.items():
            for path, mark in _find_forbidden(root, MAX_SCANNED, open_up=True):
                if before.get(path) != mark:  # the change time cannot be set back, unlike the modification time
                    cleared.append(f"{root.name}/{path.relative_to(root.path)}")
                    _quarantine(root, path.relative_to(root.path).parts, known=path in before)
        return sorted(cleared)

    def _first_look(self, root: Root) -> dict[Path, _Fingerprint]:
        before = dict(_find_forbidden(root, MAX_ENTRIES))
        folder = next((path for path, (_, _, is_folder) in before.items() if is_folder), None)
        if folder is not None:
            raise Refused(
                f"A program may not write to {root.name!r}, because it contains {folder.name!r}.",
                hint="List a folder under `roots` that contains no hidden folders and no skills.",
            )
        return before


def _find_forbidden(root: Root, most: int, *, open_up: bool = False) -> Iterator[tuple[Path, _Fingerprint]]:
    """Yield the entries of a folder that a program may not write; a forbidden folder as a whole."""
    # Breadth first, since skills are looked for near the top.
    waiting, seen = deque([root.path]), 0
    while waiting:
        folder = waiting.popleft()
        for entry in _list_entries(folder, open_up=open_up):
            seen += 1
            if seen > most:
                raise Refused(
                    f"The folder {root.name!r} contains more than {most:,} files and folders, which is the limit.",
                    hint="List a smaller folder under `roots`.",
                )
            path = Path(entry.path)
            is_folder = entry.is_dir(follow_symlinks=False)
            if write_refusal(root.names, path.relative_to(root.path).parts):
                with suppress(FileNotFoundError):
                    found = entry.stat(follow_symlinks=False)
                    yield path, (found.st_ino, found.st_ctime_ns, is_folder)
            elif is_folder:
                waiting.append(path)


def _list_entries(folder: Path, *, open_up: bool) -> list[os.DirEntry[str]]:
    """Return the entries of a folder; with `open_up`, also if its permissions were removed to hide them."""
    try:
        with os.scandir(folder) as listing:
            return list(listing)
    except PermissionError:
        if not open_up:
            return []
    except OSError:
        return []
    with suppress(OSError):
        # Only after the run: before it, permissions are as the user has set them.
        folder.chmod(0o700)
    return _list_entries(folder, open_up=False)


def _quarantine(root: Root, names: tuple[str, ...], *, known: bool) -> None:
    """Remove an entry, or rename it if it was `known`; folders on the way are opened one by one, and links not followed."""
    name = names[-1]
    # A changed file may be the user's work: it is kept, under a name that no tool reads. A new one is the program's.
    aside = f"{name.lstrip('.')}.refused" if known else f"{secrets.token_hex(8)}.refused"
    with (
        suppress(OSError),
        safe_files.open_root(str(root.path)) as top,
        safe_files.open_folder(top, names[:-1]) as parent,
    ):
        os.rename(name, aside, src_dir_fd=parent, dst_dir_fd=parent)
        if not known:
            _delete(parent, aside)


def _delete(parent: int, name: str) -> None:
    """Remove an entry of an open folder; a folder is first moved out of reach, if possible, so that it cannot change in the meantime."""
    if not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=parent)
        return
    bin_folder = new_folder()
    try:
        os.rename(name, bin_folder / name, src_dir_fd=parent)
    except OSError:  # as for another file system
        # Removed in place then. What is left of a tree that is too deep can at least not be entered.
        with suppress(RecursionError):
            shutil.rmtree(name, ignore_errors=True, dir_fd=parent)
        with suppress(FileNotFoundError):
            os.chmod(name, 0, dir_fd=parent)
    finally:
        remove_folder(bin_folder)
