"""Detect changes in a folder of skills: each scan stats every file and reads only those that changed.

Where a scan takes long and the kernel gives notice of changes, a scan without a notice since the last one looks at nothing.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from prowess.catalog.discovery import sibling_roots
from prowess.catalog.folder_cache import FolderCache
from prowess.catalog.folder_index import DiskSkill, FolderIndex, read_disk_skill, scan_skill
from prowess.catalog.store import ChangeLog, Changes, Fault, ReadCache, fault_problem, unreadable
from prowess.errors import ProwessError, Unavailable
from prowess.lazy_dataclass import dataclass
from prowess.paths import real_path
from prowess.skill.filenames import SINGLE_FILE_SUFFIXES, has_marker, is_ignored, is_marker
from prowess.skill.limits import Limits
from prowess.skill.model import Scope
from prowess.skill.package import Package
from prowess.storage.files.freshness import Stamp, is_settled, make_stamp
from prowess.storage.files.skill_paths import TEMP_PREFIX, read_error

if TYPE_CHECKING:
    from prowess.storage.files.folder_notices import FolderNotices

MAX_DEPTH = 6
"""The maximum depth of a skill below the root: categories of categories."""
SLOW_SCAN_SECONDS = 0.01
"""A process asks the kernel for notices of changes if a scan takes longer: from about 1,000 skills on."""
SETTLED_PROCESS_SECONDS = 2.0
"""It does so only if it still scans after this time, as commands do not."""
FULL_SCAN_SECONDS = 30.0
"""Even without a notice, every file is looked at as often: a write through a memory map or a hard link gives none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderListing:
    """A folder that is not a skill itself: what it contains, as of its stamp."""

    stamp: Stamp
    settled: bool
    folders: tuple[str, ...]
    files: tuple[str, ...]
    faults: tuple[Fault, ...]


