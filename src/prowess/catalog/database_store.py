"""A store in the database: the skills of one tenant and scope."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from prowess.catalog.database_reads import Reread, StoredReading, StoredSkills, replace_derived
from prowess.catalog.database_versions import DatabaseVersions
from prowess.catalog.database_writes import Finish, SaveOutcome, SaveRequest, record
from prowess.catalog.editable_store import EditableStore, EditChange, unknown_file
from prowess.catalog.store import Changes, Fault, SaveResult, SearchDocument
from prowess.catalog.store_rules import accepted_skill, digest_conflict, unknown_id
from prowess.errors import Conflict, Invalid, ProwessError
from prowess.patterns import lazy_pattern
from prowess.skill.forms.form import Reading
from prowess.skill.kinds import Artifact, Kind
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.model import Scope, Skill, SkillCard
from prowess.skill.outline import SkillOutline
from prowess.skill.package import Package
from prowess.skill.reader_version import is_current
from prowess.skill.slug import is_slug
from prowess.skill.validate import accept
from prowess.storage import artifacts, blobs, index_texts, skills, versions
from prowess.storage.database import Connections
from prowess.storage.owner import Tenant
from prowess.storage.seals import seals_of

if TYPE_CHECKING:
    import sqlalchemy as sa

BATCH = 200
BATCH_BYTES = 16 * 1024 * 1024

_ATTEMPTS = 3
_ID = lazy_pattern(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def _no_more(_: sa.Connection, __: list[SaveOutcome]) -> None:
    """Record nothing more."""


class DatabaseStore(EditableStore):
    """Stores the skills of one tenant in one scope. Skills of other tenants are invisible.

    Malformed ids and slugs are rejected before the database is queried.

    A skill is always read from the files that its digest identifies. Only listings and the search index use rows, because
    reading thousands of skills takes long. Each row has a seal. A row that this installation did not seal, that was changed,
    or that another version of the readers derived is read again from the files. It is then replaced, unless a newer reader
    or another installation wrote it.
    """

    def __init__(
        self,
        database: Connections,
        *,
        scope: Scope,
        organization_id: str | None = None,
        user_id: str | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.scope = scope
        self.limits = limits
        self.location = database.location
        self._database = database
        self._tenant = Tenant(scope=scope, organization_id=organization_id, user_id=user_id)
        self._stored = StoredSkills(tenant=self._tenant, location=self.location, limits=limits)
        self._log = DatabaseVersions(database, scope=scope, organization_id=organization_id, user_id=user_id)
        self._faults: list[Fault] = []

    def list_skills(self) -> list[SkillCard]:
        """Return the cards of all skills, sorted by slug. Only the columns of the cards are read."""
        self._faults = []
        with self._database.read() as connection:
            cards, stale = skills.get_cards(connection, self._tenant)
            known = list(self._stored.known_cards(connection, stale)) if stale else []
        cards += known
        for found in self._read_again(set(stale).difference(card.slug for card in known)):
            if found.error is not None:
                self._faults.append(Fault(location=self.location, slug=found.slug, problems=found.error.problems))
            else:
                cards.append(found.served.card)
        return sorted(cards, key=lambda card: card.slug)

    def faults(self) -> list[Fault]:
        """Return the skills with changed or rejected files, as of the last `list_skills`."""
        return list(self._faults)

    def verify(self) -> list[Fault]:
        """Read the files of every skill and return the skills that cannot be served. Rows are left as they are."""
        found: list[Fault] = []
        with self._database.read() as connection:
            slugs = skills.get_slugs(connection, self._tenant)
        for portion in blobs.split_chunks(slugs):
            with self._database.read() as connection:
                read = self._stored.read_again(connection, portion)
            found += [
                Fault(location=self.location, slug=item.slug, problems=item.error.problems)
                for item in read
                if item.error
            ]
        return found

    def serves(self, kinds: Collection[Kind] = ()) -> bool:
        """Return True if any skill has an artifact of one of these kinds, or if there is any skill when no kind is given."""
        with self._database.read() as connection:
            # The kinds in outdated rows may be wrong, so the rows answer only if all are current.
            if not kinds or not skills.get_stale(connection, self._tenant):
                return skills.has_kinds(connection, self._tenant, kinds)
        return any(not set(kinds).isdisjoint(card.kinds) for card in self.list_skills())

    def changes(self, since: str = "") -> Changes:
        """Return the changes from the version log. Rows that another program edited directly do not show up."""
        with self._database.read() as connection:
            position, slugs = versions.read_feed(connection, self._tenant, since)
        return Changes(position=position, slugs=slugs)

    def documents(self, slugs: Collection[str] | None = None) -> Iterator[SearchDocument]:
        """Yield the documents of these skills, or of all. No connection is held between two portions."""
        if slugs is not None:
            slugs = set(filter(is_slug, slugs))  # PostgreSQL takes no text with a NUL
        with self._database.read() as connection:
            marks = skills.get_marks(connection, self._tenant, slugs)
            seals = seals_of(connection)
        selected = set(marks) if slugs is None else set(slugs).intersection(marks)
        unread = set(selected)
        for texts in self._sealed_texts(selected, whole=slugs is None):
            # A row counts only with a valid seal and from this reader. Other skills are read from their files below.
            mark = marks.get(texts[0], skills.Mark())
            if is_current(mark.reader) and skills.check_texts(seals, mark, texts):
                unread.discard(texts[0])
                yield _document(texts, self.scope, people_only=mark.people_only)
        for found in self._read_again(unread):
            if found.skill is not None:
                yield SearchDocument.of(found.skill)

    def _sealed_texts(self, slugs: Collection[str], *, whole: bool) -> Iterator[index_texts.Texts]:
        """Yield the texts of rows, whose seals are not checked yet; damaged rows are left out."""
        if not whole:
            with self._database.read() as connection:
                rows = index_texts.texts_of(connection, self._tenant, sorted(slugs))
            yield from _readable(rows)
            return
        # Portions by slug: no transaction stays open while the caller works, and memory stays bounded.
        after = ""
        while True:
            with self._database.read() as connection:
                rows = index_texts.next_texts(connection, self._tenant, after)
            yield from _readable(rows)
            if len(rows) < index_texts.PORTION:
                return
            after = str(rows[-1][0])

    def get_skill(self, skill_id: str) -> Skill | None:
        """Return a skill with all its artifacts, or None."""
        return found.skill if (found := self._read_by_id(skill_id)) else None

    def get_skill_by_name(self, name: str) -> Skill | None:
        """Return a skill by slug, or None."""
        return found.skill if (found := self._read_by_name(name)) else None

    def get_outline(self, name: str) -> SkillOutline | None:
        """Return a skill by slug without content, or None."""
        return found.outline if (found := self._read_by_name(name)) else None

    def get_document(self, skill_id: str) -> str | None:
        """Return the text of a skill's main file, or None."""
        return found.document if (found := self._read_by_id(skill_id)) else None

    def get_artifact(self, artifact_id: str) -> Artifact | None:
        """Return an artifact by id, or None."""
        if not _ID.fullmatch(artifact_id):
            return None
        with self._database.read() as connection:
            owner = artifacts.owner_of(connection, self._tenant, artifact_id)
            # An outdated skill may have an artifact that only the reader of this process finds, and that has no row
            # yet.
            stale = () if owner else skills.get_stale(connection, self._tenant)
        if owner is not None:
            skill = self.get_skill(owner)
            owners = [skill] if skill else []
        else:
            owners = [found.skill for found in self._read_again(stale) if found.skill is not None]
        everything = (artifact for skill in owners for artifact in skill.artifacts)
        return next((artifact for artifact in everything if artifact.id == artifact_id), None)

    def _read_by_id(self, skill_id: str) -> StoredReading | None:
        if not _ID.fullmatch(skill_id):
            return None
        with self._database.read() as connection:
            return self._stored.read(connection, skills.get_key(connection, self._tenant, skill_id))

    def _read_by_name(self, name: str) -> StoredReading | None:
        if not is_slug(name):
            return None
        with self._database.read() as connection:
            return self._stored.read(connection, skills.get_key_by_slug(connection, self._tenant, name))

    def get_package(self, skill_id: str) -> Package | None:
        """Return all files of a skill, or None."""
        if not _ID.fullmatch(skill_id):
            return None
        with self._database.read() as connection:
            files = skills.get_files(connection, self._tenant, skill_id)
            if files is None:
                return None
            return blobs.get_package(connection, files.package, files.manifest, digest=files.digest, slug=files.slug)

    def read_file(self, skill_id: str, path: str) -> bytes:
        """Return one file by its exact path in the manifest. Only its bytes are read."""
        if not _ID.fullmatch(skill_id):
            raise unknown_id("skill", skill_id, self.location)
        with self._database.read() as connection:
            files = skills.get_files(connection, self._tenant, skill_id)
            if files is None:
                raise unknown_id("skill", skill_id, self.location)
            paths = [entry.path for entry in files.manifest]
            if path not in paths:
                raise unknown_file(path, paths)
            return blobs.get_blob(connection, files.manifest, path, digest=files.digest, slug=files.slug)

    def save_reading(
        self, reading: Reading, *, expected: str | None, change: EditChange | None, actor: str, note: str
    ) -> Skill:
        """Save an accepted reading in one transaction. The skill is locked before digests are compared."""
        outcome = self._save_reading(
            SaveRequest(reading=reading, expected=expected, change=change, actor=actor, note=note)
        )
        if outcome.error:
            raise outcome.error
        return outcome.saved

    def save_all(self, packages: Iterable[Package], *, replace: bool = False, actor: str = "") -> list[SaveResult]:
        """Save many packages, each independently of the others. A few hundred share one transaction."""
        saved: list[SaveResult] = []
        for batch in _batches(packages, self.limits, actor, replace=replace):
            requests = [item for item in batch if isinstance(item, SaveRequest)]
            outcomes = iter(self.save_requests(requests))
            saved += [_saved(next(outcomes)) if isinstance(item, SaveRequest) else item for item in batch]
        return saved

    def get_digests(self) -> dict[str, str]:
        """Return the digest of every skill, by slug. No skill is read."""
        with self._database.read() as connection:
            return skills.get_digests(connection, self._tenant)

    def is_in(self, database: Connections) -> bool:
        """Return True if the skills are in this database."""
        return self._database is database

    def remember(self, saved: Skill, package: Package) -> None:
        """Keep a skill in memory that was just saved with these files, for a caller that reads it next."""
        self._stored.remember(saved, package)

    def save_requests(self, requests: Sequence[SaveRequest], finish: Finish = _no_more) -> list[SaveOutcome]:
        """Save skills that were accepted before, and let `finish` record what belongs to the outcomes, see `TransactionalStore`.

        All are saved in one transaction, retried once after a conflict. If that fails, each is saved in its own.
        """
        # `Invalid` too: the database may reject the text of one skill, which fails the transaction of all.
        with suppress(Conflict, Invalid):
            return self._record(requests, finish)
        with suppress(Conflict, Invalid):
            return self._record(requests, finish)
        return [self._save_alone(request, finish) for request in requests]

    def delete_skills(
        self, expected: Mapping[str, str], finish: Callable[[sa.Connection, list[str]], None], *, actor: str
    ) -> None:
        """Remove the skills that still have these digests, by slug, in one transaction; their versions stay.

        `finish` gets the slugs of those that were removed.
        """
        with self._database.write() as connection:
            stored = skills.lock_by_slug(connection, self._tenant, list(expected))
            same = {slug: row.key for slug, row in stored.items() if row.key.digest == expected[slug]}
            for slug in sorted(same):
                self._delete(connection, same[slug].id, expected=None, actor=actor, note="")
            finish(connection, sorted(same))

    def delete_skill(self, skill_id: str, *, expected: str | None = None, actor: str = "", note: str = "") -> None:
        """Remove a skill with its artifacts; its versions stay."""
        if not _ID.fullmatch(skill_id):
            raise unknown_id("skill", skill_id, self.location)
        with self._database.write() as connection:
            self._delete(connection, skill_id, expected=expected, actor=actor, note=note)

    def _delete(self, connection: sa.Connection, skill_id: str, *, expected: str | None, actor: str, note: str) -> None:
        files = skills.lock_files(connection, self._tenant, skill_id)
        if files is None:
            raise unknown_id("skill", skill_id, self.location)
        if expected is not None and files.digest != expected:
            raise digest_conflict(files.slug, expected, files.digest)
        entry = versions.NewVersion(
            slug=files.slug,
            package=files.package,
            manifest=files.manifest,
            digest=files.digest,
            form=files.form,
            change="delete",
            actor=actor,
            note=note,
        )
        versions.append_versions(connection, self._tenant, [entry])
        skills.delete_skill(connection, self._tenant, skill_id)

    def _save_reading(self, request: SaveRequest, finish: Finish = _no_more) -> SaveOutcome:
        """Save one request. A writer that loses a race tries again and then sees what the winner wrote."""
        # Rows that do not exist yet cannot be locked. Two writers that create the same slug on PostgreSQL are separated
        # only by the unique index, which fails the second one after its own comparison found nothing.
        for _ in range(_ATTEMPTS - 1):
            with suppress(Conflict):
                return self._record([request], finish)[0]
        return self._record([request], finish)[0]

    def _save_alone(self, request: SaveRequest, finish: Finish) -> SaveOutcome:
        try:
            return self._save_reading(request, finish)
        except ProwessError as error:
            return SaveOutcome(request=request, error=error)

    def _record(self, requests: Sequence[SaveRequest], finish: Finish) -> list[SaveOutcome]:
        with self._database.write() as connection:
            outcomes = record(connection, self._tenant, requests, self.location)
            finish(connection, outcomes)
        return outcomes

    def _read_again(self, slugs: Collection[str]) -> Iterator[Reread]:
        """Read skills from their files whose rows cannot be used, and replace the rows where that is due."""
        for portion in blobs.split_chunks(sorted(slugs)):
            with self._database.read() as connection:
                found = self._stored.read_again(connection, portion)
            due = [item for item in found if item.due]
            if due:
                # A database that cannot be written to now serves what was read; the next process tries again.
                with suppress(ProwessError), self._database.write() as connection:
                    replace_derived(connection, self._tenant, due)
            yield from found


