"""A store over a folder of skills: live, because the folder belongs to the person and their editor.

Every call first looks at the folder; what has not changed costs one glance at each file's metadata. Who asks for one
skill that is known gets it after a look at its own files and at the folders on the way to them; only when something
changed there, everything is looked at. So every edit of that skill is seen at once, while a claim on its slug that
arises elsewhere, in another category or in a skill that was there already, is noticed at the next full look: whenever
the skills are listed, one is written, or one is asked for that is not known.

A skill that was good and is now broken is no longer listed: its good bytes are not on disk any more, so nothing could
be served. It is reported as a fault until it is mended, and its accepted versions stay in the log.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from prowess.catalog.editable_store import EditableStore, EditChange
from prowess.catalog.folder_cache import FolderCache
from prowess.catalog.folder_index import DiskSkill
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
"""So many skills that were asked for are remembered as they were read."""


class DirectoryStore(EditableStore):
    """Serves and keeps the skills in a folder: skill folders, also in categories, and skills of a single file.

    A link to a skill in this folder, or in another well-known one of the same base, is an alias and passed over. The
    folder is made at the first write. Ids follow from the slug and from `place`, unless a skill declares its own;
    `place` stands for the folder and is its path if none is given, so that one that is moved keeps its ids only with a
    `place` that stays.

    A `frozen` folder is only read.

    With `cache`, a folder outside of the workspace, what was read is remembered there for the next process.

    Where the version log does not answer, skills are read all the same, with the dates of their files; nothing is
    written.
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
        self.location = str(self.root)
        self._log = versions
        self.limits = limits
        self._lock = threading.RLock()
        remembered = FolderCache(cache, root=self.location, scope=scope, limits=limits) if cache else None
        self._tree = FolderTree(self.root, scope, limits, place, remembered)
        self._index = self._tree.index
        self._fresh = ReadCache()
        self._lately: dict[tuple[str, str], Skill] = {}
        self._last_served: dict[tuple[str, str], tuple[DiskSkill, str, Version | None, Skill]] = {}
        if not frozen:
            self._finish_interrupted_write()

    @cached_property
    def _writer(self) -> FolderWriter:
        from prowess.catalog.folder_writer import FolderWriter  # brings the writers of all forms, at the first write

        return FolderWriter(self._tree, self.root, self._log, self.limits, frozen=self.frozen)

    def _finish_interrupted_write(self) -> None:
        """Finish for a writer that was killed; a live one holds the lock and is left alone."""
        with suppress(OSError, ProwessError), try_lock_folder(self.root) as free:
            if free:
                recover_folder(self.root)

    # Reading

    def list_skills(self) -> list[SkillCard]:
        """The cards of all skills, sorted by slug."""
        with self._lock:
            self._tree.refresh()
            return list(self._index.cards())

    def faults(self) -> list[Fault]:
        """Broken skills, second claims on a slug, and links that lead out of the skill folders."""
        with self._lock:
            self._tree.refresh()
            return self._tree.faults()

    def serves(self, kinds: Collection[Kind] = ()) -> bool:
        """Whether any skill has an artifact of one of these kinds: one that was found before and is still there will do."""
        with self._lock:
            known = next(self._index.with_kinds(kinds), None)
            if known is not None and self._tree.leads_to(known) and known.is_unchanged():
                return True
            self._tree.refresh()
            return next(self._index.with_kinds(kinds), None) is not None

    def changes(self, since: str = "") -> Changes:
        """What this process saw change: the slugs that are served with other files than at the last call."""
        with self._lock:
            self._fresh = ReadCache()
            return self._tree.changes(since, self._fresh)

    def documents(self, slugs: Collection[str] | None = None) -> Iterator[SearchDocument]:
        """What an index reads of these skills, or of all; what the last `changes` has read for itself is not read again."""
        with self._lock:
            fresh, self._fresh = self._fresh, ReadCache()
            self._tree.refresh(fresh)
            sites = map(self._index.serving, self._index.slugs() if slugs is None else slugs)
            wanted = [site for site in sites if site is not None]
        for site in wanted:
            skill = fresh.give(site.location, site.digest) or self._now(site.slug)
            if skill is not None:
                yield replace(SearchDocument.of(skill), scope=self.scope)

    def _now(self, slug: str) -> Skill | None:
        """A skill as its files are; None where there is none any more."""
        with suppress(ProwessError):
            found = self._read(lambda: self._index.serving(slug))
            return accepted_skill(accept(found[1], self.limits))[0] if found else None
        return None

    def get_skill(self, skill_id: str) -> Skill | None:
        """One skill with all its artifacts."""
        return self._one(lambda: self._index.by_id(skill_id))

    def get_skill_by_name(self, name: str) -> Skill | None:
        """The same, by slug."""
        return self._one(lambda: self._index.serving(name))

    def get_artifact(self, artifact_id: str) -> Artifact | None:
        """One artifact."""
        skill = self._one(lambda: self._index.by_artifact(artifact_id))
        artifacts = skill.artifacts if skill else ()
        return next((artifact for artifact in artifacts if artifact.id == artifact_id), None)

    def get_package(self, skill_id: str) -> Package | None:
        """All the files of a skill."""
        found = self._read(lambda: self._index.by_id(skill_id))
        return found[1] if found else None

    def get_package_by_name(self, name: str) -> Package | None:
        """The same, by slug; nothing is parsed for it."""
        found = self._read(lambda: self._index.serving(name))
        return found[1] if found else None

    def _one(self, find: Callable[[], DiskSkill | None]) -> Skill | None:
        with self._lock:
            known = self._known(find())
            if known is not None:
                return known
            found = self._read(find)
            return self._skill(*found) if found else None

    def _known(self, site: DiskSkill | None) -> Skill | None:
        """A skill that was asked for lately, where a glance shows that its files are the same."""
        skill = self._lately.get((site.location, site.digest)) if site else None
        if site is None or skill is None or not self._tree.leads_to(site) or not site.is_unchanged():
            return None
        return self._served(skill, site, self._first_version(site.slug))

    def _read(self, find: Callable[[], DiskSkill | None]) -> tuple[DiskSkill, Package] | None:
        """A site with its files, which are those of the digest that the site has."""
        with self._lock:
            site = find()
            found = self._tree.read(site) if site is not None and self._tree.leads_to(site) else None
            if found is not None:
                return found
            for _ in range(_ATTEMPTS):
                self._tree.refresh()
                site = find()
                if site is None:
                    return None
                found = self._tree.read(site)
                if found is not None:
                    return found
        raise Conflict("The skill is being changed right now.", hint="Try again when that is done.")

    def _skill(self, site: DiskSkill, package: Package) -> Skill:
        return self._served(self._parsed(site, package), site, self._first_version(site.slug))

    def _parsed(self, site: DiskSkill, package: Package) -> Skill:
        """What the files say; those that were read lately are not parsed again while they are the same."""
        key = (site.location, package.digest)
        skill = self._lately.pop(key, None) or accepted_skill(accept(package, self.limits))[0]
        self._lately[key] = skill
        while len(self._lately) > MAX_RECENT:
            oldest = next(iter(self._lately))
            del self._lately[oldest]
            self._last_served.pop(oldest, None)
        return skill

    def _served(self, skill: Skill, site: DiskSkill, first: Version | None) -> Skill:
        # The same object for as long as nothing changes, so that callers can keep what they derive from it.
        key, skill_id = (site.location, site.digest), self._index.id_of(site)
        last = self._last_served.get(key)
        if last is not None and last[0] is site and last[1] == skill_id and last[2] == first:
            return last[3]
        oldest, newest = site.dates()
        served = skill.kept_as(
            id=skill_id,
            scope=self.scope,
            location=site.location,
            created_at=first.created_at if first else oldest,
            updated_at=newest,
        )
        self._last_served[key] = (site, skill_id, first, served)
        return served

    def _first_version(self, slug: str) -> Version | None:
        try:
            ends = self._log.ends(slug)
        except ProwessError:
            return None
        return ends[0] if ends else None

    # Writing

    def keep(
        self, reading: Reading, *, expected: str | None, change: EditChange | None, actor: str, note: str
    ) -> Skill:
        """Keep an accepted reading as a folder, or as a single file where it was one."""
        with self._lock, self._writer.alone():
            return self._keep(reading, expected, change, actor, note, replace=False)[0]

    def save_all(self, packages: Iterable[Package], *, replace: bool = False, actor: str = "") -> list[SaveResult]:
        """Keep many packages, each on its own merits, under one lock."""
        with self._lock, self._writer.alone():
            return [self._save_one(package, actor, replace=replace) for package in packages]

    def delete_skill(self, skill_id: str, *, expected: str | None = None, actor: str = "", note: str = "") -> None:
        """Remove a skill with its files and any further copies of the same; its versions stay."""
        with self._lock, self._writer.alone():
            site = self._index.by_id(skill_id)
            if site is None:
                raise unknown_id("skill", skill_id, self.location)
            if expected is not None and site.digest != expected:
                raise digest_conflict(site.slug, expected, site.digest)
            package = self._writer.remember(site)
            form = accept(package, self.limits).form
            self._log.append(site.slug, package, form=form, change="delete", actor=actor, note=note)
            for copy in [*self._index.copies(site), site]:
                self._writer.remove(copy)

    def _save_one(self, package: Package, actor: str, *, replace: bool) -> SaveResult:
        try:
            skill, changed = self._keep(accept(package, self.limits), None, None, actor, "", replace=replace)
        except ProwessError as error:
            return SaveResult(package=package, skill=None, error=error, changed=False)
        except OSError as error:
            return SaveResult(package=package, skill=None, error=self._writer.unwritable(error), changed=False)
        return SaveResult(package=package, skill=skill, changed=changed)

    def _keep(
        self, reading: Reading, expected: str | None, change: EditChange | None, actor: str, note: str, *, replace: bool
    ) -> tuple[Skill, bool]:
        """The kept skill, and whether anything had to change for it."""
        reading = self._writer.as_stored(reading)
        skill, package = accepted_skill(reading)
        site = self._index.serving(skill.slug)
        step = decide_save(
            skill.slug,
            package.digest,
            site.digest if site else None,
            expected=expected,
            replace=replace,
            location=self.location,
            known=self._index.slugs,
        )
        if site and step == "same":
            return self._skill(site, self._writer.files(site)), False
        if site:
            self._writer.remember(site)
        done = change or ("update" if site else "create")
        version = self._writer.write(
            reading,
            site,
            lambda: self._log.append(skill.slug, package, form=reading.form, change=done, actor=actor, note=note),
        )
        kept = self._index.serving(skill.slug)
        if kept is None or kept.digest != package.digest:
            raise Conflict(f"{skill.slug!r} was changed while it was being kept.", hint="Look at it and try again.")
        first = version if version.number == 1 else self._first_version(skill.slug)
        return self._served(skill, kept, first), True