class FolderTree:
    """Everything below one root that is or might be a skill, kept in an index."""

    def __init__(
        self,
        root: Path,
        scope: Scope,
        limits: Limits,
        place: str | None = None,
        cache: FolderCache | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._root = str(root)
        self._scope: Scope = scope
        self._limits = limits
        self._listings: dict[str, FolderListing] = {}
        self.index = FolderIndex(str(real_path(root)) if place is None else place)
        self._change_log = ChangeLog()
        self._reported: dict[str, str] = {}
        self._cache = cache
        self._read_cache: ReadCache | None = None
        self._clock = clock
        self._first_scan: float | None = None
        self._notices: FolderNotices | None = None
        self._scan_until = float("-inf")
        """Until then, a scan without a notice need not look at the files."""

    def refresh(self, read_cache: ReadCache | None = None) -> None:
        """Bring the index up to date with the disk. Each skill that is parsed on the way is added to `read_cache`."""
        # The notices are read first: what changes during the scan is then noticed at the next one.
        now, quiet = self._clock(), self._notices is not None and self._notices.are_quiet()
        if quiet and now < self._scan_until:
            return
        began = time.thread_time()
        self._scan_until = float("-inf")
        self._scan_all(read_cache)
        if self._first_scan is None:
            self._first_scan = now
        is_slow = time.thread_time() - began >= SLOW_SCAN_SECONDS
        if (quiet or (is_slow and now - self._first_scan >= SETTLED_PROCESS_SECONDS)) and self._is_covered():
            self._scan_until = now + FULL_SCAN_SECONDS

    def _is_covered(self) -> bool:
        """Return True if the kernel gave notice of every change during the last scan and after it."""
        skills, listings = self.index.disk_skills.values(), self._listings.items()
        # What was not read completely is tried again at each scan.
        if not all(skill.settled for skill in skills) or not all(listing.settled for _, listing in listings):
            return False
        folders = {path: listing.stamp[3] for path, listing in listings}
        folders.update((path, stamp[3]) for skill in skills for path, stamp in skill.stamps if stat.S_ISDIR(stamp[4]))
        if self._notices is None:
            from prowess.storage.files.folder_notices import FolderNotices  # commands do not need it

            self._notices = FolderNotices(self._root)
        return self._notices.cover(folders)

    def _scan_all(self, read_cache: ReadCache | None) -> None:
        # Loaded once, before the first scan, and saved once after it. Little changes in the lifetime of a process, and the
        # next one reads only that again.
        cache, self._cache = self._cache, None
        for skill in cache.load() if cache else ():
            self.index.put(skill)
        seen: set[str] = set()
        listings: set[str] = set()
        self._read_cache = read_cache
        try:
            self._visit(self._root, MAX_DEPTH, seen, listings)
        finally:
            self._read_cache = None
        for location in self.index.disk_skills.keys() - seen:
            self.index.drop(location)
        for location in self._listings.keys() - listings:
            del self._listings[location]
        if cache is not None:
            cache.save(self.index.disk_skills.values())

    def changes(self, since: str, read_cache: ReadCache) -> Changes:
        """Refresh the index, and return the slugs whose files changed since a position."""
        self.refresh(read_cache)
        for slug in sorted(self.index.touched()):
            disk_skill = self.index.serving(slug)
            digest = disk_skill.digest if disk_skill else ""
            # A touched slug may still serve the same files, for instance if another copy of them was removed.
            if self._reported.get(slug, "") != digest:
                self._reported[slug] = digest
                self._change_log.note(slug)
        return self._change_log.since(since)

    def read(self, disk_skill: DiskSkill) -> tuple[DiskSkill, Package] | None:
        """Return the files of a skill, and the skill with its current stamps, or None if the files are not the known ones."""
        try:
            snapshot = read_disk_skill(
                disk_skill.location, self._root, self._limits, single_file=disk_skill.single_file
            )
        except ProwessError:
            return None
        if snapshot.package.digest != disk_skill.digest:
            return None
        if snapshot.stamps != disk_skill.stamps or snapshot.settled != disk_skill.settled:
            disk_skill = replace(disk_skill, stamps=snapshot.stamps, settled=snapshot.settled)
            self.index.put(disk_skill)
        return disk_skill, snapshot.package

    def is_reachable(self, disk_skill: DiskSkill) -> bool:
        """Return True if a full scan would find the skill where it is: the folders above it are unchanged."""
        # The stamps of a skill do not cover the folders above it. One of them may have become a skill itself, by a SKILL.md
        # that was added, and then contains this one.
        folder = disk_skill.location.rpartition("/")[0]
        while len(folder) >= len(self._root):
            listing = self._listings.get(folder)
            if listing is None or not listing.settled or self._stamp(folder) != listing.stamp:
                return False
            folder = folder.rpartition("/")[0]
        return True

    def rescan(self, location: str, *, single_file: bool) -> None:
        """Scan one location again, and drop it from the index if nothing is left."""
        if os.path.lexists(location):
            self._scan(location, single_file=single_file)
        else:
            self.index.drop(location)

    def scan_written(self, location: str) -> None:
        """Scan what was just written: a skill folder, a single file, or a folder with such a file."""
        if Path(location).is_file():
            self._scan(location, single_file=True)
        else:
            self._visit(location, 1, set(), set())

    def faults(self) -> list[Fault]:
        """Return the skills that are not served and why, by location."""
        links = [fault for listing in self._listings.values() for fault in listing.faults]
        return sorted([*self.index.faults(), *links], key=lambda fault: fault.location)

    def _visit(self, folder: str, depth: int, seen: set[str], listings: set[str]) -> None:
        disk_skill = self.index.disk_skills.get(folder)
        if disk_skill is not None and disk_skill.is_unchanged():
            seen.add(folder)
            return
        listing = self._examine(folder)
        if listing is None:
            self._listings.pop(folder, None)
            return
        if isinstance(listing, DiskSkill):
            seen.add(folder)
            return
        self.index.drop(folder)  # it was a skill until its SKILL.md was removed
        self._listings[folder] = listing
        listings.add(folder)
        for location in listing.files:
            known = self.index.disk_skills.get(location)
            if known is None or not known.is_unchanged():
                self._scan(location, single_file=True)
            seen.add(location)
        if depth:
            for location in listing.folders:
                self._visit(location, depth - 1, seen, listings)

    def _scan(self, location: str, *, single_file: bool) -> DiskSkill:
        known = self.index.disk_skills.get(location)
        on_read = self._read_cache.take if self._read_cache else None
        disk_skill = scan_skill(
            location, self._root, self._scope, self._limits, single_file=single_file, known=known, on_read=on_read
        )
        self.index.put(disk_skill)
        return disk_skill

    def _examine(self, folder: str) -> FolderListing | DiskSkill | None:
        """Return the listing of a folder, the skill if it is one, or None if it is gone."""
        known = self._listings.get(folder)
        try:
            if known is not None and known.settled and known.stamp == self._stamp(folder):
                return known
            # Names alone tell most skills. Reading one lists its folder again, without the danger of links.
            if self._is_skill(folder, os.listdir(folder)):  # noqa: PTH208  (for every skill, and faster than pathlib)
                return self._scan(folder, single_file=False)
            stamp, read_at, entries = self._list_folder(folder)
        except FileNotFoundError:
            return None
        except OSError as error:
            return self._unreadable_listing(folder, error)
        # Again, because this listing is what the stamp is for: a SKILL.md that was added since would not be found otherwise.
        if self._is_skill(folder, [entry.name for entry in entries]):
            return self._scan(folder, single_file=False)
        listed = [entry for entry in entries if not is_ignored(entry.name) and not entry.name.startswith(TEMP_PREFIX)]
        undecodable = [entry for entry in listed if not _is_text(entry.name)]
        listed = [entry for entry in listed if entry not in undecodable]
        return FolderListing(
            stamp=stamp,
            settled=is_settled(stamp, read_at),
            folders=tuple(entry.path for entry in listed if entry.is_dir(follow_symlinks=False)),
            files=tuple(entry.path for entry in listed if _may_be_skill(entry)),
            faults=(
                *(_invalid_name(entry.path) for entry in undecodable),
                *self._link_faults(entry.path for entry in listed if entry.is_symlink()),
            ),
        )

    def _is_skill(self, folder: str, names: Iterable[str]) -> bool:
        # A SKILL.md next to the skills does not turn the whole folder into one skill.
        return folder != self._root and has_marker(names)

    def _list_folder(self, folder: str) -> tuple[Stamp, int, list[os.DirEntry[str]]]:
        """List a folder, with its stamp and the time. Repeated if the folder was replaced in the meantime."""
        while True:
            # Held open, so that a folder that is put in its place cannot get the same inode number.
            # Not through a link, which would be another folder at each of these steps.
            link = 0 if folder == self._root else os.O_NOFOLLOW
            held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | link)
            try:
                # The stamp comes first: an entry that is added during the listing changes the folder's modification
                # time, so the next scan sees another stamp and lists again. The other way round it would be missed.
                stamp = make_stamp(os.fstat(held))
                read_at = time.time_ns()
                with os.scandir(folder) as listing:
                    entries = sorted(listing, key=lambda entry: entry.name)
                if os.path.samestat(self._status(folder), os.fstat(held)):
                    return stamp, read_at, entries
            finally:
                os.close(held)

    def _status(self, folder: str) -> os.stat_result:
        """Return the status of a folder. Only the root may be a link, and is followed."""
        return os.stat(folder) if folder == self._root else os.lstat(folder)  # noqa: PTH116  (at each look, and faster than pathlib)

    def _stamp(self, folder: str) -> Stamp | None:
        try:
            return make_stamp(self._status(folder))
        except OSError:
            return None

    def _unreadable_listing(self, folder: str, error: OSError) -> FolderListing:
        """Return the listing of an unreadable folder: empty, with a fault, and tried again at the next scan."""
        refusal = read_error(Path(folder), error)
        if folder == self._root:
            raise Unavailable(refusal.message, hint=refusal.hint)
        fault = Fault(location=folder, slug=folder.rpartition("/")[2], problems=(unreadable(refusal),))
        return FolderListing(stamp=(0, 0, 0, 0, 0), settled=False, folders=(), files=(), faults=(fault,))

    def _link_faults(self, links: Iterator[str]) -> Iterator[Fault]:
        """Yield a fault for each link that leads out of the skill folders. A link to another skill is an alias and skipped."""
        for link in links:
            target = real_path(link)
            if target.is_file() or (target.is_dir() and self._is_in_skill_folders(target)):
                continue
            where = f"to {str(target)!r}" if target.is_dir() else "nowhere"
            problem = fault_problem(
                "link-refused",
                f"{link!r} is a symbolic link that points {where}; links out of the skill folders are not followed.",
                "Move the skill into a skill folder, or run `prowess import` on it.",
            )
            yield Fault(location=link, slug=link.rpartition("/")[2], problems=(problem,))

    def _is_in_skill_folders(self, target: Path) -> bool:
        """Return True if a folder is in this skill folder, or in another one of the same base."""
        root = Path(self._root)
        return any(target.is_relative_to(real_path(home)) for home in (root, *sibling_roots(root)))


def _is_text(name: str) -> bool:
    """Return True if the bytes of a name are UTF-8."""
    # Python decodes other bytes of a file name as lone surrogates, which cannot be encoded as UTF-8.
    return name.isascii() or not any("\ud800" <= char <= "\udfff" for char in name)


def _invalid_name(path: str) -> Fault:
    location = path.encode(errors="backslashreplace").decode()
    problem = fault_problem("unreadable", f"The name {location!r} is not UTF-8 text.", "Rename it.")
    return Fault(location=location, slug="", problems=(problem,))


def _may_be_skill(entry: os.DirEntry[str]) -> bool:
    return (
        entry.name.endswith(SINGLE_FILE_SUFFIXES) and not is_marker(entry.name) and entry.is_file(follow_symlinks=False)
    )
