"""Detect from metadata alone whether files, folders or a database file have changed since they were read.

A stamp covers one file or folder; a fingerprint covers whole trees. Making a fingerprint walks the folder; checking it
takes one `lstat` per file and folder, and no listing. Imports nothing slow and opens no file.
"""

from __future__ import annotations

import os
import stat
import time
from array import array
from collections.abc import Iterable, Sequence

from prowess.lazy_dataclass import dataclass
from prowess.skill.filenames import IGNORED_NAMES
from prowess.storage.files.skill_paths import MAX_ENTRIES, TEMP_PREFIX

Stamp = tuple[int, int, int, int, int]
"""Modification and change time in nanoseconds, size, inode and mode."""

_SECOND_NS = 1_000_000_000
# Linux stamps files with the time of its last timer tick, which is up to 10 ms ago; this leaves a margin.
_FINE_TICK_NS = _SECOND_NS // 10
COARSE_TICK_NS = 2 * _SECOND_NS
"""The coarsest clock tick of a file system (FAT counts in two seconds)."""


def make_stamp(status: os.stat_result) -> Stamp:
    """Return the stamp of a file or folder."""
    return (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino, status.st_mode)


def is_settled(stamp: Stamp, read_at: int) -> bool:
    """Return True if any change after `read_at` (in nanoseconds) must show in the stamp.

    A file that changed just before it was read could change again within the same clock tick of the file system and keep
    its stamp, so it must be read again next time. The change time decides, because programs can set the modification
    time. A time without a fraction comes from a file system that counts in whole seconds, or two.
    """
    changed = stamp[1]
    tick = _FINE_TICK_NS if changed % _SECOND_NS else COARSE_TICK_NS
    return changed < read_at - tick


def stamps_match(stamps: Iterable[tuple[str, Stamp]]) -> bool:
    """Return True if every path still has its stamp."""
    try:
        for location, stamp in stamps:
            now = os.lstat(location)
            # Inlined `make_stamp`: this line runs for every file of every skill at every look.
            if (now.st_mtime_ns, now.st_ctime_ns, now.st_size, now.st_ino, now.st_mode) != stamp:
                return False
    except OSError:
        return False
    return True


# strings, as in safe_read.py: this runs once for every file of every skill at every start
# ruff: noqa: PTH116


_NUMBERS_PER_PATH = 4


def fingerprint_folders(roots: Iterable[str]) -> bytes:
    """Return a fingerprint of these folders and everything below; b'' if a later change could go unnoticed.

    The folders themselves may be links. Links below them are recorded and not followed, because skills are not read
    through links either.
    """
    trace = _Fingerprint()
    folders = [f"{root}{_ROOT_MARK}" for root in roots]  # the dot makes lstat follow a link
    try:
        while folders:
            folders += trace.folder(folders.pop())
            if not trace.settled or len(trace.places) > MAX_ENTRIES:
                return b""
    except (OSError, OverflowError):  # the latter for an inode that does not fit into 63 bits
        return b""
    text = "\0".join(trace.places).encode(errors="surrogateescape")
    return b"%d:%b%b" % (len(text), text, trace.figures.tobytes())


class _Fingerprint:
    """The paths that a walk has seen so far, and four numbers for each."""

    def __init__(self) -> None:
        self.places: list[str] = []
        self.figures = array("q")
        self.settled = True
        self._began = time.time_ns()
        self._recent = self._began - COARSE_TICK_NS

    def folder(self, folder: str) -> list[str]:
        """Record a folder and its files; return its subfolders."""
        # Stat the folder before listing it: what is added after the listing then shows in its times.
        self._note(folder, os.lstat(folder))
        folders: list[str] = []
        try:
            listing = os.scandir(folder)
        except PermissionError:
            return folders  # no skill is read from it either, and a change of its mode shows
        with listing:
            for entry in listing:
                if entry.name in IGNORED_NAMES or entry.name.endswith(".pyc") or entry.name.startswith(TEMP_PREFIX):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    self._note(entry.path, entry.stat(follow_symlinks=False))
        return folders

    def _note(self, path: str, now: os.stat_result) -> None:
        self.places.append(path)
        # Without the mode, because changing that changes the change time.
        self.figures.extend((now.st_mtime_ns, now.st_ctime_ns, now.st_size, now.st_ino))
        self.check_settled(now)

    def check_settled(self, now: os.stat_result) -> None:
        """Record that a file could change again and keep its stamp."""
        # The first comparison is cheap and true for few files.
        if now.st_ctime_ns >= self._recent and not is_settled(make_stamp(now), self._began):
            self.settled = False


def first_difference(trace: bytes) -> int | None:
    """Return the number of paths before the first one that has changed, or None if nothing has; 0 if it is malformed."""
    parsed = _parse(trace)
    if parsed is None:
        return 0
    places, figures = parsed
    four = iter(figures)
    lstat = os.lstat
    count = 0
    try:
        # Inlined: this runs for every file of every skill at every start.
        for path, written, changed, length, inode in zip(places, four, four, four, four, strict=True):
            now = lstat(path)
            if now.st_ctime_ns != changed or now.st_mtime_ns != written or now.st_size != length or now.st_ino != inode:
                return count
            count += 1
    except (OSError, ValueError):
        return count
    return None


