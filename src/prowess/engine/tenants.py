"""The resources of each organization and user in one engine: made when first used, and dropped when not used for long."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Generic, TypeVar

from prowess.catalog.catalog import Catalog
from prowess.errors import ProwessError
from prowess.lazy_dataclass import dataclass
from prowess.storage.owner import Owner

if TYPE_CHECKING:
    from prowess.catalog.scans import Scans
    from prowess.engine.answers import RecentAnswers
    from prowess.engine.skill_rows import SkillLists
    from prowess.engine.stores import Stores
    from prowess.match.matcher import Matcher
    from prowess.storage.ledger import CatalogState

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

MAX_RESOURCES = 1_000
"""How many users have their resources kept. They are small: a catalog, whose stores hold no skills."""

MAX_MATCHERS = 64
"""How many indexes of skills are kept open. One that was dropped is read again from its file, which takes milliseconds."""

MAX_LISTINGS = 32
"""How many lists of skills are kept. One of 5,000 skills takes about ten megabytes."""


class OnDemand(Generic[Value]):
    """A part that is made when it is first needed, because importing it takes longer than most commands."""

    def __init__(self, make: Callable[[], Value]) -> None:
        self._make = make
        self.made: Value | None = None

    def find(self) -> Value:
        """Return the part."""
        if self.made is None:
            self.made = self._make()
        return self.made


class RecentlyUsed(Generic[Key, Value]):
    """Keeps the values that were used last, and makes those that it does not have. Safe for many threads.

    A value that was dropped still works for everyone who holds it. `make` runs under a lock, so that there is one value for
    each key; it must be quick. Values that are `in_use` are not dropped.
    """

    def __init__(
        self, make: Callable[[Key], Value], limit: int, *, in_use: Callable[[Value], bool] = lambda _: False
    ) -> None:
        self._make = make
        self._limit = limit
        self._in_use = in_use
        self._kept: OrderedDict[Key, Value] = OrderedDict()
        # Reentrant: making a value may ask for another one.
        self._lock = threading.RLock()

    def __getitem__(self, key: Key) -> Value:
        with self._lock:
            if key not in self._kept:
                self._kept[key] = self._make(key)
                self._drop()
            self._kept.move_to_end(key)
            return self._kept[key]

    def values(self) -> list[Value]:
        """Return the values that are kept now, the least recently used first."""
        with self._lock:
            return list(self._kept.values())

    def _drop(self) -> None:
        # The newest one stays in any case: the caller is about to use it.
        for key in list(self._kept)[:-1]:
            if len(self._kept) <= self._limit:
                break
            if not self._in_use(self._kept[key]):
                del self._kept[key]


@dataclass(slots=True, eq=False)
class _OpenedMatcher:
    matcher: Matcher
    mark: str = ""
    """The state of the database when the matcher was last made to look at it."""


class Matchers:
    """The matchers of organizations and users. A user without private skills uses the matcher of the organization."""

    def __init__(self, stores: Stores, answers: RecentAnswers, listings: Listings) -> None:
        self._stores = stores
        self._answers = answers
        self._listings = listings
        self._opened = RecentlyUsed(self._open, MAX_MATCHERS)

    def find(self, own: Stores) -> Matcher:
        """Return the matcher over the skills of these stores, which looks at them first if any process changed them."""
        state = _read_state(own, self._answers)
        found = self._opened[own.organization, _find_user(own, state)]
        if state is not None and found.mark != state.mark:
            # Two threads may both find it changed, and then both make it look.
            found.matcher.look_again()
            found.mark = state.mark
        return found.matcher

    def mark_changed(self) -> None:
        """Make every matcher and list look at its catalog before the next answer. A folder may be in reach of everyone."""
        for opened in self._opened.values():
            opened.matcher.look_again()
        self._listings.mark_changed()

    def _open(self, key: tuple[str, str | None]) -> _OpenedMatcher:
        from prowess.engine.matcher import make_matcher

        own = self._stores.of(*key)
        matched = Catalog(own.matched, strict=own.settings.strict)
        return _OpenedMatcher(make_matcher(own.settings, lambda: matched, own))


class Listings:
    """The lists of organizations and users, shared in the same way."""

    def __init__(self, stores: Stores, scans: Scans, answers: RecentAnswers) -> None:
        self._stores = stores
        self._scans = scans
        self._answers = answers
        self._opened = RecentlyUsed(self._open, MAX_LISTINGS)

    def find(self, own: Stores) -> tuple[SkillLists, str]:
        """Return the lists of the skills in these stores.

        The text stays the same as long as no skill has changed; '' if that is unknown.
        """
        state = _read_state(own, self._answers)
        found = self._opened[own.organization, _find_user(own, state)]
        return found, state.mark if state is not None and own.in_account_only() else ""

    def mark_changed(self) -> None:
        """Make every list look at its catalog before the next answer."""
        for lists in self._opened.values():
            lists.look_again()

    def _open(self, key: tuple[str, str | None]) -> SkillLists:
        from prowess.engine.skill_rows import SkillLists

        own = self._stores.of(*key)
        return SkillLists(Catalog(own.present, self._scans, strict=own.settings.strict))


def _read_state(own: Stores, answers: RecentAnswers) -> CatalogState | None:
    if not own.has_records():
        return None
    owner = Owner(organization_id=own.organization, user_id=own.user or "")
    known = answers.state(owner)
    if known is not None:
        return known
    from prowess.storage.ledger import read_catalog_state

    try:
        with own.records().read() as connection:
            return read_catalog_state(connection, owner)
    except ProwessError:
        if own.user:
            raise  # whether the user has their own skills is unknown
        return None  # the catalog reports a database that does not respond, and serves the folders


def _find_user(own: Stores, state: CatalogState | None) -> str | None:
    """Return the user if what they see is theirs alone, or None if they see what everyone in the organization does."""
    # Without a user there is only one who could have private skills, so that the index need not be split.
    is_private = not own.user or own.has_session_skills() or (state is not None and state.private)
    return own.user if is_private else None
