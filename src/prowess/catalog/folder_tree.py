"""Detect changes in a folder of skills without a watcher: each scan stats every file and reads only those that changed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from prowess.catalog.discovery import sibling_roots
from prowess.catalog.folder_cache import FolderCache
from prowess.catalog.folder_index import DiskSkill, FolderIndex, read_disk_skill, scan_skill
from prowess.catalog.store import ChangeLog, Changes, Fault, ReadCache, fault_problem, unreadable
from prowess.errors import ProwessError, Unavailable
from prowess.skill.filenames import SINGLE_FILE_SUFFIXES, has_marker, is_ignored, is_marker
from prowess.skill.limits import Limits
from prowess.skill.model import Scope
from prowess.skill.package import Package
from prowess.storage.files.freshness import Stamp, is_settled, make_stamp
from prowess.storage.files.skill_paths import TEMP_PREFIX, read_error

MAX_DEPTH = 6
"""How many folders may lie between the root and a skill: categories of categories."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderListing:
    """A folder that is no skill itself: what it holds, as of its stamp."""

    stamp: Stamp
    settled: bool
    folders: tuple[str, ...]
    files: tuple[str, ...]
    faults: tuple[Fault, ...]


class FolderTree:
    """Everything below one root that is or might be a skill, kept in an index."""

    def __init__(
        self, root: Path, scope: Scope, limits: Limits, place: str | None = None, cache: FolderCache | None = None
    ) -> None:
        self._root = str(root)
        self._scope: Scope = scope
        self._limits = limits
        self._branches: dict[str, FolderListing] = {}
        self.index = FolderIndex(str(root.resolve()) if place is None else place)
        self._feed = ChangeLog()
        self._told: dict[str, str] = {}
        self._cache = cache
        self._fresh: ReadCache | None = None

    def refresh(self, fresh: ReadCache | None = None) -> None:
        """Bring the index up to date with the disk; `fresh` takes each skill that is read for it."""
        # Taken in once, before the first look, and saved once after it: what changes later in the life of a process is
        # little, and the next process reads only that again.
        cache, self._cache = self._cache, None
        for skill in cache.load() if cache else ():
            self.index.put(skill)
        seen: set[str] = set()
        branches: set[str] = set()
        self._fresh = fresh
        try:
            self._visit(self._root, MAX_DEPTH, seen, branches)
        finally:
            self._fresh = None
        for location in self.index.sites.keys() - seen:
            self.index.drop(location)
        for location in self._branches.keys() - branches:
            del self._branches[location]
        if cache is not None:
            cache.save(self.index.sites.values())

    def changes(self, since: str, fresh: ReadCache) -> Changes:
        """The slugs that are served with other files than at a position; the index is brought up to date first."""
        self.refresh(fresh)
        for slug in sorted(self.index.touched()):
            site = self.index.serving(slug)
            digest = site.digest if site else ""
            if self._told.get(slug, "") != digest:
                self._told[slug] = digest
                self._feed.note(slug)
        return self._feed.since(since)

    def read(self, site: DiskSkill) -> tuple[DiskSkill, Package] | None:
        """The files of a site, and the site with the dates that they have now; None once they are not as known."""
        try:
            snapshot = read_disk_skill(site.location, self._root, self._limits, lone=site.lone)
        except ProwessError:
            return None
        if snapshot.package.digest != site.digest:
            return None
        if snapshot.stamps != site.stamps or snapshot.settled != site.settled:
            site = replace(site, stamps=snapshot.stamps, settled=snapshot.settled)
            self.index.put(site)
        return site, snapshot.package

    def leads_to(self, site: DiskSkill) -> bool:
        """Whether a full look would find the site where it is: nothing came or went in the folders on the way there."""
        folder = site.location.rpartition("/")[0]
        while len(folder) >= len(self._root):
            branch = self._branches.get(folder)
            if branch is None or not branch.settled or self._stamp(folder) != branch.stamp:
                return False
            folder = folder.rpartition("/")[0]
        return True

    def look_again(self, location: str, *, lone: bool) -> None:
        """Read one place again, now; forget it where nothing is left."""
        if os.path.lexists(location):
            self._look(location, lone=lone)
        else:
            self.index.drop(location)

    def find(self, location: str) -> None:
        """Look at what was just put in one place: a skill's folder, a single file, or a folder with such a file."""
        if Path(location).is_file():
            self._look(location, lone=True)
        else:
            self._visit(location, 1, set(), set())

    def faults(self) -> list[Fault]:
        """What is not served, and why, by place."""
        links = [fault for branch in self._branches.values() for fault in branch.faults]
        return sorted([*self.index.faults(), *links], key=lambda fault: fault.location)

    def _visit(self, folder: str, depth: int, seen: set[str], branches: set[str]) -> None:
        site = self.index.sites.get(folder)
        if site is not None and site.is_unchanged():
            seen.add(folder)
            return
        branch = self._branch(folder)
        if branch is None:
            self._branches.pop(folder, None)
            return
        if isinstance(branch, DiskSkill):
            seen.add(folder)
            return
        self.index.drop(folder)
        self._branches[folder] = branch
        branches.add(folder)
        for location in branch.files:
            known = self.index.sites.get(location)
            if known is None or not known.is_unchanged():
                self._look(location, lone=True)
            seen.add(location)
        if depth:
            for location in branch.folders:
                self._visit(location, depth - 1, seen, branches)

    def _look(self, location: str, *, lone: bool) -> DiskSkill:
        known = self.index.sites.get(location)
        tell = self._fresh.take if self._fresh else None
        site = scan_skill(location, self._root, self._scope, self._limits, lone=lone, known=known, tell=tell)
        self.index.put(site)
        return site

    def _branch(self, folder: str) -> FolderListing | DiskSkill | None:
        """What a folder is: one that holds others, a skill, or nothing any more."""
        known = self._branches.get(folder)
        try:
            if known is not None and known.settled and known.stamp == self._stamp(folder):
                return known
            stamp, read_at, entries = self._listing(folder)
        except FileNotFoundError:
            return None
        except OSError as error:
            return self._closed(folder, error)
        if folder != self._root and has_marker(entry.name for entry in entries):
            return self._look(folder, lone=False)
        kept = [entry for entry in entries if not is_ignored(entry.name) and not entry.name.startswith(TEMP_PREFIX)]
        odd = [entry for entry in kept if not _is_text(entry.name)]
        kept = [entry for entry in kept if entry not in odd]
        return FolderListing(
            stamp=stamp,
            settled=is_settled(stamp, read_at),
            folders=tuple(entry.path for entry in kept if entry.is_dir(follow_symlinks=False)),
            files=tuple(entry.path for entry in kept if _may_be_skill(entry)),
            faults=(
                *(_invalid_name(entry.path) for entry in odd),
                *self._link_faults(entry.path for entry in kept if entry.is_symlink()),
            ),
        )

    def _listing(self, folder: str) -> tuple[Stamp, int, list[os.DirEntry[str]]]:
        """What a folder holds, with its stamp and the time; listed again if another took its place meanwhile."""
        while True:
            stamp = make_stamp(self._status(folder))
            read_at = time.time_ns()
            with os.scandir(folder) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
            if self._status(folder).st_ino == stamp[3]:
                return stamp, read_at, entries

    def _status(self, folder: str) -> os.stat_result:
        """Of a folder itself; only the root may be a link, and what counts then is where that leads."""
        return Path(folder).stat() if folder == self._root else os.lstat(folder)

    def _stamp(self, folder: str) -> Stamp | None:
        try:
            return make_stamp(self._status(folder))
        except OSError:
            return None

    def _closed(self, folder: str, error: OSError) -> FolderListing:
        """A folder that the system will not list: reported, and tried again at the next look."""
        refusal = read_error(Path(folder), error)
        if folder == self._root:
            raise Unavailable(refusal.message, hint=refusal.hint)
        fault = Fault(location=folder, slug=folder.rpartition("/")[2], problems=(unreadable(refusal),))
        return FolderListing(stamp=(0, 0, 0, 0, 0), settled=False, folders=(), files=(), faults=(fault,))

    def _link_faults(self, links: Iterator[str]) -> Iterator[Fault]:
        """A link to a folder among the skills is another name for it; one that leads elsewhere is refused."""
        for link in links:
            target = Path(link).resolve()
            if target.is_file() or (target.is_dir() and self._is_home(target)):
                continue
            where = f"to {str(target)!r}" if target.is_dir() else "nowhere"
            problem = fault_problem(
                "link-refused",
                f"{link!r} is a symbolic link that leads {where}; links out of the skill folders are not followed.",
                "Copy or import the skill, or keep it in one of the skill folders.",
            )
            yield Fault(location=link, slug=link.rpartition("/")[2], problems=(problem,))

    def _is_home(self, target: Path) -> bool:
        """Whether a folder lies in this skill folder, or in another one of the same base."""
        root = Path(self._root)
        return any(target.is_relative_to(home.resolve()) for home in (root, *sibling_roots(root)))


def _is_text(name: str) -> bool:
    """Whether the bytes of a name are UTF-8."""
    return name.isascii() or not any("\ud800" <= char <= "\udfff" for char in name)


def _invalid_name(path: str) -> Fault:
    location = path.encode(errors="backslashreplace").decode()
    problem = fault_problem("unreadable", f"The name {location!r} is not UTF-8 text.", "Rename it.")
    return Fault(location=location, slug="", problems=(problem,))


def _may_be_skill(entry: os.DirEntry[str]) -> bool:
    return (
        entry.name.endswith(SINGLE_FILE_SUFFIXES) and not is_marker(entry.name) and entry.is_file(follow_symlinks=False)
    )
