"""Bring what a source delivers into the catalog: compare first, then write each skill whole or not at all.

The rules are the same for every kind of source:

- Files that are stored already are not written again, and a skill that cannot be read or is not valid stops no other one.
- A skill that someone edited or deleted here is never touched. It is a conflict if the source changed it too.
- A slug that another skill has, in the scope or in one that it would hide, is a conflict: nothing is shadowed.
- A skill that the source no longer has is deleted, with its versions kept, if nobody edited it. Nothing counts as removed if
  the source may have more skills than were fetched, or has none at all.

Each skill, its version, the record of what was delivered and its audit row are one transaction. A process that is killed leaves
some skills of the new state and some of the old one; the next sync compares again and continues.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from prowess.catalog.database_store import BATCH, DatabaseStore
from prowess.catalog.database_writes import SaveOutcome, SaveRequest
from prowess.catalog.store_rules import accepted_skill
from prowess.errors import Conflict, DuplicateSkill, Problem, ProwessError, Refused
from prowess.skill.forms.form import Reading
from prowess.skill.limits import Limits
from prowess.skill.model import Provenance
from prowess.skill.needs import read_needs
from prowess.skill.package import Package
from prowess.skill.profiles.permissions import describe_needs, summarize_permissions
from prowess.skill.validate import accept
from prowess.sources.fetched import Fetched, FetchedSkill
from prowess.sources.sync_result import SkillChange, SkillStatus
from prowess.storage import ledger, sources
from prowess.storage.database import Connections
from prowess.storage.ledger import AuditEntry
from prowess.storage.sources import Source, SourceItem

if TYPE_CHECKING:
    import sqlalchemy as sa

MAX_SKILLS = 10_000
"""How many skills a source may have. Those beyond are refused."""
MAX_PROBLEMS = 200
"""How many skills that were not taken are stored with the result of a sync."""


class SyncStopped(Exception):
    """Another process has taken over the sync. Not a `ProwessError`, so that no single skill is blamed for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedChange(SkillChange):
    """A change with the files that it writes."""

    reading: Reading | None = field(default=None, compare=False, repr=False)
    origin: Mapping[str, str] = field(default_factory=dict[str, str], compare=False)
    """Where exactly it is from; see `FetchedSkill.origin`."""

    def failed(self, error: ProwessError) -> PlannedChange:
        """Return the change as one that could not be made."""
        status: SkillStatus = (
            "conflict" if isinstance(error, Conflict) else "refused" if isinstance(error, Refused) else "invalid"
        )
        return replace(self, status=status, message=error.message, hint=error.hint or "", reading=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """The state of the catalog before a sync."""

    digests: Mapping[str, str]
    """The digest of every skill of the scope, by slug."""
    items: Mapping[str, SourceItem]
    """The skills that the source delivered before, by slug."""
    hidden: Callable[[], Mapping[str, str]]
    """Return the scopes of the skills, by slug, that a skill in the scope would hide. Called only if there is a new skill."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The plan of a sync."""

    changes: tuple[PlannedChange, ...]
    forgotten: tuple[str, ...] = ()
    """Slugs that the source delivered once, and that are no longer its own."""
    warnings: tuple[Problem, ...] = ()


def plan_sync(
    fetched: Fetched,
    stored: Stored,
    *,
    limits: Limits,
    take: Collection[str] = (),
    keep_removed: bool = False,
    scan: Callable[[Package], tuple[dict[str, Any], ...]] = lambda _: (),
) -> Plan:
    """Compare what was fetched with what is stored. Reads and validates only skills with other files than before.

    `take` are the slugs of edited or deleted skills that are to be as the source has them after all.
    """
    if fetched.unchanged:
        same = [PlannedChange(status="unchanged", path=item.path, slug=item.slug) for item in stored.items.values()]
        return Plan(changes=tuple(same), warnings=fetched.warnings)
    planner = _Planner(stored=stored, limits=limits, take=frozenset(take), scan=scan)
    # The folder that delivered a slug before comes first: another one that claims it now is the conflict.
    known = {item.path for item in stored.items.values()}
    ordered = sorted(fetched.skills, key=lambda skill: (skill.path not in known, skill.path))
    changes = [planner.decide(skill) for skill in ordered[:MAX_SKILLS]]
    changes += [_too_many(skill.path) for skill in ordered[MAX_SKILLS:]]
    changes += [PlannedChange(status="invalid", path=one.path).failed(one.error) for one in fetched.unreadable]
    warnings = fetched.warnings
    gone: list[SourceItem] = []
    if fetched.complete:
        failed = {change.path for change in changes if change.status in ("invalid", "refused")}
        gone = [item for slug, item in stored.items.items() if slug not in planner.seen and item.path not in failed]
    # An empty answer is far more often a renamed folder or a broken export than an intended deletion of everything.
    if gone and not fetched.skills:
        gone = []
        warnings = (*warnings, _nothing_found(len(stored.items)))
    removals = [] if keep_removed else [_removal(item, stored.digests.get(item.slug)) for item in gone]
    forgotten = [change.slug for change in removals if change.status != "removed"]
    listed = [change for change in removals if change.status == "removed" or change.slug in stored.digests]
    return Plan(changes=(*changes, *listed), forgotten=tuple(forgotten), warnings=warnings)


@dataclass(slots=True, kw_only=True)
class _Planner:
    """Decides about the skills of one fetch, in order."""

    stored: Stored
    limits: Limits
    take: frozenset[str]
    scan: Callable[[Package], tuple[dict[str, Any], ...]]
    seen: set[str] = field(default_factory=set[str])
    _by_path: dict[str, SourceItem] = field(init=False)
    _hidden: Mapping[str, str] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._by_path = {item.path: item for item in self.stored.items.values()}

    def decide(self, skill: FetchedSkill) -> PlannedChange:
        """Return what to do with a skill."""
        package = skill.package
        known = self._by_path.get(skill.path)
        change = PlannedChange(
            status="unchanged", path=skill.path, digest=package.digest, revision=skill.revision, origin=skill.origin
        )
        # Exactly what was delivered before was valid then. It makes no difference if someone edited the skill: there is
        # nothing new to offer.
        if known is not None and known.digest == package.digest and known.slug not in self.take | self.seen:
            self.seen.add(known.slug)
            return replace(change, slug=known.slug)
        try:
            reading = accept(package, self.limits)
            slug = accepted_skill(reading)[0].slug
        except ProwessError as error:
            return change.failed(error)
        change = replace(change, slug=slug, digest=reading.package.digest, reading=reading)
        if slug in self.seen:
            return change.failed(
                Conflict(f"Two skills of the source have the slug {slug!r}.", hint="Rename one of them at the source.")
            )
        self.seen.add(slug)
        return self._compare(change, slug)

    def _compare(self, change: PlannedChange, slug: str) -> PlannedChange:
        item, now = self.stored.items.get(slug), self.stored.digests.get(slug)
        if now == change.digest:
            # The same files that someone imported here stay theirs.
            return change if item else replace(change, reading=None, message="These files are stored here already.")
        change = replace(change, replaces=now or "")
        if item is not None and now != item.digest and slug not in self.take:
            if item.digest == change.digest:
                return change  # edited here, and the same as ever at the source
            return change.failed(_edited(slug) if now else _deleted(slug))
        if item is None and now is not None:
            return change.failed(_taken(slug, "this scope"))
        if now is None:
            scope = self._would_hide().get(slug)
            if scope:
                return change.failed(_taken(slug, f"the {scope} scope"))
        status: SkillStatus = "updated" if now else "added"
        reading = _reading_of(change)
        skill = accepted_skill(reading)[0]
        paths = [entry.path for entry in skill.manifest]
        wants = (
            *describe_needs(read_needs(skill), skill.kinds),
            *summarize_permissions(skill.allowed_tools, paths, ""),
        )
        return replace(
            change,
            status=status,
            title=skill.title,
            description=skill.description,
            requests=wants,
            findings=self.scan(reading.package),
        )

    def _would_hide(self) -> Mapping[str, str]:
        if self._hidden is None:
            self._hidden = self.stored.hidden()
        return self._hidden


def _reading_of(change: PlannedChange) -> Reading:
    if change.reading is None:
        raise ValueError(f"The files at {change.path!r} were not read.")
    return change.reading


def _removal(item: SourceItem, now: str | None) -> PlannedChange:
    change = PlannedChange(status="removed", path=item.path, slug=item.slug, digest=item.digest, replaces=now or "")
    if now == item.digest:
        return change
    return replace(
        change,
        status="conflict",
        message=f"The source no longer has {item.slug!r}. It was edited here, so it is kept as your own skill.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """Writes a plan to a store. Blocking.

    `hold` is called in every transaction and raises `SyncStopped` if another sync has taken over.
    """

    source: Source
    store: DatabaseStore
    provenance: Provenance
    actor: str
    channel: str
    records: Connections
    """The database of the store, which also keeps sources and the audit log."""
    hold: Callable[[sa.Connection], None]
    url_of: Callable[[str], str]
    """Return the address of a path in the source."""

    @property
    def label(self) -> str:
        """The author of the versions that the source delivers."""
        return f"source:{self.source.id}"

    def apply(self, plan: Plan, step: Callable[[int, int], None] = lambda _done, _total: None) -> list[PlannedChange]:
        """Make the changes and return them as they turned out; what could not be written is a conflict or refused."""
        written = [change for change in plan.changes if change.status in ("added", "updated")]
        results = {(change.path, change.slug): change for change in plan.changes}
        removed = [change for change in plan.changes if change.status == "removed"]
        done, total = 0, len(written) + len(removed)
        for batch in _split(written):
            results |= {(change.path, change.slug): change for change in self._save(batch)}
            done += len(batch)
            step(done, total)
        for portion in _split(removed):
            results |= {(change.path, change.slug): change for change in self._remove(portion)}
            done += len(portion)
            step(done, total)
        # Skills that moved inside the source, or that someone here brought to the same state, need no write of their own.
        self._remember(plan)
        return [results[change.path, change.slug] for change in plan.changes]

    def _save(self, changes: Sequence[PlannedChange]) -> Iterator[PlannedChange]:
        by_slug = {change.slug: change for change in changes}

        def finish(connection: sa.Connection, outcomes: list[SaveOutcome]) -> None:
            self.hold(connection)
            written = [by_slug[outcome.skill.slug] for outcome in outcomes if outcome.skill is not None]
            sources.put_items(connection, self.source, list(map(_item, written)))
            self._audit(connection, [change for change in written if change.reading is not None])

        outcomes = self.store.save_requests([self._request(change) for change in changes], finish)
        for change, outcome in zip(changes, outcomes, strict=True):
            yield change if outcome.error is None else change.failed(_as_conflict(outcome.error, change))

    def _request(self, change: PlannedChange) -> SaveRequest:
        return SaveRequest(
            reading=_reading_of(change),
            # Against the files that were compared: an edit that happens in the meantime wins.
            expected=change.replaces or None,
            actor=self.label,
            note=f"{self.source.name} {change.revision or self.source.revision}".strip()[:200],
            provenance=self.provenance.model_copy(update={"source_url": self.url_of(change.path), **change.origin}),
        )

    def _remove(self, changes: Sequence[PlannedChange]) -> Iterator[PlannedChange]:
        removed: set[str] = set()

        def finish(connection: sa.Connection, slugs: list[str]) -> None:
            self.hold(connection)
            removed.update(slugs)
            sources.remove_items(connection, self.source, slugs)
            self._audit(connection, [change for change in changes if change.slug in removed])

        self.store.delete_skills({change.slug: change.digest for change in changes}, finish, actor=self.label)
        for change in changes:
            yield change if change.slug in removed else change.failed(_edited(change.slug))

    def _remember(self, plan: Plan) -> None:
        moved = [
            _item(change) for change in plan.changes if change.status == "unchanged" and change.reading is not None
        ]
        if moved or plan.forgotten:
            with self.records.write() as connection:
                self.hold(connection)
                sources.put_items(connection, self.source, moved)
                sources.remove_items(connection, self.source, plan.forgotten)

    def _audit(self, connection: sa.Connection, changes: Iterable[PlannedChange]) -> None:
        actions = {"added": "install", "updated": "update", "removed": "delete"}
        entries = [
            AuditEntry(
                actor=self.actor,
                channel=self.channel,
                action=actions[change.status],
                slug=change.slug,
                digest=change.digest,
                outcome="synced",
                detail={"source_id": self.source.id, "path": change.path, "revision": change.revision},
            )
            for change in changes
        ]
        ledger.append(connection, self.source.organization_id, audits=entries)


def _split(changes: Sequence[PlannedChange]) -> Iterator[Sequence[PlannedChange]]:
    # Sorted, so that the rows of a batch are near each other in the index.
    ordered = sorted(changes, key=lambda change: change.slug)
    return (ordered[start : start + BATCH] for start in range(0, len(ordered), BATCH))


def _item(change: PlannedChange) -> SourceItem:
    return SourceItem(slug=change.slug, path=change.path, digest=change.digest, revision=change.revision)


def _as_conflict(error: ProwessError, change: PlannedChange) -> ProwessError:
    if isinstance(error, DuplicateSkill):
        return _taken(change.slug, "this scope")
    return _edited(change.slug) if isinstance(error, Conflict) else error


def _too_many(path: str) -> PlannedChange:
    error = Refused(
        f"The source has more than {MAX_SKILLS:,} skills.",
        hint="Limit it with a path, or split it into several sources.",
    )
    return PlannedChange(status="refused", path=path).failed(error)


def _nothing_found(many: int) -> Problem:
    return Problem(
        code="source-empty",
        severity="warning",
        message=f"The source has no skills now. The {many} that it delivered before are kept.",
        hint="Check its path and ref. To remove them, delete the source with its skills.",
    )


def _taken(slug: str, where: str) -> Conflict:
    return Conflict(
        f"Another skill in {where} has the slug {slug!r}.",
        hint="Rename or delete that one, or ask the owner of the source for another name, then sync again.",
    )


def _edited(slug: str) -> Conflict:
    return Conflict(
        f"The skill {slug!r} was edited here and has changed at the source. The edited version stays.",
        hint=f"To replace it with the version of the source, sync with `--take {slug}`.",
    )


def _deleted(slug: str) -> Conflict:
    return Conflict(
        f"The skill {slug!r} was deleted here and has changed at the source. It stays deleted.",
        hint=f"To get it back, sync with `--take {slug}`.",
    )