MAX_FEW_CHANGES = 256
"""If more files and folders have changed, checking each is not worthwhile."""
_ROOT_MARK = "/."


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeChanges:
    """The differences from a fingerprint. Paths are given as root and path below it, '' for the root itself."""

    changed: frozenset[tuple[str, str]]
    """Files and folders that have changed or are gone."""
    added: frozenset[tuple[str, str]]
    before: tuple[str, ...]
    """Every path that the old fingerprint has."""
    fingerprint: bytes
    """The fingerprint now; b'' if a later change could go unnoticed, so that the old one must be kept."""


def fingerprint_changes(trace: bytes, start: int = 0) -> TreeChanges | None:
    """Return the changes since a fingerprint was made, with one `lstat` per path; None if there are too many, or they are unknown.

    Only folders that have changed are listed. The paths before `start` were just found to be unchanged.
    """
    parsed = _parse(trace)
    if parsed is None:
        return None
    places, figures = parsed
    try:
        found = _Differences(places, figures, start)
    except (OSError, OverflowError):
        return None
    if found.overflow:
        return None
    indexes = [index for index in range(len(places)) if index not in found.gone]
    new = found.new
    text = "\0".join([*(places[place] for place in indexes), *new.places]).encode(errors="surrogateescape")
    if found.gone:
        rows = [figures[_NUMBERS_PER_PATH * place : _NUMBERS_PER_PATH * (place + 1)] for place in indexes]
        figures = array("q", b"".join([row.tobytes() for row in rows]))
    return TreeChanges(
        changed=frozenset(map(_split_root, [places[place] for place in (*found.changed, *found.gone)])),
        added=frozenset(map(_split_root, new.places)),
        before=tuple([place.replace(f"{_ROOT_MARK}/", "/", 1) for place in places]),
        fingerprint=b"%d:%b%b" % (len(text), text, figures.tobytes() + new.figures.tobytes()) if new.settled else b"",
    )


class _Differences:
    """The paths of a fingerprint that are different now; `figures` is updated in place."""

    def __init__(self, places: Sequence[str], figures: array[int], start: int) -> None:
        self.changed: list[int] = []
        self.gone: set[int] = set()
        self.new = _Fingerprint()
        """New paths that did not exist before."""
        folders: list[str] = []
        four = iter(figures[_NUMBERS_PER_PATH * start :].tolist())
        lstat = os.lstat
        for number, (path, written, changed, length, inode) in enumerate(
            zip(places[start:], four, four, four, four, strict=True), start
        ):
            try:
                now = lstat(path)
            except (FileNotFoundError, NotADirectoryError):
                self.gone.add(number)
                continue
            # Inlined, as in `first_difference`.
            if now.st_ctime_ns != changed or now.st_mtime_ns != written or now.st_size != length or now.st_ino != inode:
                self.changed.append(number)
                first = _NUMBERS_PER_PATH * number
                figures[first : first + _NUMBERS_PER_PATH] = array(
                    "q", (now.st_mtime_ns, now.st_ctime_ns, now.st_size, now.st_ino)
                )
                self.new.check_settled(now)
                if stat.S_ISDIR(now.st_mode):
                    folders.append(path)
                if self.overflow:
                    return
        self._list(folders, set(places) if folders else set())

    @property
    def overflow(self) -> bool:
        """True if there are too many."""
        return len(self.changed) + len(self.gone) + len(self.new.places) > MAX_FEW_CHANGES

    def _list(self, folders: list[str], known: set[str]) -> None:
        while folders and not self.overflow:
            listed = _Fingerprint()
            # A folder instead of a file, or the other way round, has another inode and is in `changed`.
            folders += [inner for inner in listed.folder(folders.pop()) if inner not in known]
            for number, path in enumerate(listed.places):
                if path not in known:
                    known.add(path)
                    self.new.places.append(path)
                    self.new.figures.extend(
                        listed.figures[_NUMBERS_PER_PATH * number : _NUMBERS_PER_PATH * (number + 1)]
                    )
            self.new.settled = self.new.settled and listed.settled


def _split_root(entry: str) -> tuple[str, str]:
    root, _, path = entry.partition(f"{_ROOT_MARK}/")
    return (root, path) if path else (entry.removesuffix(_ROOT_MARK), "")


def _parse(trace: bytes) -> tuple[list[str], array[int]] | None:
    """Return the paths of a fingerprint and four numbers for each, or None if it is malformed."""
    size, _, rest = trace.partition(b":")
    if not size.isdigit():
        return None
    end = int(size)
    places = rest[:end].decode(errors="surrogateescape").split("\0") if end else []
    figures = array("q")
    if (len(rest) - end) != len(places) * _NUMBERS_PER_PATH * figures.itemsize:
        return None
    figures.frombytes(rest[end:])
    return places, figures


def fingerprint_sqlite(path: str) -> str:
    """Return a fingerprint of a SQLite file and its write-ahead log; '' if a later change could go unnoticed.

    An unchanged fingerprint means that nothing was written in between. Opening the file for reading creates an empty log
    and may remove it again, so a missing log and an empty one are the same.
    """
    began = time.time_ns()
    path = os.path.realpath(path)  # SQLite keeps the log next to the file itself, not next to a link to it
    try:
        stamps = [make_stamp(os.stat(path))]
        log = _stat_wal(path)
    except OSError:
        return ""
    stamps += [make_stamp(log)] if log is not None and log.st_size else []
    if not all(is_settled(stamp, began) for stamp in stamps):
        return ""
    return ";".join(",".join(map(str, stamp)) for stamp in stamps)


def _stat_wal(path: str) -> os.stat_result | None:
    try:
        return os.stat(path + "-wal")
    except FileNotFoundError:
        return None
