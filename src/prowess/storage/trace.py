"""Traces: what stands in folders and in a database file, written down so that it can be held against the disk later.

Making the trace of a folder takes a walk; checking it takes one look at each folder and file, and no listing. Nothing that
takes long is imported, and no file is opened.
"""

# strings, as in reading.py: this runs once for every file of every skill at every start
# ruff: noqa: PTH116
from __future__ import annotations

import os
import time
from array import array
from collections.abc import Iterable

from prowess.skill.borders import SKIPPED
from prowess.storage.finding import ENTRIES, PREFIX
from prowess.storage.stamps import COARSE, is_settled, stamp_of

_FIGURES = 4


def trace_folders(roots: Iterable[str]) -> bytes:
    """What stands in these folders and below; b'' where a later change could go unseen.

    The folders themselves may be links. Below them links are noted and not followed, as skills are not read through
    them.
    """
    trace = _Trace()
    folders = [f"{root}/." for root in roots]  # with the dot, a link is looked through
    try:
        while folders:
            folders += trace.folder(folders.pop())
            if not trace.settled or len(trace.places) > ENTRIES:
                return b""
    except (OSError, OverflowError):
        return b""
    text = "\0".join(trace.places).encode(errors="surrogateescape")
    return b"%d:%b%b" % (len(text), text, trace.figures.tobytes())


class _Trace:
    """What a walk has seen so far: places, and four figures of each."""

    def __init__(self) -> None:
        self.places: list[str] = []
        self.figures = array("q")
        self.settled = True
        self._began = time.time_ns()
        self._recent = self._began - COARSE

    def folder(self, folder: str) -> list[str]:
        """Note a folder and the files in it; the folders in it are given back."""
        # The folder's own figures come first: what is added to it after the listing then shows in them.
        self._note(folder, os.lstat(folder))
        folders: list[str] = []
        try:
            listing = os.scandir(folder)
        except PermissionError:
            return folders  # no skill is read from it either, until a change of its mode, which shows
        with listing:
            for entry in listing:
                if entry.name in SKIPPED or entry.name.endswith(".pyc") or entry.name.startswith(PREFIX):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    self._note(entry.path, entry.stat(follow_symlinks=False))
        return folders

    def _note(self, place: str, now: os.stat_result) -> None:
        self.places.append(place)
        self.figures.extend((now.st_mtime_ns, now.st_ctime_ns, now.st_size, now.st_ino))
        if now.st_ctime_ns >= self._recent and not is_settled(stamp_of(now), self._began):
            self.settled = False


def trace_holds(trace: bytes) -> bool:
    """Whether everything is as it was traced; no trace, or what is none, never holds."""
    size, _, rest = trace.partition(b":")
    if not size.isdigit():
        return False
    end = int(size)
    places = rest[:end].decode(errors="surrogateescape").split("\0") if end else []
    figures = array("q")
    if (len(rest) - end) != len(places) * _FIGURES * figures.itemsize:
        return False
    figures.frombytes(rest[end:])
    four = iter(figures)
    lstat = os.lstat
    try:
        # Written out: this runs once for every file of every skill at every start.
        for place, written, changed, length, inode in zip(places, four, four, four, four, strict=True):
            now = lstat(place)
            if now.st_ctime_ns != changed or now.st_mtime_ns != written or now.st_size != length or now.st_ino != inode:
                return False
    except (OSError, ValueError):
        return False
    return True


def trace_sqlite(path: str) -> str:
    """What a SQLite file and its write-ahead log are by now; '' where a later change could go unseen.

    The same text as before means that nothing was written in between. Whoever opens the file to read makes an empty log and
    may remove it again, so none and an empty one are the same.
    """
    began = time.time_ns()
    path = os.path.realpath(path)  # SQLite keeps the log beside the file itself, not beside a link to it
    try:
        stamps = [stamp_of(os.stat(path))]
        log = _log_of(path)
    except OSError:
        return ""
    stamps += [stamp_of(log)] if log is not None and log.st_size else []
    if not all(is_settled(stamp, began) for stamp in stamps):
        return ""
    return ";".join(",".join(map(str, stamp)) for stamp in stamps)


def _log_of(path: str) -> os.stat_result | None:
    try:
        return os.stat(path + "-wal")
    except FileNotFoundError:
        return None
