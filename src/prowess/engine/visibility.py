"""How far listed skills are trusted, and which of their texts an agent or a prompt may contain. Blocking.

A person sees the text of every skill, marked with how far it is trusted. An agent sees the text of a skill only if it is
local or if the agent may enable it at once; of all others it sees the slug, the scope and the mark. Text in a list is text
in a prompt: a description that nobody has read could tell the agent anything.

Skills that only people start are in no list for an agent and in no prompt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from prowess.catalog.store import Fault, Store, store_key
from prowess.engine.context import Context, Part
from prowess.errors import ProwessError
from prowess.lazy_dataclass import dataclass
from prowess.policy.trust import TrustRecords, conclude
from prowess.skill.model import SkillCard
from prowess.skill.slug import is_slug
from prowess.storage.accepted import read_disabled, read_sqlite_file

if TYPE_CHECKING:
    from prowess.match.recommendation import Recommendation
    from prowess.policy.actor import Actor
    from prowess.policy.subject import Subject, Trust
    from prowess.skill.outline import SkillOutline

_FEW_SKILLS = 8
"""Up to this many skills of a list are looked up one by one; for more, the stores are listed."""

Listed = TypeVar("Listed", "SkillCard", "Recommendation")
"""A skill in a list: it has a slug, a scope and a digest."""


class Visibility(Part):
    """Marks and redacts lists of skills for one actor, by what is recorded now."""

    def cards(self, cards: Sequence[SkillCard]) -> list[SkillCard]:
        """Return cards with how far each is trusted; for an agent, without the texts that it may not see.

        A person sees which skills are switched off. For an agent these do not exist, nor those that only people start.
        """
        off = self.switched_off()
        marked = [card.model_copy(update={"enabled": False}) if is_off(card.slug, off) else card for card in cards]
        if not self._context.actor.is_person:
            marked = [card for card in marked if card.enabled and not card.people_only]
        return self._present(marked, _with_trust, redact_card)

    def usable(self, find: Callable[[int], Sequence[Recommendation]], limit: int) -> list[Recommendation]:
        """Return the first skills of a ranking that are not switched off. `find` is given how many to return.

        For an agent, `find` returns no skills that only people start. If it does all the same, they are dropped.
        """
        off = self.switched_off()
        is_person = self._context.actor.is_person
        found = [
            item
            for item in find(limit + len(off or ()))
            if not is_off(item.slug, off) and (is_person or not item.people_only)
        ]
        return self.recommendations(found[:limit])

    def switched_off(self) -> Sequence[str] | None:
        """Return the slugs that are switched off for the organization; None if that cannot be read, which switches off all."""
        resources, organization = self._context.resources, self._context.actor.organization
        if not resources.has_records():
            return ()
        known = resources.answers.switched_off(organization)
        if known is not None:
            return known
        path = resources.unopened_records()
        read = read_disabled(path, organization) if path else None
        if read is not None:
            return read
        try:
            return self._context.read_policy().disabled_skills
        except ProwessError:  # a database that does not answer hides no folder from a person's list
            return None

    def recommendations(self, found: Sequence[Recommendation]) -> list[Recommendation]:
        """Return recommendations in the same way."""
        return self._present(found, lambda item, trust: replace(item, trust=trust), redact_recommendation)

    def for_prompt(self, cards: Sequence[SkillCard]) -> list[SkillCard]:
        """Return the cards that an agent may be offered; of skills whose texts may not be part of a prompt, without these."""
        off = self.switched_off()
        listed = [card for card in cards if not card.people_only and not is_off(card.slug, off)]
        shown = self.shown(listed)
        return [card if card.slug in shown else redact_card(card) for card in listed]

    def faults(self, faults: Sequence[Fault]) -> list[Fault]:
        """Return faults; for an agent, without the texts of files outside the folders that are trusted."""
        if self._context.actor.is_person or not faults:
            return list(faults)
        known = self._read_records(())
        return [fault if known.has_rule(fault.location) else redact_fault(fault) for fault in faults]

    def unsettled(self, cards: Sequence[SkillCard]) -> list[SkillCard]:
        """Return the cards of skills of which something may be left to accept, and of those that were never scanned.

        The bytes may be left, or a prompt or rubric that they use. The others need not be read, which takes seconds for thousands.
        """
        regards, uses = self._look(cards), {"json_generation", "review"}
        count_dangers = self._context.catalog.scans.count
        return [
            card
            for card in cards
            if regards[card.slug].trust != "local"
            or not uses.isdisjoint(card.kinds)
            or (card.scope != "system" and count_dangers(card.digest) is None)
        ]

    def shown(self, cards: Sequence[SkillCard]) -> set[str]:
        """Return the slugs of the skills whose texts may be part of a prompt of the actor, a person or an agent."""
        return self._shown(cards, self._look(cards), self._context.actor)

    def _present(
        self,
        listed: Sequence[Listed],
        mark: Callable[[Listed, Trust], Listed],
        redact: Callable[[Listed], Listed],
    ) -> list[Listed]:
        regards = self._look(listed)
        actor = self._context.actor
        shown = None if actor.is_person else self._shown(listed, regards, actor)
        return [
            mark(item if shown is None or item.slug in shown else redact(item), regards[item.slug].trust)
            for item in listed
        ]

    def _shown(
        self, listed: Sequence[SkillCard | Recommendation], regards: dict[str, _Regard], actor: Actor
    ) -> set[str]:
        """Return the slugs of local skills, and of those that the actor may enable without being asked."""
        shown = {item.slug for item in listed if regards[item.slug].trust == "local"}
        others = [
            regard.subject for regard in regards.values() if regard.trust != "local" and regard.subject is not None
        ]
        if others:
            gate = self._context.resources.gate
            rulings = gate.preview_all(actor, others, self._context.read_policy(), "enable")
            shown |= {one.slug for one, ruling in zip(others, rulings, strict=True) if ruling.answer == "allow"}
        return shown

    def _look(self, listed: Sequence[SkillCard | Recommendation]) -> dict[str, _Regard]:
        known = self._read_records([item.slug for item in listed])
        stores = _ScopeStores(self._context.catalog.recent_stores, known)
        found: dict[str, _Regard] = {}
        for item in listed:
            if (item.slug, item.digest) in known.accepted:
                found[item.slug] = _Regard("local")
            else:
                found[item.slug] = self._regard(item, stores, known)
        return found

    def _regard(self, item: SkillCard | Recommendation, stores: _ScopeStores, known: TrustRecords) -> _Regard:
        """Return how far a skill is trusted that nobody accepted with these bytes. Most need no look at the skill."""
        if not stores.is_kept_elsewhere(item):
            ruled = stores.is_ruled(item)
            if ruled is not None:
                return _Regard("local" if ruled else "found")
        try:
            store, outline = self._context.catalog.find_outline(f"{item.scope}:{item.slug}")
            subject = conclude(replace(_read_subject(self._context, store, outline), digest=item.digest), known)
        except (ProwessError, OSError):
            return _Regard("found")
        # The list may be older than the skill: what is known about other bytes says nothing about these.
        if outline.digest != item.digest and subject.trust not in ("local", "found"):
            return _Regard("found")
        return _Regard(subject.trust, subject)

    def _read_records(self, slugs: Sequence[str]) -> TrustRecords:
        resources, owner = self._context.resources, self._context.actor.owner
        folders = resources.trusted_folders
        if not resources.has_records():
            return TrustRecords(folders=folders)
        read = resources.answers.accepted(owner, slugs)
        if read is None and (path := resources.unopened_records()):
            read = read_sqlite_file(path, owner, slugs)
        if read is not None:
            return TrustRecords(accepted=read[0], folders=(*folders, *read[1]))
        from prowess.storage.trust import read_accepted, read_folders

        try:
            with resources.records().read() as connection:
                rules = read_folders(connection, owner)
                return TrustRecords(accepted=read_accepted(connection, owner, slugs), folders=(*folders, *rules))
        except ProwessError:
            # A database that does not answer hides no folder. Without it nothing counts as accepted.
            return TrustRecords(folders=folders)


def is_off(slug: str, off: Sequence[str] | None) -> bool:
    """Return True if a skill is switched off, given the slugs that are; without a readable list (None), all are."""
    return off is None or slug in off


@dataclass(frozen=True, slots=True)
class _Regard:
    """How far a skill is trusted; with its subject, if that had to be read."""

    trust: Trust
    subject: Subject | None = None


class _ScopeStores:
    """The stores of each scope, asked once for many skills: which of them has a skill, and if that folder is trusted."""

    def __init__(self, stores: Callable[[], Sequence[Store]], known: TrustRecords) -> None:
        self._find_stores = stores
        self._known = known
        self._split: dict[str, tuple[list[Store], list[Store]]] = {}
        self._same: dict[str, bool | None] = {}
        self._ruled: dict[str, bool | None] = {}
        self._digests: dict[str, dict[str, str] | None] = {}
        self._asked = Counter[str]()

    def is_kept_elsewhere(self, item: SkillCard | Recommendation) -> bool:
        """Return True if a store of the scope that is not a folder has the skill, or cannot be asked."""
        return any(self._digest(store, item.slug) is not None for store in self._of(item.scope)[1])

    def is_ruled(self, item: SkillCard | Recommendation) -> bool | None:
        """Return True if the folder with the skill is trusted, False if nothing in it is; None if the skill itself must be read."""
        if item.scope not in self._same:
            ruled = {self._is_folder_ruled(store) for store in self._of(item.scope)[0]}
            self._same[item.scope] = ruled.pop() if len(ruled) == 1 else None
        if self._same[item.scope] is not None:
            return self._same[item.scope]
        # Some of the scope's folders are trusted. The nearest one with the skill counts.
        for store in self._of(item.scope)[0]:
            if (digest := self._digest(store, item.slug)) is not None:
                return self._is_folder_ruled(store) if digest == item.digest else None
        return None

    def _of(self, scope: str) -> tuple[list[Store], list[Store]]:
        """Return the folders of a scope, nearest first, and its other stores."""
        if scope not in self._split:
            stores = [store for store in self._find_stores() if store.scope == scope]
            self._split[scope] = (
                [store for store in stores if store.folder],
                [store for store in stores if not store.folder],
            )
        return self._split[scope]

    def _is_folder_ruled(self, store: Store) -> bool | None:
        if store.folder not in self._ruled:
            is_trusted = store.frozen or self._known.has_rule(store.folder)
            # Links to skills are not followed, so all skills of a folder are really inside it.
            is_mixed = not is_trusted and self._known.has_rule_below(store.folder)
            self._ruled[store.folder] = None if is_mixed else is_trusted
        return self._ruled[store.folder]

    def _digest(self, store: Store, slug: str) -> str | None:
        """Return the digest of a skill in a store, None if the store has no such skill, and '' if it cannot be asked."""
        key = store_key(store)
        try:
            # On a busy server a list often has one skill that is being written, and is accepted only a moment later. Listing
            # thousands for that one takes longer than all the rest of the answer.
            if key not in self._digests and self._asked[key] < _FEW_SKILLS:
                self._asked[key] += 1
                return store.get_digest(slug)
            if key not in self._digests:
                self._digests[key] = {card.slug: card.digest for card in store.list_skills()}
        except (ProwessError, OSError):
            self._digests[key] = None
        digests = self._digests[key]
        return "" if digests is None else digests.get(slug)


def _with_trust(card: SkillCard, trust: Trust) -> SkillCard:
    # Copying the cards of a page takes longer than finding out how far they are trusted.
    return card if card.trust == trust else card.model_copy(update={"trust": trust})


def _read_subject(context: Context, store: Store, outline: SkillOutline) -> Subject:
    from prowess.session.text import read_subject

    return read_subject(context.catalog, store, outline)


def redact_card(card: SkillCard) -> SkillCard:
    """Return a card without any text of the skill but its slug."""
    return card.model_copy(update={"title": card.slug, "description": "", "version": "", "tags": ()})


def redact_recommendation(item: Recommendation) -> Recommendation:
    """Return a recommendation without any text of the skill but its slug."""
    return replace(item, title=item.slug, description="", version="", tags=(), why="", evidence=())


def redact_fault(fault: Fault) -> Fault:
    """Return a fault without any text of the skill: its messages quote files that nobody has accepted."""
    problems = tuple(
        replace(problem, message=f"It has the problem {problem.code}.", hint=_FAULT_HINT, field=None)
        for problem in fault.problems
    )
    return replace(fault, location="", slug=fault.slug if is_slug(fault.slug) else "unnamed", problems=problems)


_FAULT_HINT = "Ask the user to run `prowess doctor` for details."
