"""The catalog merges many stores into one. The nearest scope wins, and its card lists what it hides."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from time import monotonic
from typing import TypeVar

from prowess.catalog.collisions import Hidden, check_strictly, resolve_claims
from prowess.catalog.scans import Scans
from prowess.catalog.store import Fault, FileReader, SearchDocument, Store, store_key
from prowess.catalog.store_rules import (
    Failure,
    check_available,
    check_databases,
    store_fault,
    suggest_names,
    with_versions,
)
from prowess.errors import Invalid, NotFound, ProwessError, Unavailable
from prowess.lazy_dataclass import dataclass
from prowess.skill.kinds import Kind
from prowess.skill.model import SCOPES, Skill, SkillCard, Version
from prowess.skill.outline import SkillOutline
from prowess.skill.slug import check_name

T = TypeVar("T")
RECENT_SECONDS = 1.0
"""How long the list of stores is reused when a skill is looked up by name."""
_MAX_RECENT_OUTLINES = 4_096
Stores = Sequence[Store] | Callable[[], Sequence[Store]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogChanges:
    """The changes in all stores: the current position of each store by key, and the slugs to read again.

    `slugs` is None if that is unknown; everything must then be read again.
    """

    positions: dict[str, str]
    slugs: frozenset[str] | None


class Catalog:
    """Merges stores: nearest scope first, and within a scope in the given order.

    Across scopes the nearer skill wins, and its card lists what it hides. Within one scope, a second skill with the same
    slug is reported as a fault, unless its files are the same. A store that fails is reported; the others keep serving.
    A `strict` catalog serves nothing if sources have different skills of one name, or if a file has unknown fields.
    `emptied` returns stores that serve nothing now, and may have versions of deleted skills.
    """

    def __init__(
        self,
        stores: Stores,
        scans: Scans | None = None,
        *,
        strict: bool = False,
        emptied: Callable[[], Sequence[Store]] = tuple,
    ) -> None:
        self._given = stores
        self._emptied = emptied
        self._strict = strict
        self.scans = scans or Scans()
        """The findings about skills, by digest."""
        self._seen: tuple[float, list[Store]] = (-RECENT_SECONDS, [])
        self._recent_outlines: dict[tuple[str, str], tuple[float, SkillOutline | None]] = {}
        self._recent_listing: tuple[float, list[str], list[Fault]] = (-RECENT_SECONDS, [], [])

    def stores(self) -> list[Store]:
        """Return the stores in the order in which they are searched."""
        stores = self._given() if callable(self._given) else self._given
        found = sorted(stores, key=lambda store: SCOPES.index(store.scope))
        self._seen = (monotonic(), found)
        return found

    def reaches(self, scope: str, location: str) -> bool:
        """Return True if a store of this scope contains the location."""
        return any(
            location == store.location or location.startswith(f"{store.location.rstrip('/')}/")
            for store in self.recent_stores()
            if store.scope == scope
        )

    def recent_stores(self) -> list[Store]:
        """Return the stores found within the last second: finding them takes longer than reading a skill."""
        when, found = self._seen
        return found if monotonic() - when < RECENT_SECONDS else self.stores()

    def cards(self) -> list[SkillCard]:
        """Return one card per slug, sorted, each with what it hides."""
        return self.look()[0]

    def all_cards(self) -> list[SkillCard]:
        """Return the cards. Raise `Unavailable` if a database cannot be read: without its skills they would look complete."""
        cards, faults = self.look()
        check_databases(faults)
        return cards

    def faults(self) -> list[Fault]:
        """Return the skills that exist but are not served: invalid skills, slug conflicts, failing stores."""
        return self.look()[1]

    def serves(self, kinds: Collection[Kind] = ()) -> bool:
        """Return True if any store has a skill with an artifact of one of these kinds, or any skill when no kind is given.

        Call `changes` first: folders answer by their last scan. A store that fails counts as empty.
        """
        recent = self.recent_stores()
        if any(_serves(store, kinds) for store in recent):
            return True
        return any(_serves(store, kinds) for store in self.stores() if store not in recent)

    def changes(self, since: Mapping[str, str]) -> CatalogChanges:
        """Return the changes since the positions that an earlier call returned. Nothing is missed.

        The changes are unknown if the set of stores changed or a store fails. A failing store gets the position '', so that
        the changes are unknown next time too.
        """
        if self._strict:
            self.look()  # raises
        positions: dict[str, str] = {}
        slugs: set[str] = set()
        known = True
        for key, store in self._stores_by_key():
            try:
                found = store.changes(since.get(key, ""))
            except (ProwessError, OSError):
                positions[key] = ""
                known = False
                continue
            positions[key] = found.position
            known = known and found.slugs is not None
            slugs |= found.slugs or frozenset()
        # A store that is gone took its skills with it, and one that is new may hide skills of others.
        known = known and positions.keys() == since.keys()
        return CatalogChanges(positions=positions, slugs=frozenset(slugs) if known else None)

    def served(self) -> dict[str, tuple[str, str]]:
        """Return the scope and digest of every served skill by slug."""
        found: dict[str, tuple[str, str]] = {}
        for store in self.stores():
            # What a store cannot serve does not matter here, and asking for it would scan a folder once more.
            with suppress(ProwessError, OSError):
                for card in store.list_skills():
                    found.setdefault(card.slug, (card.scope, card.digest))
        return found

    def documents(
        self, slugs: Collection[str] | None = None, *, away: Callable[[str], None] = lambda _: None
    ) -> Iterator[SearchDocument]:
        """Yield the documents of the served skills: of these slugs, or of all; each slug once.

        Call `changes` first: writes that happen in the meantime are then reported next time. `away` is called with the key of each
        store that fails, so that its position can be discarded.
        """
        seen: set[str] = set()
        for key, store in self._stores_by_key():
            own: set[str] = set()
            try:
                for found in store.documents(slugs):
                    if found.slug not in seen and found.slug not in own:
                        own.add(found.slug)
                        yield found
            except (ProwessError, OSError):
                away(key)
            seen |= own

    def documents_at(self, key: str, locations: Collection[str]) -> list[SearchDocument]:
        """Return the documents of the valid skills at these locations of one store, by its key; [] if it keeps no files.

        Nothing else is read, so it is unknown whether these skills are served.
        """
        for known, store in self._stores_by_key():
            if known == key and isinstance(store, FileReader):
                return list(store.documents_at(locations))
        return []

    def _stores_by_key(self) -> Iterator[tuple[str, Store]]:
        """Yield the stores in order, each with a unique key that stays the same as long as the stores do."""
        counts: dict[str, int] = {}
        for store in self.stores():
            key = store_key(store)
            counts[key] = counts.get(key, 0) + 1
            yield (key if counts[key] == 1 else f"{key}#{counts[key]}"), store

    def card(self, slug: str) -> SkillCard | None:
        """Return the card that is served for a slug, with what it hides, as `cards` has it; None if there is none.

        Raise `Unavailable` if a store that did not respond may have it.
        """
        claims: list[tuple[Store, SkillCard]] = []
        unavailable: list[Failure] = []
        for store in self.recent_stores():
            try:
                skill = store.get_skill_by_name(slug)
                claims += [(store, skill.card)] if skill else []
            except (ProwessError, OSError) as error:
                unavailable.append((store.location, error))
        if claims:
            return resolve_claims(claims)[0]
        check_available(slug, unavailable)
        return None

    def get(self, slug: str) -> Skill:
        """Return a skill by slug, or by `scope:slug` if a nearer scope hides it."""
        return self.find(slug)[1]

    def find(self, slug: str) -> tuple[Store, Skill]:
        """Return a skill with the store that holds it. Stores are asked by name, nearest first; none is listed."""
        return self._find(slug, lambda store, name: store.get_skill_by_name(name))

    def find_outline(self, slug: str) -> tuple[Store, SkillOutline]:
        """Return the outline of a skill with the store that holds it. Addresses work as in `get`."""
        return self._find(slug, lambda store, name: store.get_outline(name))

    def digest(self, slug: str) -> str:
        """Return the digest of a skill, or raise `NotFound`. Cheaper than `find_outline`. Addresses work as in `get`."""
        return self._find(slug, lambda store, name: store.get_digest(name))[1]

    def outline(self, slug: str) -> SkillOutline | None:
        """Return the outline of a skill, or None. Cheaper than `find_outline` for an unknown slug: no suggestions are computed."""
        found = self._search(slug, lambda store, name: store.get_outline(name), [])
        return found[1] if found else None

    def hidden_by(self, store: Store, outline: SkillOutline) -> Hidden:
        """Return the skills of the same slug with other files that are not served because of this one, nearest first.

        A store that fails hides nothing that could be used.
        """
        stores = self.recent_stores()
        keys = [store_key(known) for known in stores]
        position = keys.index(store_key(store)) if store_key(store) in keys else -1
        found = [(other, self._recent_outline(other, outline.slug)) for other in stores[position + 1 :]]
        return tuple(
            (other, hidden) for other, hidden in found if hidden is not None and hidden.digest != outline.digest
        )

    def _recent_outline(self, store: Store, slug: str) -> SkillOutline | None:
        """Return a skill of one store, None if it has none or fails. For a folder, the answer may be a second old.

        Looking for a name that a folder does not have scans the whole folder. A database answers at once.
        """
        key = (store_key(store), slug)
        when, found = self._recent_outlines.get(key, (-RECENT_SECONDS, None))
        if store.folder and monotonic() - when < RECENT_SECONDS:
            return found
        try:
            found = store.get_outline(slug)
        except (ProwessError, OSError):
            found = None
        if store.folder:
            if len(self._recent_outlines) >= _MAX_RECENT_OUTLINES:
                self._recent_outlines.clear()
            self._recent_outlines[key] = (monotonic(), found)
        return found

    def _find(self, slug: str, ask: Callable[[Store, str], T | None]) -> tuple[Store, T]:
        unavailable: list[Failure] = []
        found = self._search(slug, ask, unavailable)
        if self._strict:
            self._recent_names()  # raises
        if found is None:
            check_available(slug, unavailable)
            raise self._not_found(slug, _split_address(slug, [])[1], unavailable)
        return found

    def _search(
        self, slug: str, ask: Callable[[Store, str], T | None], unavailable: list[Failure]
    ) -> tuple[Store, T] | None:
        """Ask the recently found stores, then, if none has it, the stores that exist now. Failing stores are added to `unavailable`."""
        asked: list[Store] = []
        # The second pass finds a store that was added within the last second; stores that were asked already are
        # skipped.
        for known in (self.recent_stores, self.stores):
            stores, name = _split_address(slug, known())
            for store in stores:
                if store in asked:
                    continue
                asked.append(store)
                try:
                    found = ask(store, name)
                except (ProwessError, OSError) as error:
                    unavailable.append((store.location, error))
                    continue
                if found is not None:
                    return store, found
        return None

    def is_gone(self, slug: str) -> bool:
        """Return True if every addressed store answered and none serves the skill. Addresses work as in `get`."""
        stores, name = _split_address(slug, self.stores())
        try:
            return all(store.get_outline(name) is None for store in stores)
        except (ProwessError, OSError):
            return False  # a store that does not answer may have it

    def history(self, slug: str) -> tuple[Store, list[Version]]:
        """Return the versions of a skill (at least one) with the store that holds them. Works for deleted skills too."""
        try:
            store, skill = self.find(slug)
        except (NotFound, Unavailable):
            for found in self._past(slug):
                return found
            raise
        versions = store.versions(skill.slug)
        if not versions:
            raise NotFound(
                f"{skill.slug!r} has no versions yet.",
                hint="A version is stored whenever Prowess changes a skill. Skills that you only edit "
                "by hand have none.",
            )
        return store, versions

    def _past(self, slug: str) -> Iterator[tuple[Store, list[Version]]]:
        """Yield the versions of a skill that is not served, with the stores that have them. Addresses work as in `get`."""
        return with_versions(*_split_address(slug, [*self.stores(), *self._emptied()]))

    def _not_found(self, slug: str, name: str, unavailable: Sequence[Failure]) -> NotFound:
        for location, error in unavailable:
            # The store has the skill and refuses to serve it, for instance because its bytes were changed.
            if isinstance(error, Invalid):
                return _broken(slug, location, error.message, error.hint)
        slugs, faults = self._recent_names()
        broken = next((fault for fault in faults if fault.slug == name), None)
        if broken is not None and broken.problems:
            first = broken.problems[0]
            reason = f"{first.place}: {first.message}" if first.place else first.message
            return _broken(slug, broken.location, reason, first.hint)
        last = next((versions[-1] for _, versions in self._past(slug)), None)
        hint = suggest_names(name, slugs)
        if last is not None and last.change == "delete":
            hint = f"It was deleted. Restore it with `prowess rollback {slug} {last.number}`."
        if unavailable:
            hint += f" These stores could not be read: {', '.join({location: None for location, _ in unavailable})}."
        return NotFound(f"Skill {slug[:80]!r} not found.", hint=hint)

    def _recent_names(self) -> tuple[list[str], list[Fault]]:
        """Return slugs and faults, at most one second old, so that a client trying many names does not list everything each time."""
        when, slugs, faults = self._recent_listing
        if monotonic() - when < RECENT_SECONDS:
            return slugs, faults
        cards, faults = self.look()
        slugs = [card.slug for card in cards]
        self._recent_listing = (monotonic(), slugs, faults)
        return slugs, faults

    def look(self) -> tuple[list[SkillCard], list[Fault]]:
        """List all stores, and return the merged cards and the faults of the same moment."""
        faults: list[Fault] = []
        merged: dict[str, list[tuple[Store, SkillCard]]] = {}
        unavailable: dict[str, Fault] = {}
        for store in self.stores():
            try:
                cards = store.list_skills()
                faults += store.faults()
            except (ProwessError, OSError) as error:
                # One database may hold several scopes. That it does not respond is reported once.
                unavailable[store.location] = store_fault(store, error)
                continue
            for card in cards:
                merged.setdefault(card.slug, []).append((store, card))
        faults += unavailable.values()
        if self._strict:
            check_strictly(merged, faults)
        served: list[SkillCard] = []
        for slug in sorted(merged):
            card, conflicts = resolve_claims(merged[slug])
            served.append(card)
            faults += conflicts
        return served, sorted(faults, key=lambda fault: (fault.location, fault.slug))


def _broken(slug: str, location: str, reason: str, hint: str) -> NotFound:
    return NotFound(
        f"The skill {slug[:80]!r} at {location!r} cannot be used: {reason}",
        hint=hint,
        for_agents=f"The skill {slug[:80]!r} cannot be used: its files have a problem.",
    )


def _split_address(slug: str, stores: list[Store]) -> tuple[list[Store], str]:
    """Return the stores that an address refers to, and the name to ask them for."""
    scope, colon, name = check_name(slug).partition(":")
    if colon and scope in SCOPES:
        return [store for store in stores if store.scope == scope], name
    return stores, slug


def _serves(store: Store, kinds: Collection[Kind]) -> bool:
    try:
        return store.serves(kinds)
    except (ProwessError, OSError):
        return False
