"""A store over a folder of skills. It is live: the folder belongs to the user and their editor.

Every call checks the folder first. What has not changed costs one `lstat` per file. A lookup of one known skill checks
only its own files and the folders above it; the whole folder is scanned only if something changed there. So every edit
of that skill is seen at once, while another skill that claims the same slug elsewhere is noticed at the next full scan:
when skills are listed, one is written, or an unknown one is looked up.

A skill that was good and is now broken is no longer listed: its good bytes are gone from disk, so nothing could be
served. It is reported as a fault until it is fixed, and its accepted versions stay in the log.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from prowess.catalog.editable_store import EditableStore, EditChange
from prowess.catalog.folder_cache import FolderCache
from prowess.catalog.folder_index import DiskSkill, scan_skill
from prowess.catalog.folder_tree import FolderTree
from prowess.catalog.store import Changes, Fault, ReadCache, SaveResult, SearchDocument
from prowess.catalog.store_rules import accepted_skill, decide_save, digest_conflict, unknown_id
from prowess.catalog.version_log import VersionLog
from prowess.errors import Conflict, ProwessError
from prowess.skill.forms.form import Reading
from prowess.skill.kinds import Artifact, Kind
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.model import Scope, Skill, SkillCard, Version
from prowess.skill.package import Package
from prowess.skill.validate import accept
from prowess.storage.files.atomic_write import recover_folder
from prowess.storage.files.folder_lock import try_lock_folder

if TYPE_CHECKING:
    from prowess.catalog.folder_writer import FolderWriter

_ATTEMPTS = 5
MAX_RECENT = 64
"""How many parsed skills are cached."""


class DirectoryStore(EditableStore):
    """Serves and stores the skills in a folder: skill folders, also in categories, and skills of a single file.

    A symbolic link to a skill in this folder, or in another well-known one of the same base, is an alias and is skipped.
    The folder is created at the first write. Ids are derived from the slug and `place`, unless a skill declares its own.
    `place` identifies the folder and defaults to its path; a folder that is moved keeps its ids only if `place` stays.

    A `frozen` folder is read-only.

    With `cache`, a folder outside of the workspace, listings are remembered there for the next process.

    If the version log fails, skills can still be read, with the dates of their files; nothing can be written.
    """

    def __init__(
        self,
        root: Path,
        *,
        scope: Scope,
        versions: VersionLog,
        limits: Limits = DEFAULT_LIMITS,
        place: str | None = None,
        frozen: bool = False,
        cache: Path | None = None,
    ) -> None:
        self.scope = scope
        self.frozen = frozen
        self.root = root.absolute()
        self.location = self.folder = str(self.root)
        self._log = versions
        self.limits = limits
        self._lock = threading.RLock()
        folder_cache = FolderCache(cache, root=self.location, scope=scope, limits=limits) if cache else None
        self._tree = FolderTree(self.root, scope, limits, place, folder_cache)
        self._index = self._tree.index
        self._read_cache = ReadCache()
        self._recent: dict[tuple[str, str], Skill] = {}
        self._last_served: dict[tuple[str, str], tuple[DiskSkill, str, Version | None, Skill]] = {}
        if not frozen:
            self._finish_interrupted_write()

    @cached_property
    def _writer(self) -> FolderWriter:
        from prowess.catalog.folder_writer import FolderWriter  # imports the writers of all forms, at the first write

        return FolderWriter(self._tree, self.root, self._log, self.limits, frozen=self.frozen)

    def _finish_interrupted_write(self) -> None:
        """Finish the work of a writer that was killed. A live writer holds the lock and is left alone."""
        with suppress(OSError, ProwessError), try_lock_folder(self.root) as free:
            if free:
                recover_folder(self.root)

    # Reading

    def list_skills(self) -> list[SkillCard]:
        """Return the cards of all skills, sorted by slug."""
        with self._lock:
            self._tree.refresh()
            return list(self._index.cards())

    def faults(self) -> list[Fault]:
        """Return broken skills, slug conflicts, and links that lead out of the skill folders, as of the last scan."""
        with self._lock:
            return self._tree.faults()

    def serves(self, kinds: Collection[Kind] = ()) -> bool:
        """Return True if any skill had an artifact of one of these kinds at the last scan."""
        with self._lock:
            return next(self._index.with_kinds(kinds), None) is not None

    def changes(self, since: str = "") -> Changes:
        """Return the slugs whose files changed since the position, as far as this process saw it."""
        with self._lock:
            if self._read_cache.is_old:
                self._read_cache = ReadCache()
            return self._tree.changes(since, self._read_cache)

    def documents(self, slugs: Collection[str] | None = None) -> Iterator[SearchDocument]:
        """Yield the documents of these skills, or of all. What `changes` calls have just read is not read again."""
        with self._lock:
            read_cache, self._read_cache = self._read_cache, ReadCache()
            self._tree.refresh(read_cache)
            disk_skills = map(self._index.serving, self._index.slugs() if slugs is None else slugs)
            found = [disk_skill for disk_skill in disk_skills if disk_skill is not None]
        for disk_skill in found:
            skill = read_cache.give(disk_skill.location, disk_skill.digest) or self._read_current(disk_skill.slug)
            if skill is not None:
                yield self._document(skill, disk_skill)

    def documents_at(self, locations: Iterable[str]) -> Iterator[SearchDocument]:
        """Yield the documents of the valid skills at these locations. No other file is looked at."""
        for location in locations:
            read: list[Skill] = []
            disk_skill = scan_skill(
                location,
                self.location,
                self.scope,
                self.limits,
                single_file=not Path(location).is_dir(),
                known=None,
                on_read=lambda _, skill, __, read=read: read.append(skill),
            )
            for skill in read:
                yield self._document(skill, disk_skill)

    def _document(self, skill: Skill, disk_skill: DiskSkill) -> SearchDocument:
        from prowess.skill.prompt_block import prompt_chars

        card = disk_skill.card
        # The files may have changed since they were scanned.
        is_same = card is not None and skill.digest == disk_skill.digest
        chars = card.chars if card is not None and is_same else prompt_chars(skill, self.scope)
        return SearchDocument.of(skill, scope=self.scope, chars=chars, location=disk_skill.location)

    def _read_current(self, slug: str) -> Skill | None:
        """Return a skill from its current files, or None if it is gone or broken."""
        with suppress(ProwessError):
            found = self._read(lambda: self._index.serving(slug))
            return self._read_accepted(*found) if found else None
        return None

    def get_skill(self, skill_id: str) -> Skill | None:
        """Return a skill with all its artifacts, or None."""
        return self._get(lambda: self._index.by_id(skill_id))

    def get_skill_by_name(self, name: str) -> Skill | None:
        """Return a skill by slug, or None."""
        return self._get(lambda: self._index.serving(name))

    def get_digest(self, name: str) -> str | None:
        """Return the digest of a skill by slug, or None. Files that did not change are not read."""
        with self._lock:
            known = self._index.serving(name)
            if known is None or not self._is_current(known):
                self._tree.refresh()
                known = self._index.serving(name)
            return known.digest if known else None

    def get_artifact(self, artifact_id: str) -> Artifact | None:
        """Return an artifact by id, or None."""
        skill = self._get(lambda: self._index.by_artifact(artifact_id))
        artifacts = skill.artifacts if skill else ()
        return next((artifact for artifact in artifacts if artifact.id == artifact_id), None)

    def get_package(self, skill_id: str) -> Package | None:
        """Return all files of a skill, or None."""
        found = self._read(lambda: self._index.by_id(skill_id))
        return found[1] if found else None

    def get_package_by_name(self, name: str) -> Package | None:
        """Return all files of a skill by slug, or None. Nothing is parsed."""
        with self._lock:
            known = self._index.serving(name)
            cached = self._read_cache.find(known.location, known.digest) if known else None
            if known is not None and cached is not None and self._is_current(known):
                return cached[1]
            found = self._read(lambda: self._index.serving(name))
            return found[1] if found else None

    def _is_current(self, disk_skill: DiskSkill) -> bool:
        """Return True if `lstat` shows that a skill is where it was, with the same files."""
        return self._tree.is_reachable(disk_skill) and disk_skill.is_unchanged()

    def _get(self, find: Callable[[], DiskSkill | None]) -> Skill | None:
        with self._lock:
            known = self._get_unchanged(find())
            if known is not None:
                return known
            found = self._read(find)
            return self._skill(*found) if found else None

    def _get_unchanged(self, disk_skill: DiskSkill | None) -> Skill | None:
        """Return a recently parsed skill if `lstat` shows that its files are unchanged, or None."""
        if disk_skill is None:
            return None
        key = (disk_skill.location, disk_skill.digest)
        cached = self._read_cache.find(*key)
        skill = self._recent.get(key) or (cached[0] if cached else None)
        if skill is None or not self._is_current(disk_skill):
            return None
        return self._served(self._remember(key, skill), disk_skill, self._first_version(disk_skill.slug))

    def _read(self, find: Callable[[], DiskSkill | None]) -> tuple[DiskSkill, Package] | None:
        """Return a skill on disk with its files, which are guaranteed to match its digest, or None."""
        with self._lock:
            disk_skill = find()
            found = (
                self._tree.read(disk_skill) if disk_skill is not None and self._tree.is_reachable(disk_skill) else None
            )
            if found is not None:
                return found
            # Another process may be writing: between the scan and the read the files can change again.
            for _ in range(_ATTEMPTS):
                self._tree.refresh()
                disk_skill = find()
                if disk_skill is None:
                    return None
                found = self._tree.read(disk_skill)
                if found is not None:
                    return found
        raise Conflict("The skill is being changed at the moment.", hint="Try again in a moment.")

    def _skill(self, disk_skill: DiskSkill, package: Package) -> Skill:
        return self._served(self._parse(disk_skill, package), disk_skill, self._first_version(disk_skill.slug))

    def _parse(self, disk_skill: DiskSkill, package: Package) -> Skill:
        """Parse the files, unless the same ones were parsed recently."""
        key = (disk_skill.location, package.digest)
        return self._remember(key, self._recent.get(key) or self._read_accepted(disk_skill, package))

    def _remember(self, key: tuple[str, str], skill: Skill) -> Skill:
        # Removed and inserted again, so that the dict is ordered by last use.
        self._recent.pop(key, None)
        self._recent[key] = skill
        while len(self._recent) > MAX_RECENT:
            oldest = next(iter(self._recent))
            del self._recent[oldest]
            self._last_served.pop(oldest, None)
        return skill

    def _read_accepted(self, disk_skill: DiskSkill, package: Package) -> Skill:
        """Return the skill in the files of a skill that is served, or raise `Invalid`."""
        # The scan that put it into the index has validated these very bytes, perhaps in an earlier process. Checking them
        # again would take longer than reading them.
        if package.digest == disk_skill.digest:
            from prowess.skill.forms.conversion import (
                read_package,
            )  # imports all readers, which a listing does not need

            return accepted_skill(read_package(package, self.limits))[0]
        return accepted_skill(accept(package, self.limits))[0]

    def _served(self, skill: Skill, disk_skill: DiskSkill, first: Version | None) -> Skill:
        # The same object for as long as nothing changes, so that callers can keep what they derive from it.
        key, skill_id = (disk_skill.location, disk_skill.digest), self._index.id_of(disk_skill)
        last = self._last_served.get(key)
        if last is not None and last[0] is disk_skill and last[1] == skill_id and last[2] == first:
            return last[3]
        oldest, newest = disk_skill.dates()
        served = skill.kept_as(
            id=skill_id,
            scope=self.scope,
            location=disk_skill.location,
            created_at=first.created_at if first else oldest,
            updated_at=newest,
        )
        self._last_served[key] = (disk_skill, skill_id, first, served)
        return served

    def _first_version(self, slug: str) -> Version | None:
        try:
            ends = self._log.ends(slug)
        except ProwessError:
            return None
        return ends[0] if ends else None

    # Writing

    def save_reading(
        self, reading: Reading, *, expected: str | None, change: EditChange | None, actor: str, note: str
    ) -> Skill:
        """Save an accepted reading as a folder, or as a single file if it was one."""
        with self._lock, self._writer.lock():
            return self._save_reading(reading, expected, change, actor, note, replace=False)[0]

    def save_all(self, packages: Iterable[Package], *, replace: bool = False, actor: str = "") -> list[SaveResult]:
        """Save many packages, each independently of the others, under one lock."""
        with self._lock, self._writer.lock():
            return [self._save_one(package, actor, replace=replace) for package in packages]

    def delete_skill(self, skill_id: str, *, expected: str | None = None, actor: str = "", note: str = "") -> None:
        """Remove a skill with its files and any identical copies. Its versions stay."""
        with self._lock, self._writer.lock():
            disk_skill = self._index.by_id(skill_id)
            if disk_skill is None:
                raise unknown_id("skill", skill_id, self.location)
            if expected is not None and disk_skill.digest != expected:
                raise digest_conflict(disk_skill.slug, expected, disk_skill.digest)
            # The served one last: if this is interrupted, the skill is still where it was.
            copies = [*self._index.copies(disk_skill), disk_skill]
            for copy in copies:
                self._writer.check_removable(copy)
            package = self._writer.record_manual_changes(disk_skill)
            form = accept(package, self.limits).form
            # The version first: if the log fails, nothing is removed.
            self._log.append(disk_skill.slug, package, form=form, change="delete", actor=actor, note=note)
            for copy in copies:
                self._writer.remove(copy)

    def _save_one(self, package: Package, actor: str, *, replace: bool) -> SaveResult:
        try:
            skill, changed = self._save_reading(accept(package, self.limits), None, None, actor, "", replace=replace)
        except ProwessError as error:
            return SaveResult(package=package, skill=None, error=error, changed=False)
        except OSError as error:
            return SaveResult(package=package, skill=None, error=self._writer.write_error(error), changed=False)
        return SaveResult(package=package, skill=skill, changed=changed)

    def _save_reading(
        self, reading: Reading, expected: str | None, change: EditChange | None, actor: str, note: str, *, replace: bool
    ) -> tuple[Skill, bool]:
        """Return the stored skill, and whether anything changed."""
        reading = self._writer.as_stored(reading)
        skill, package = accepted_skill(reading)
        disk_skill = self._index.serving(skill.slug)
        step = decide_save(
            skill.slug,
            package.digest,
            disk_skill.digest if disk_skill else None,
            expected=expected,
            replace=replace,
            location=self.location,
            known=self._index.slugs,
        )
        if disk_skill and step == "same":
            return self._skill(disk_skill, self._writer.files(disk_skill)), False
        if disk_skill:
            self._writer.record_manual_changes(disk_skill)
        outcome = change or ("update" if disk_skill else "create")
        version = self._writer.write(
            reading,
            disk_skill,
            lambda: self._log.append(skill.slug, package, form=reading.form, change=outcome, actor=actor, note=note),
        )
        served = self._index.serving(skill.slug)
        # Editors do not take our lock: the files may have been changed right after they were written.
        if served is None or served.digest != package.digest:
            raise Conflict(
                f"{skill.slug!r} changed while it was being saved.", hint="Check the current files and try again."
            )
        first = version if version.number == 1 else self._first_version(skill.slug)
        return self._served(skill, served, first), True
