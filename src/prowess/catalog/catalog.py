"""The catalog: many stores seen as one, in which the nearest scope wins and says what it hides."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import TypeVar

from prowess.catalog.store import Fault, SearchDocument, Store, fault_problem, slug_conflict, store_key
from prowess.catalog.store_rules import suggest_names
from prowess.errors import NotFound, ProwessError
from prowess.skill.kinds import Kind
from prowess.skill.model import SCOPES, Scope, ShadowedSkill, Skill, SkillCard, Version
from prowess.skill.outline import SkillOutline

T = TypeVar("T")
RECENT_SECONDS = 1.0
"""For so many seconds a skill that is asked for by name is looked for where skills were found before."""
Stores = Sequence[Store] | Callable[[], Sequence[Store]]


@dataclass(frozen=True, slots=True)
class _View:
    """What one look at all stores gave."""

    cards: list[SkillCard] = field(default_factory=list[SkillCard])
    faults: list[Fault] = field(default_factory=list[Fault])


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogChanges:
    """What changed in all stores: where each stands now, by its key, and the slugs to read again.

    `slugs` is None where that is not known, so that everything has to be read again.
    """

    positions: dict[str, str]
    slugs: frozenset[str] | None


class Catalog:
    """Merges stores: nearest scope first, and within a scope in the order given.

    Across scopes the nearer skill wins and its card names what it hides. Within one scope a second claim on a
    slug is reported and skipped, unless its files are the same. A store that fails is reported, and the others serve.
    """

    def __init__(self, stores: Stores) -> None:
        self._given = stores
        self._seen: tuple[float, list[Store]] = (-RECENT_SECONDS, [])
        self._advised: tuple[float, list[str], list[Fault]] = (-RECENT_SECONDS, [], [])

    def stores(self) -> list[Store]:
        """The stores in the order in which they are asked."""
        given = self._given() if callable(self._given) else self._given
        found = sorted(given, key=lambda store: SCOPES.index(store.scope))
        self._seen = (monotonic(), found)
        return found

    def reaches(self, scope: str, place: str) -> bool:
        """Whether one of the stores of a scope keeps what lies at a place."""
        return any(
            place == store.location or place.startswith(f"{store.location.rstrip('/')}/")
            for store in self._recent()
            if store.scope == scope
        )

    def _recent(self) -> list[Store]:
        """The stores as of a moment ago: looking for them takes longer than reading a skill."""
        when, found = self._seen
        return found if monotonic() - when < RECENT_SECONDS else self.stores()

    def cards(self) -> list[SkillCard]:
        """One card a slug, sorted, each with what it hides."""
        return self._look().cards

    def faults(self) -> list[Fault]:
        """Everything that is there and not served: bad skills, second claims on a slug, stores that fail."""
        return self._look().faults

    def serves(self, kinds: Collection[Kind] = ()) -> bool:
        """Whether any store has a skill with an artifact of one of these kinds; any skill at all when none is given.

        A store that does not answer has none.
        """
        recent = self._recent()
        if any(_serves(store, kinds) for store in recent):
            return True
        return any(_serves(store, kinds) for store in self.stores() if store not in recent)

    def changes(self, since: Mapping[str, str]) -> CatalogChanges:
        """What changed since the positions that an earlier call gave; nothing is missed.

        It is not known where the stores are not the same ones, or where one does not answer; that one has the position
        '', so that it is not known the next time either.
        """
        positions: dict[str, str] = {}
        slugs: set[str] = set()
        known = True
        for key, store in self._keyed():
            try:
                found = store.changes(since.get(key, ""))
            except (ProwessError, OSError):
                positions[key] = ""
                known = False
                continue
            positions[key] = found.position
            known = known and found.slugs is not None
            slugs |= found.slugs or frozenset()
        known = known and positions.keys() == since.keys()
        return CatalogChanges(positions=positions, slugs=frozenset(slugs) if known else None)

    def served(self) -> dict[str, tuple[str, str]]:
        """Scope and digest of every skill that is served, by slug."""
        return {card.slug: (card.scope, card.digest) for card in self.cards()}

    def documents(
        self, slugs: Collection[str] | None = None, *, away: Callable[[str], None] = lambda _: None
    ) -> Iterator[SearchDocument]:
        """What an index reads of the skills that are served: of these slugs, or of all; each slug once.

        Ask for the `changes` first: what is written meanwhile is then told the next time. `away` is called with the key
        of each store that does not answer, so that its position can be forgotten.
        """
        seen: set[str] = set()
        for key, store in self._keyed():
            own: set[str] = set()
            try:
                for found in store.documents(slugs):
                    if found.slug not in seen and found.slug not in own:
                        own.add(found.slug)
                        yield found
            except (ProwessError, OSError):
                away(key)
            seen |= own

    def _keyed(self) -> Iterator[tuple[str, Store]]:
        """The stores in order, each with a key of its own that stays the same while the stores do."""
        counts: dict[str, int] = {}
        for store in self.stores():
            key = store_key(store)
            counts[key] = counts.get(key, 0) + 1
            yield (key if counts[key] == 1 else f"{key}#{counts[key]}"), store

    def get(self, slug: str) -> Skill:
        """One skill by slug, or by `scope:slug` for one that a nearer scope hides."""
        return self.find(slug)[1]

    def find(self, slug: str) -> tuple[Store, Skill]:
        """The same, with the store that keeps it. Stores are asked by name, nearest first; none is listed."""
        return self._find(slug, lambda store, name: store.get_skill_by_name(name))

    def find_outline(self, slug: str) -> tuple[Store, SkillOutline]:
        """The outline of a skill, with the store that keeps it; it is addressed as in `get`."""
        return self._find(slug, lambda store, name: store.get_outline(name))

    def outline(self, slug: str) -> SkillOutline | None:
        """The outline alone, and None where there is no such skill: for one who needs no advice about the name."""
        found = self._seek(slug, lambda store, name: store.get_outline(name), [])
        return found[1] if found else None

    def _find(self, slug: str, ask: Callable[[Store, str], T | None]) -> tuple[Store, T]:
        away: list[str] = []
        found = self._seek(slug, ask, away)
        if found is None:
            raise self._not_found(slug, _split_address(slug, [])[1], away)
        return found

    def _seek(self, slug: str, ask: Callable[[Store, str], T | None], away: list[str]) -> tuple[Store, T] | None:
        """Ask the stores of a moment ago, and where none has it, those that there are now; `away` takes the silent."""
        asked: list[Store] = []
        for known in (self._recent, self.stores):
            stores, name = _split_address(slug, known())
            for store in stores:
                if store in asked:
                    continue
                asked.append(store)
                try:
                    found = ask(store, name)
                except (ProwessError, OSError):
                    away.append(store.location)
                    continue
                if found is not None:
                    return store, found
        return None

    def is_gone(self, slug: str) -> bool:
        """Whether every store that the address means was asked and none serves the skill; addressed as in `get`."""
        stores, name = _split_address(slug, self.stores())
        try:
            return all(store.get_outline(name) is None for store in stores)
        except (ProwessError, OSError):
            return False

    def history(self, slug: str) -> tuple[Store, list[Version]]:
        """The versions of a skill, at least one, with the store that keeps them; also of one that was deleted."""
        try:
            store, skill = self.find(slug)
        except NotFound:
            stores, name = _split_address(slug, self.stores())
            for store, versions in _with_versions(stores, name):
                return store, versions
            raise
        versions = store.versions(skill.slug)
        if not versions:
            raise NotFound(
                f"{skill.slug!r} has no versions yet.",
                hint="Prowess keeps a version each time it changes a skill; a folder that you edit yourself has none before that.",
            )
        return store, versions

    def _not_found(self, slug: str, name: str, away: Sequence[str]) -> NotFound:
        slugs, faults = self._advice()
        broken = next((fault for fault in faults if fault.slug == name), None)
        if broken is not None and broken.problems:
            first = broken.problems[0]
            return NotFound(
                f"The skill {slug[:80]!r} at {broken.location!r} cannot be served: {first.message}", hint=first.hint
            )
        hint = suggest_names(name, slugs)
        if away:
            hint += f" Not asked, because they do not answer: {', '.join(away)}."
        return NotFound(f"There is no skill {slug[:80]!r}.", hint=hint)

    def _advice(self) -> tuple[list[str], list[Fault]]:
        """The slugs and faults as of a moment ago: whoever tries many names does not have all skills listed for each."""
        when, slugs, faults = self._advised
        if monotonic() - when < RECENT_SECONDS:
            return slugs, faults
        view = self._look()
        slugs = [card.slug for card in view.cards]
        self._advised = (monotonic(), slugs, view.faults)
        return slugs, view.faults

    def look(self) -> tuple[list[SkillCard], list[Fault]]:
        """Cards and faults of one and the same look."""
        view = self._look()
        return view.cards, view.faults

    def _look(self) -> _View:
        """All cards of all stores, merged, and everything that is not served."""
        view = _View()
        merged: dict[str, list[tuple[Store, SkillCard]]] = {}
        for store in self.stores():
            try:
                cards = store.list_skills()
                view.faults.extend(store.faults())
            except (ProwessError, OSError) as error:
                view.faults.append(_store_fault(store, error))
                continue
            for card in cards:
                merged.setdefault(card.slug, []).append((store, card))
        for slug in sorted(merged):
            card, faults = _resolve(merged[slug])
            view.cards.append(card)
            view.faults.extend(faults)
        view.faults.sort(key=lambda fault: (fault.location, fault.slug))
        return view


def _split_address(slug: str, stores: list[Store]) -> tuple[list[Store], str]:
    """Those of the stores that an address means, and the name to ask them for."""
    scope, colon, name = slug.partition(":")
    if colon and scope in SCOPES:
        return [store for store in stores if store.scope == scope], name
    return stores, slug


def _serves(store: Store, kinds: Collection[Kind]) -> bool:
    try:
        return store.serves(kinds)
    except (ProwessError, OSError):
        return False


def _resolve(claims: list[tuple[Store, SkillCard]]) -> tuple[SkillCard, list[Fault]]:
    """Which of the claims on a slug is served, and which are conflicts; nearest first."""
    winner = claims[0][1]
    if len(claims) == 1:
        return winner, []
    first: dict[Scope, tuple[Store, SkillCard]] = {}
    faults: list[Fault] = []
    for store, card in claims:
        served, kept = first.setdefault(card.scope, (store, card))
        if served is not store and kept.digest != card.digest:
            place, other = (_location(keeper, card.slug) for keeper in (served, store))
            problem = slug_conflict(card.slug, place, other)
            faults.append(Fault(location=other, slug=card.slug, problems=(problem,)))
    hidden = [card for _, card in first.values() if card.scope != winner.scope]
    hides = tuple(ShadowedSkill(scope=card.scope, source=card.source, digest=card.digest) for card in hidden)
    return winner.model_copy(update={"hides": hides}), faults


def _location(store: Store, slug: str) -> str:
    """Where a store keeps a skill, as exactly as it knows."""
    try:
        skill = store.get_skill_by_name(slug)
    except (ProwessError, OSError):
        return store.location
    return (skill.location if skill else "") or store.location


def _store_fault(store: Store, error: Exception) -> Fault:
    told = error.message if isinstance(error, ProwessError) else str(error)
    hint = error.hint if isinstance(error, ProwessError) else ""
    problem = fault_problem(
        "store-unavailable", f"The {store.scope} skills in {store.location!r} are not served: {told}", hint
    )
    return Fault(location=store.location, slug="", problems=(problem,))


def _with_versions(stores: Sequence[Store], slug: str) -> Iterator[tuple[Store, list[Version]]]:
    for store in stores:
        try:
            versions = store.versions(slug)
        except (ProwessError, OSError):
            continue
        if versions:
            yield store, versions
