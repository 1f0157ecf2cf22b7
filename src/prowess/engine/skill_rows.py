"""List skills page by page, and read one with its document, as rows of the table of skills. Blocking."""

from __future__ import annotations

import json
import threading
from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from prowess.catalog.catalog import Catalog
from prowess.catalog.store import DocumentReader, Store
from prowess.engine.context import Context
from prowess.engine.visibility import is_off
from prowess.errors import Invalid, NotFound, Refused, Unavailable
from prowess.policy.actor import Actor
from prowess.skill.filenames import document_text, hash_content
from prowess.skill.model import SCOPES, Scope, ShadowedSkill, Skill, SkillCard

if TYPE_CHECKING:
    from prowess.engine.callables import CallableIndex

_slug = attrgetter("slug")
_OWNED: frozenset[Scope] = frozenset({"user", "org", "account"})
"""The scopes whose skills belong to an organization."""


@dataclass(frozen=True, kw_only=True)
class SkillRow:
    """A skill as a row of the table of skills. `content` is None in lists, and where the caller may not see it."""

    id: str
    organization_id: str | None
    user_id: str | None
    name: str
    slug: str
    description: str
    version: str
    author: str | None
    tags: tuple[str, ...]
    scope: Scope
    content_length: int
    content_hash: str
    source_type: str
    source_url: str | None
    source_ref: str | None
    source_id: str | None
    digest: str
    kinds: tuple[str, ...]
    created_at: str | None
    updated_at: str | None
    source: str = ""
    hides: tuple[ShadowedSkill, ...] = ()
    """Skills with the same slug in farther scopes."""
    enabled: bool = True
    people_only: bool = False
    trust: str = ""
    dangers: int | None = None
    """How many severe findings it has; None if it was not scanned yet."""
    content: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        fields = {name: getattr(self, name) for name in _COLUMNS}
        return {**fields, "hides": [hidden.model_dump() for hidden in self.hides]}

    @cached_property
    def json(self) -> bytes:
        """The JSON object as text, made once: a skill that did not change is answered many times."""
        return _encode(self.as_json())

    @cached_property
    def listed_json(self) -> bytes:
        """The same without the document, as lists have it."""
        return _encode({name: value for name, value in self.as_json().items() if name != "content"})


_COLUMNS = tuple(SkillRow.__dataclass_fields__)


