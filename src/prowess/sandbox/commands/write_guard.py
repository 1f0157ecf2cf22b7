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
"""A folder that a program may write to holds no more files and folders than that."""
MAX_SCANNED = 100 * MAX_ENTRIES
"""After the run so many are looked at, from the top down, since skills are not looked for far below."""

_Fingerprint = tuple[int, int, bool]
"""Which file it is, when anything about it was last changed, and whether it is a folder."""


class WriteGuard:
    """The folders of one run of a program. It is made before the run, and looks once more when that has ended. Blocking.

    `Refused` where a folder holds so much that it cannot be looked through, or a folder that may not be written to: whether a
    program has changed anything in that could not be undone.
    """

    def __init__(self, roots: Sequence[Root]) -> None:
        self._roots = tuple(root for root in roots if root.writable)
        self._before = {root: self._first_look(root) for root in self._roots}

    def clear(self) -> list[str]:
        """Remove what was planted since; what was there and has been changed is put aside, as `name.refused`. Their paths."""
        cleared: list[str] = []
        for root, before in self._before.items():
            for path, mark in _find_forbidden(root, MAX_SCANNED, open_up=True):
                if before.get(path) != mark:
                    cleared.append(f"{root.name}/{path.relative_to(root.path)}")
                    _quarantine(root, path.relative_to(root.path).parts, known=path in before)
        return sorted(cleared)

    def _first_look(self, root: Root) -> dict[Path, _Fingerprint]:
        before = dict(_find_forbidden(root, MAX_ENTRIES))
        folder = next((path for path, (_, _, is_folder) in before.items() if is_folder), None)
        if folder is not None:
            raise Refused(
                f"A program may not write to {root.name!r}, since {folder.name!r} is in it.",
                hint="Name a folder in `roots` that holds no hidden folder and no skills.",
            )
        return before


def _find_forbidden(root: Root, most: int, *, open_up: bool = False) -> Iterator[tuple[Path, _Fingerprint]]:
    """Whatever in a folder nobody may have written: such folders as a whole, and such files."""
    waiting, seen = deque([root.path]), 0
    while waiting:
        folder = waiting.popleft()
        for entry in _list_entries(folder, open_up=open_up):
            seen += 1
            if seen > most:
                raise Refused(
                    f"The folder {root.name!r} holds more than {most:,} files and folders.",
                    hint="Name a smaller folder in `roots`.",
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
    """What a folder holds; with `open_up`, also where its permissions were taken away to hide that."""
    try:
        with os.scandir(folder) as listing:
            return list(listing)
    except PermissionError:
        if not open_up:
            return []
    except OSError:
        return []
    with suppress(OSError):
        folder.chmod(0o700)
    return _list_entries(folder, open_up=False)


def _quarantine(root: Root, names: tuple[str, ...], *, known: bool) -> None:
    """Remove what is at these names, or put it aside where it was known; every folder on the way is opened, and no link followed."""
    name = names[-1]
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
    """Remove what is in an open folder: where nobody else reaches it, if that is possible."""
    if not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
        os.unlink(name, dir_fd=parent)
        return
    bin_folder = new_folder()
    try:
        os.rename(name, bin_folder / name, src_dir_fd=parent)
    except OSError:  # as for another file system
        with suppress(RecursionError):
            shutil.rmtree(name, ignore_errors=True, dir_fd=parent)
        with suppress(FileNotFoundError):
            os.chmod(name, 0, dir_fd=parent)
    finally:
        remove_folder(bin_folder)