def _readable(rows: Iterable[tuple[Any, ...]]) -> Iterator[index_texts.Texts]:
    for row in rows:
        try:
            texts = index_texts.texts_in(row)
        except skills.DAMAGE:
            continue
        yield texts


def _document(texts: index_texts.Texts, scope: Scope, *, people_only: bool) -> SearchDocument:
    slug, title, description, version, digest, tags, phrases, patterns, when, keywords, chars, body = texts
    return SearchDocument(
        slug=slug,
        title=title,
        description=description,
        tags=tags,
        triggers=(when, *phrases) if when else phrases,
        patterns=patterns,
        keywords=keywords,
        body=body,
        version=version,
        scope=scope,
        digest=digest,
        chars=chars,
        people_only=people_only,
    )


def _batches(
    packages: Iterable[Package], limits: Limits, actor: str, *, replace: bool
) -> Iterator[list[SaveRequest | SaveResult]]:
    """Split the packages into batches, limited in number and bytes, with no slug twice, so that each can be one transaction."""
    batch: list[SaveRequest | SaveResult] = []
    slugs: set[str] = set()
    size = 0
    for package in packages:
        try:
            reading = accept(package, limits)
            slug = accepted_skill(reading)[0].slug
        except ProwessError as error:
            batch.append(SaveResult(package=package, skill=None, error=error, changed=False))
            continue
        if slug in slugs or len(batch) >= BATCH or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
            slugs.clear()
        batch.append(SaveRequest(reading=reading, replace=replace, actor=actor))
        slugs.add(slug)
        size += sum(len(file.content) for file in package.files)
    if batch:
        yield batch


def _saved(outcome: SaveOutcome) -> SaveResult:
    return SaveResult(
        package=outcome.request.reading.package, skill=outcome.skill, error=outcome.error, changed=outcome.changed
    )