def _encode(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillQuery:
    """Which skills to list. `words` must all occur in the slug, name, description or tags; `after` is the last slug before."""

    words: tuple[str, ...] = ()
    tags: frozenset[str] = frozenset()
    scope: str = ""
    source_id: str = ""
    enabled: bool | None = None
    limit: int = 50
    after: str = ""

    @property
    def has_filters(self) -> bool:
        """True if the query leaves out skills by what they say."""
        return bool(self.words or self.tags or self.scope)

    def admits(self, card: SkillCard) -> bool:
        """Return True if a skill matches, judged by its card alone."""
        if self.scope and card.scope != self.scope:
            return False
        if self.tags and not card.has_tags(self.tags):
            return False
        text = " ".join((card.slug, card.title, card.description, *card.tags)).casefold() if self.words else ""
        return all(word in text for word in self.words)


@dataclass(frozen=True, kw_only=True)
class SkillPage:
    """One page of a list, sorted by slug. `total` counts all pages; `more` is True if this is not the last."""

    rows: tuple[SkillRow, ...]
    total: int
    more: bool

    @cached_property
    def items_json(self) -> bytes:
        """The rows as a JSON list, made once."""
        return b"[" + b",".join(row.listed_json for row in self.rows) + b"]"


@dataclass(slots=True)
class _Entry:
    card: SkillCard
    """The card, perhaps with how far it was trusted when it was last shown, which is found out anew each time."""
    row: SkillRow
    shown: dict[tuple[object, ...], SkillRow] = field(default_factory=dict["tuple[object, ...]", "SkillRow"])
    """The row as it was shown, by what is added to it, so that its JSON is made once."""


class Listing:
    """The cards of a catalog, sorted by slug, and the rows that were read. Kept until a store reports a change."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._lock = threading.Lock()
        self._positions: dict[str, str] = {}
        self._mark = ""
        self._cards: list[SkillCard] = []
        self._entries: dict[str, _Entry] = {}

    def cards(self, mark: str = "") -> Sequence[SkillCard]:
        """Return the card of every skill as of now. Do not change the list.

        A `mark` stays the same as long as no skill has changed, so that no store is asked.
        """
        with self._lock:
            if mark and mark == self._mark:
                return self._cards
            found = self._catalog.changes(self._positions)
            if found.slugs is None:
                self._cards, self._entries = self._read_all(), {}
            elif found.slugs:
                self._cards = list(self._cards)  # a caller may still be reading the old one
                for slug in found.slugs:
                    self._update(slug)
            self._positions = found.positions
            # A store that failed has the position '': it is asked again next time.
            self._mark = "" if "" in found.positions.values() else mark
            return self._cards

    def entry(self, card: SkillCard, actor: Actor) -> _Entry | None:
        """Return the row of a listed skill, or None if it is gone in the meantime."""
        known = self._entries.get(card.slug)
        if known is not None and known.card.digest == card.digest:
            return known
        try:
            store, skill = self._catalog.find(f"{card.scope}:{card.slug}")
        except NotFound:
            return None
        entry = _Entry(skill.card.model_copy(update={"hides": card.hides}), read_row(store, skill, actor))
        with self._lock:
            # The skill may have changed while it was read; the next call of `cards` then drops it again.
            self._entries[card.slug] = entry
        return entry

    def _read_all(self) -> list[SkillCard]:
        """Return all cards. Raise `Unavailable` if the database is down, whose skills are not gone."""
        cards, faults = self._catalog.look()
        own_locations = {store.location for store in self._catalog.recent_stores() if store.scope in _OWNED}
        for fault in faults:
            if fault.location in own_locations and any(
                problem.code == "store-unavailable" for problem in fault.problems
            ):
                raise Unavailable(fault.problems[0].message, hint=fault.problems[0].hint)
        return cards

    def _update(self, slug: str) -> None:
        self._entries.pop(slug, None)
        place = bisect_left(self._cards, slug, key=_slug)
        if place < len(self._cards) and self._cards[place].slug == slug:
            del self._cards[place]
        card = self._catalog.card(slug)
        if card is not None:
            insort(self._cards, card, key=_slug)


class SkillLists:
    """All skills of a catalog: their cards and rows, and the skills that are tools."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    @cached_property
    def listing(self) -> Listing:
        """The cards and rows."""
        return Listing(self._catalog)

    @cached_property
    def callables(self) -> CallableIndex:
        """The skills that can be called as tools."""
        from prowess.engine.callables import CallableIndex

        return CallableIndex(self._catalog)

    def look_again(self) -> None:
        """Make the next look at callable skills read the catalog, because something changed."""
        if "callables" in vars(self):
            self.callables.look_again()


def read_row(store: Store, skill: Skill, actor: Actor, *, content: bool = False) -> SkillRow:
    """Return the row of a skill for an actor of the organization that it belongs to."""
    if isinstance(store, DocumentReader):
        text = store.get_document(skill.id) or ""
    else:
        package = store.get_package(skill.id)
        text = document_text(skill.form, package) if package else ""
    owned = skill.scope in _OWNED and not store.folder  # folders belong to the machine
    return SkillRow(
        id=skill.id,
        organization_id=(actor.organization or None) if owned else None,
        user_id=(actor.user or None) if owned and skill.scope == "user" else None,
        name=skill.title,
        slug=skill.slug,
        description=skill.description,
        version=skill.version,
        author=skill.author,
        tags=skill.tags,
        scope=skill.scope,
        content_length=skill.content_length,
        content_hash=hash_content(text, skill.digest),
        source_type=skill.provenance.source_type,
        source_url=skill.provenance.source_url,
        source_ref=skill.provenance.source_ref,
        source_id=skill.provenance.source_id,
        digest=skill.digest,
        kinds=skill.kinds,
        people_only=skill.people_only,
        source=skill.provenance.source,
        created_at=skill.created_at or None,
        updated_at=skill.updated_at or None,
        content=text if content else None,
    )


def list_rows(context: Context, query: SkillQuery) -> SkillPage:
    """Return one page of the skills in reach. An agent gets no text of skills that need an approval to be enabled."""
    if query.scope not in ("", *SCOPES):
        raise Invalid(f"Unknown scope {query.scope!r}.", hint=f"Use one of {', '.join(SCOPES)}.")
    (lists, mark), visibility, actor = context.resources.find_lists(), context.visibility, context.actor
    listing = lists.listing
    cards = listing.cards(mark)
    off = visibility.switched_off()
    enabled = query.enabled if actor.is_person else True
    if not actor.is_person:
        cards = [card for card in cards if not card.people_only]
    if enabled is not None and (off is None or off or not enabled):
        cards = [card for card in cards if is_off(card.slug, off) is not enabled]
    if query.has_filters:
        # An agent searches only what it may see: otherwise it could guess the text of a skill word by word.
        searched = cards if actor.is_person or not (query.words or query.tags) else visibility.cards(cards)
        cards = [card for card in searched if query.admits(card)]
    if query.source_id:
        cards = [card for card in cards if _source_of(listing, card, actor) == query.source_id]
    start = bisect_right(cards, query.after, key=_slug) if query.after else 0
    chosen = cards[start : start + query.limit]
    entries = [entry for card in chosen if (entry := listing.entry(card, actor)) is not None]
    return SkillPage(rows=show_rows(context, entries), total=len(cards), more=start + len(chosen) < len(cards))


def _source_of(listing: Listing, card: SkillCard, actor: Actor) -> str | None:
    entry = listing.entry(card, actor)
    return entry.row.source_id if entry else None


def read_one(context: Context, address: str) -> SkillRow:
    """Return one skill with its document, or raise `NotFound`. For an agent, a skill that is switched off does not exist."""
    with context.resources.snapshot():
        store, skill = context.catalog.find(address)
        row = read_row(store, skill, context.actor, content=True)
        served = context.catalog.card(skill.slug)
        hides = served.hides if served and served.scope == skill.scope else ()
        rows = show_rows(context, [_Entry(skill.card.model_copy(update={"hides": hides}), row)])
    if not rows:
        raise not_found(address)
    return rows[0]


def not_found(address: str) -> NotFound:
    """Return the error for a skill that does not exist for the actor."""
    return NotFound(f"Skill {address[:80]!r} not found.", hint="Run `prowess list` to see all skills.")


def show_rows(context: Context, entries: Sequence[_Entry]) -> tuple[SkillRow, ...]:
    """Return rows with how far each skill is trusted; for an agent, without the texts that it may not see."""
    marked = {card.slug: card for card in context.visibility.cards([entry.card for entry in entries])}
    pairs = [(entry, marked[entry.card.slug]) for entry in entries if entry.card.slug in marked]
    if context.actor.is_person:  # an agent may get a card without its texts
        for entry, card in pairs:
            entry.card = card if card.enabled else entry.card
    scans = context.catalog.scans
    return tuple(_show(entry, card, scans.count(entry.row.digest)) for entry, card in pairs)


def _show(entry: _Entry, card: SkillCard, dangers: int | None) -> SkillRow:
    added = (card.hides, card.enabled, card.trust, dangers, card.title, card.description)
    known = entry.shown.get(added)
    if known is not None:
        return known
    row = replace(entry.row, hides=card.hides, enabled=card.enabled, trust=card.trust, dangers=dangers)
    if card.title != row.name or card.description != row.description:
        row = replace(
            row,
            name=card.title,
            description=card.description,
            version=card.version,
            tags=card.tags,
            author=None,
            source_url=None,
            source_ref=None,
            source_id=None,
            content=None,
        )
    if len(entry.shown) >= _MAX_SHOWN:
        entry.shown.clear()
    entry.shown[added] = row
    return row


_MAX_SHOWN = 4


def check_readable(context: Context, address: str) -> None:
    """Raise `Refused` if the actor is an agent that may not see the texts of a skill, and `NotFound` if it is switched off."""
    if context.actor.is_person:
        return
    if read_one(context, address).content is None:
        raise Refused(
            f"The texts of the skill {address[:80]!r} are not available before a person has accepted it.",
            hint="Ask the user to accept the skill: `prowess trust`.",
        )


def find_address(catalog: Catalog, id: str) -> str:
    """Return `scope:slug` of the skill with an id; a slug that looks like an id is returned as it is."""
    if catalog.outline(id) is not None:
        return id
    for store in catalog.recent_stores():
        skill = store.get_skill(id)
        if skill is not None:
            return f"{skill.scope}:{skill.slug}"
    return id


def looks_like_id(text: str) -> bool:
    """Return True if a text can be the id of a skill. A slug can look the same."""
    return len(text) == 36 and text.count("-") == 4 and set(text) <= set("0123456789abcdef-")
