"""The markdown files of a folder, as they are now: read once, and again when they change.

Links are not followed, and what is hidden, or lies where tools keep their own, is passed by.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from prowess.errors import Invalid, NotFound
from prowess.skill.limits import MIB
from prowess.storage.finding import DEPTH, PASSED_BY
from prowess.storage.reading import open_folder, read_regular
from prowess.storage.stamps import Stamp, is_settled, stamp_of
from prowess.workspace.page import Page, read_page


@dataclass(frozen=True, slots=True, kw_only=True)
class PageLimits:
    """How much of a folder is read."""

    page_bytes: int = MIB
    pages: int = 20_000
    total_bytes: int = 128 * MIB
    entries: int = 200_000
    depth: int = DEPTH


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A file that could not be read, and why."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class _Kept:
    page: Page
    stamp: Stamp
    settled: bool


@dataclass(slots=True)
class _Look:
    """One look at the folder."""

    kept: dict[str, _Kept] = field(default_factory=dict[str, _Kept])
    skipped: list[Skipped] = field(default_factory=list[Skipped])
    entries: int = 0
    total: int = 0


class Folder:
    """Gives the pages of a folder, sorted by path. Not for several threads at once."""

    def __init__(self, root: Path, limits: PageLimits) -> None:
        self._root = os.path.realpath(root)
        self._limits = limits
        self._last = _Look()

    @property
    def root(self) -> str:
        """Where it is."""
        return self._root

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        """What the last look could not read."""
        return tuple(self._last.skipped)

    def look(self) -> tuple[list[Page], bool]:
        """The pages, and whether any of them is another than at the last look. `NotFound` where there is no folder."""
        if not Path(self._root).is_dir():
            raise NotFound(f"There is no folder {self._root!r}.", hint="Name the folder that holds the pages.")
        before, now = self._last, _Look()
        for place, entry in self._files("", now, self._limits.depth):
            self._take(place, entry, before, now)
        self._last = now
        same = before.kept.keys() == now.kept.keys() and all(
            before.kept[path].page is kept.page for path, kept in now.kept.items()
        )
        return [now.kept[path].page for path in sorted(now.kept)], not same

    def _files(self, inside: str, look: _Look, depth: int) -> Iterator[tuple[str, os.DirEntry[str]]]:
        try:
            with os.scandir(f"{self._root}/{inside}") as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as error:
            look.skipped.append(Skipped(path=_shown(inside), reason=error.strerror or "It cannot be read."))
            return
        look.entries += len(entries)
        if look.entries > self._limits.entries:
            look.skipped.append(Skipped(path=_shown(inside), reason="There are too many files and folders."))
            return
        for entry in entries:
            if entry.name.startswith(".") or entry.name in PASSED_BY:
                continue
            place = f"{inside}/{entry.name}" if inside else entry.name
            if entry.is_dir(follow_symlinks=False):
                if depth:
                    yield from self._files(place, look, depth - 1)
            elif entry.name.lower().endswith(".md"):
                yield place, entry

    def _take(self, place: str, entry: os.DirEntry[str], before: _Look, now: _Look) -> None:
        """Keep one page: the one that is known where the file is still the same."""
        try:
            stamp = stamp_of(entry.stat(follow_symlinks=False))
            now.total += stamp[2]
            self._check_room(stamp[2], now)
            now.kept[place] = self._current(place, stamp, before.kept.get(place))
        except OSError as error:
            now.skipped.append(Skipped(path=_shown(place), reason=error.strerror or "It cannot be read."))
        except (Invalid, UnicodeError) as error:
            reason = error.message if isinstance(error, Invalid) else "Its name is not text."
            now.skipped.append(Skipped(path=_shown(place), reason=reason))

    def _current(self, place: str, stamp: Stamp, known: _Kept | None) -> _Kept:
        if known and known.settled and known.stamp == stamp:
            return known
        read = self._read(place, stamp)
        return replace(read, page=known.page) if known and known.page == read.page else read

    def _check_room(self, size: int, now: _Look) -> None:
        limits = self._limits
        if size > limits.page_bytes:
            raise Invalid(f"It has more than {limits.page_bytes:,} bytes.")
        if len(now.kept) >= limits.pages or now.total > limits.total_bytes:
            raise Invalid(f"No more than {limits.pages:,} pages and {limits.total_bytes:,} bytes are read.")

    def _read(self, place: str, stamp: Stamp) -> _Kept:
        place.encode()
        inside, _, name = place.rpartition("/")
        began = time.time_ns()
        folder = open_folder(f"{self._root}/{inside}" if inside else self._root, self._root)
        try:
            data = read_regular(name, self._limits.page_bytes + 1, folder)
        finally:
            os.close(folder)
        if len(data) > self._limits.page_bytes:
            raise Invalid(f"It has more than {self._limits.page_bytes:,} bytes.")
        return _Kept(read_page(place, data), stamp, is_settled(stamp, began))


def _shown(place: str) -> str:
    return place.encode("utf-8", "replace").decode() or "."
