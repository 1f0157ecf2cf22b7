"""Read skills from the bytes that a database stores, and cache the results.

A row says which digest a slug has. The skill itself comes from the files that the digest identifies, which are hashed
again whenever they are read, so that a changed row or blob never changes what is shown or run.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from prowess.errors import Invalid, Problem, ProwessError
from prowess.lazy_dataclass import dataclass
from prowess.skill.filenames import document_text
from prowess.skill.limits import Limits
from prowess.skill.model import Skill, SkillCard
from prowess.skill.outline import SkillOutline
from prowess.skill.package import Package
from prowess.skill.reader_version import is_current, may_replace, reader_version
from prowess.skill.slug import is_slug
from prowess.skill.validate import rejection, validate
from prowess.storage import artifacts, blobs, skills
from prowess.storage.owner import Tenant
from prowess.storage.seals import seals_of
from prowess.storage.skills import SkillKey, StoredSkill, key_of

if TYPE_CHECKING:
    import sqlalchemy as sa


class StoredReading:
    """A skill as this process read it from the stored bytes."""

    def __init__(self, skill: Skill, document: str) -> None:
        self.skill = skill
        self.document = document
        """The text of its main file."""
        self.size = sum(len(artifact.content) for artifact in skill.artifacts) + len(document) + _OVERHEAD

    @cached_property
    def outline(self) -> SkillOutline:
        """The skill without the content of its artifacts."""
        return SkillOutline.of(self.skill)


_OVERHEAD = 4_000
"""The approximate size of a skill without any text, in characters."""


class SkillCache:
    """The skills that were read last, and more of their cards. Safe for many threads.

    An entry can never be outdated: its key contains the digest of its files, and everything else that it was made from.
    """

    MAX_CHARACTERS = 12 * 1024 * 1024
    MAX_CARDS = 20_000

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._readings: OrderedDict[tuple[object, ...], StoredReading] = OrderedDict()
        self._cards: OrderedDict[tuple[object, ...], SkillCard] = OrderedDict()
        self._size = 0

    def get(self, key: tuple[object, ...]) -> StoredReading | None:
        """Return the cached reading for a key, or None."""
        with self._lock:
            found = self._readings.get(key)
            if found is not None:
                self._readings.move_to_end(key)
            return found

    def card(self, key: tuple[object, ...]) -> SkillCard | None:
        """Return the card of a skill that was read for a key, or None."""
        with self._lock:
            return self._cards.get(key)

    def put(self, key: tuple[object, ...], reading: StoredReading) -> None:
        """Cache a reading, and drop the least recently used ones if there is no room."""
        card = reading.skill.card
        with self._lock:
            self._cards[key] = card
            if len(self._cards) > self.MAX_CARDS:
                self._cards.popitem(last=False)
            if key not in self._readings:
                self._readings[key] = reading
                self._size += reading.size
            while self._size > self.MAX_CHARACTERS:
                self._size -= self._readings.popitem(last=False)[1].size


_cache = SkillCache()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSkills:
    """Reads the skills of one tenant, in a transaction of the caller."""

    tenant: Tenant
    location: str
    limits: Limits

    def read(self, connection: sa.Connection, key: SkillKey | None) -> StoredReading | None:
        """Return the skill of a key; None without one. Raise `Invalid` or `Unavailable` if its files cannot be served."""
        if key is None:
            return None
        found = _cache.get(self._cache_key(key))
        return found or self._read_files(connection, key)[0]

    def remember(self, skill: Skill, package: Package) -> None:
        """Cache a skill that was just stored, as it would be read from its files."""
        if not blobs.is_plain(package.name):
            return  # its files are read under another name
        key = key_of(skill, package.name)
        stored = skill.model_copy(update={"provenance": key.provenance}) if key.provenance else skill
        _cache.put(self._cache_key(key), StoredReading(stored, document_text(stored.form, package)))

    def read_again(self, connection: sa.Connection, slugs: Sequence[str]) -> list[Reread]:
        """Read skills whose rows cannot be used from their files; those that are gone in the meantime are left out."""
        stored = skills.get_stored(connection, self.tenant, slugs)
        return [self._reread(connection, slug, row) for slug, row in stored.items()]

    def _reread(self, connection: sa.Connection, slug: str, row: StoredSkill) -> Reread:
        try:
            if not is_slug(slug):
                raise Invalid(f"{slug[:80]!r} is not a valid skill name.", hint="Delete this row from the database.")
            reading, package = self._read_files(connection, row.key)
        except (ProwessError, *skills.DAMAGE) as error:
            return Reread(slug=slug, error=self._unreadable(slug, error), stored=row)
        state = skills.check_seal(connection, self.tenant, row, reading.skill)
        current = is_current(row.reader)
        # What another installation sealed stays: two that share a database would otherwise seal the rows in turns. With a
        # key that all servers share, the row is one from before they had it.
        stays = state == "foreign" and not seals_of(connection).shared
        due = may_replace(row.reader) and not (current and stays)
        return Reread(
            slug=slug,
            package=package,
            skill=reading.skill,
            stored=row,
            due=due,
            sealed=current and state in ("valid", "foreign"),
        )

    def known_cards(self, connection: sa.Connection, slugs: Sequence[str]) -> Iterator[SkillCard]:
        """Yield the cards of those of these skills that another installation sealed and this process has read before."""
        for row in skills.get_stored(connection, self.tenant, slugs).values():
            card = _cache.card(self._cache_key(row.key)) if skills.is_foreign(connection, row) else None
            if card is not None:
                yield card

    def _read_files(self, connection: sa.Connection, key: SkillKey) -> tuple[StoredReading, Package]:
        files = skills.get_files(connection, self.tenant, key.id)
        if files is None:
            raise blobs.changed_bytes(key.slug)
        package = blobs.get_package(connection, files.package, files.manifest, digest=key.digest, slug=key.slug)
        skill = read_stored(package, key.slug, self.limits)
        document = document_text(skill.form, package)
        reading = StoredReading(stored_as(skill, key, self.tenant, self.location), document)
        _cache.put(self._cache_key(key), reading)
        return reading, package

    def _cache_key(self, key: SkillKey) -> tuple[object, ...]:
        return (key, self.tenant.scope, self.location, self.limits, reader_version())

    def _unreadable(self, slug: str, error: Exception) -> Invalid:
        if isinstance(error, Invalid) and error.problems:
            return error
        hint = (
            error.hint
            if isinstance(error, ProwessError)
            else "Import the skill again with `prowess import PATH --replace`."
        )
        message = f"The files of the skill {slug[:80]!r} in {self.location} cannot be read: {error}"
        problem = Problem(code="unreadable", severity="error", message=message, hint=hint)
        return Invalid(message, hint=hint, problems=[problem])


@dataclass(frozen=True, slots=True, kw_only=True)
class Reread:
    """A stored skill as this process reads its files, or the error that prevents serving it.

    `due` is True if its row may be replaced, and `sealed` if its seal matches the files, so that only columns that the seal
    covers can be wrong.
    """

    slug: str
    package: Package | None = None
    skill: Skill | None = None
    error: Invalid | None = None
    stored: StoredSkill
    due: bool = False
    sealed: bool = False

    @property
    def served(self) -> Skill:
        """Return the skill, or raise the error."""
        if self.skill is None:
            raise self.error or Invalid(f"The files of {self.slug!r} do not contain a skill.")
        return self.skill


def read_stored(package: Package, slug: str, limits: Limits) -> Skill:
    """Return the skill in a stored package, or raise `Invalid`.

    The size limits are not applied again: they decide what may come in, and they may have been lowered since.
    """
    skill = _read_package(package, limits)
    if skill.slug != slug:
        # Some forms take name and title from the name of the folder, which the digest does not cover. The slug is what
        # people have approved, so it takes the folder's place.
        skill = _read_package(Package(name=slug, files=package.files), limits)
    return skill if skill.slug == slug else skill.model_copy(update={"slug": slug})


def _read_package(package: Package, limits: Limits) -> Skill:
    report = validate(package, "prowess", limits)
    errors = tuple(problem for problem in report.errors if problem.code != "over-limit")
    if errors or report.reading.skill is None:
        raise rejection(replace(report, problems=errors or report.problems))
    return report.reading.skill


def stored_as(skill: Skill, key: SkillKey, tenant: Tenant, location: str) -> Skill:
    """Return the skill with the identity and the dates that it has in the database.

    Its slug stays as well, even if the readers would choose another one today: versions, grants and sessions refer to it.
    Where it was copied from is what the sync recorded, whatever its files say about that.
    """
    return skill.kept_as(
        id=key.id,
        scope=tenant.scope,
        location=location,
        provenance=key.provenance,
        created_at=key.created_at,
        updated_at=key.updated_at,
    )


def replace_derived(connection: sa.Connection, tenant: Tenant, found: Sequence[Reread]) -> None:
    """Write the rows of skills that were read again, unless another process did so first.

    The files and the version log stay as they are: nothing about the skill changed.
    """
    # Locked and compared once more: since the files were read, another process may have saved other files, or may have
    # read the same ones with a newer reader.
    stored = skills.lock_by_slug(connection, tenant, [item.slug for item in found])
    pending = [
        (item.skill, item.package)
        for item in sorted(found, key=lambda item: item.slug)
        if item.skill is not None and item.package is not None and stored.get(item.slug) == item.stored
    ]
    skills.update_skills(connection, tenant, pending)
    artifacts.replace_artifacts(connection, tenant, [skill for skill, _ in pending], [skill.id for skill, _ in pending])
