"""A cache of answers, each valid until something that it was made from changes.

SQLite counts commits, which costs microseconds to ask. After a commit, the new rows of the organization's audit say what
it was about: a skill, the use of a skill, or something that may concern every answer. Whatever changes a skill, a setting
or an acceptance adds its row in the same transaction or right after it, before the change is acknowledged.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import field
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

from prowess.catalog.memory_store import MemoryStore
from prowess.lazy_dataclass import dataclass
from prowess.storage.accepted import Accepted, accepted_query, add_accepted, folders_query, parse_disabled
from prowess.storage.database_url import display_url
from prowess.storage.sqlite_watch import SqliteWatch
from prowess.threads import offload, offload_quick

if TYPE_CHECKING:
    import asyncio

    from prowess.engine.context import Context
    from prowess.engine.skill_rows import SkillPage, SkillQuery, SkillRow
    from prowess.storage.ledger import CatalogState
    from prowess.storage.owner import Owner

Commit = tuple[int, int]
T = TypeVar("T")
Answer = TypeVar("Answer", "SkillRow", "SkillPage")

_MAX_ORGANIZATIONS = 1_000
_MAX_ROWS = 500
"""If the audit got more rows since the last look, everything counts as changed."""
_MAX_SKILLS = 20_000

_CHANGES = frozenset({"install", "update", "delete"})
"""Actions that change which skills there are, or what one says."""
_USES = frozenset({"enable", "disable", "load", "load_script", "run", "fetch_live", "approve"})
"""Actions about one skill that may change how far it is trusted, and nothing else that a list shows."""
_APART = frozenset({"token", "sign-in"})
"""Actions that concern no skill."""

_ROWS = """
SELECT number, hash, action, slug FROM audit WHERE organization_id = ? AND number >= ? ORDER BY number LIMIT ?
"""
_HEAD = "SELECT number, hash, '', '' FROM audit WHERE organization_id = ? ORDER BY number DESC LIMIT 1"
_DISABLED = "SELECT value FROM org_settings WHERE organization_id = ? AND name = 'disabled_skills'"
_PRIVATE = """
SELECT 1 FROM skills WHERE COALESCE(organization_id, '') = ? AND COALESCE(user_id, '') = ? AND scope = 'user' LIMIT 1
"""
_epochs = count(1)


@dataclass(frozen=True, slots=True)
class Mark:
    """The state of an organization's skills: it compares equal as long as nothing has changed.

    `epoch` changes with anything that may concern every answer, `listed` with every change of a skill, `turn` also with
    every use of one.
    """

    epoch: int
    listed: int
    turn: int


@dataclass(slots=True, eq=False)
class _Tail:
    """The end of an organization's audit, as last read."""

    committed: Commit | None = None
    number: int = 0
    hash: str = ""
    mark: Mark = field(default_factory=lambda: Mark(next(_epochs), 0, 0))
    turns: dict[str, int] = field(default_factory=dict[str, int])
    """The turn in which a skill was last changed or used, by slug."""
    off: tuple[int, Sequence[str]] | None = None
    """The epoch, and the slugs that are switched off in it."""
    private: dict[str, tuple[int, int, bool]] = field(default_factory=dict[str, "tuple[int, int, bool]"])
    """True for users with their own skills, each with the epoch and the state of the list."""

    def follow(self, rows: Sequence[tuple[int, str, str, str]]) -> None:
        """Take over rows, of which the first is the last one that was known before."""
        if not rows and not self.number and self.committed is not None:
            return  # the audit is still empty, whatever was committed
        mark = self.mark
        epoch, listed, turn = mark.epoch, mark.listed, mark.turn
        known = rows and (rows[0][0], rows[0][1]) == (self.number, self.hash)
        if not known or len(rows) >= _MAX_ROWS or len(self.turns) > _MAX_SKILLS:
            epoch = next(_epochs)
            self.turns.clear()
        for _, _, action, slug in rows[1:] if known else ():
            if action in _APART:
                continue
            if not slug or action not in _CHANGES | _USES:
                epoch = next(_epochs)
                continue
            turn += 1
            self.turns[slug] = turn
            listed += action in _CHANGES
        self.number, self.hash = (rows[-1][0], rows[-1][1]) if rows else (0, "")
        self.mark = Mark(epoch, listed, turn)

    def is_same(self, slug: str, at: Mark) -> bool:
        """Return True if a skill was neither changed nor used since a mark of the same epoch."""
        return self.turns.get(slug, 0) <= at.turn


class RecentAnswers:
    """Pages and rows that persons were given, and what else is read again and again from an SQLite file.

    There are none on PostgreSQL, and none while skills lie in folders that anyone can change: there is no cheap way to
    know that nothing has changed. What an agent sees also depends on the time, because approvals expire.
    """

    MAX_BYTES = 8 * 1024 * 1024
    _OVERHEAD = 4_000

    def __init__(self, path: str) -> None:
        """Watch the SQLite file at a path; '' for another database. Nothing is opened before the first look."""
        self._watch = SqliteWatch(path) if path and path != ":memory:" else None
        self._lock = threading.Lock()
        self._tails: OrderedDict[str, _Tail] = OrderedDict()
        self._kept: OrderedDict[Hashable, tuple[Mark, Any, int]] = OrderedDict()
        self._size = 0
        self._making: dict[Hashable, asyncio.Future[Any]] = {}

    def close(self) -> None:
        """Close the connection that watches the database."""
        if self._watch is not None:
            self._watch.close()

    @property
    def is_watching(self) -> bool:
        """True once a server has asked for a mark. A short command does without another open connection."""
        return self._watch is not None and self._watch.is_open

    def committed(self) -> Commit | None:
        """Return a value that differs from all earlier ones after any commit of any process; None if that is unknown."""
        return self._watch.mark() if self._watch is not None else None

    def mark(self, context: Context) -> Mark | None:
        """Return the state that answers to a person are made from now, or None if that is unknown."""
        if self._watch is None or not context.actor.is_person:
            return None
        place = display_url(context.resources.records_url)
        for store in context.catalog.recent_stores():
            if isinstance(store, MemoryStore):
                # Skills of this process alone are in no audit.
                if store.list_skills():
                    return None
            elif not store.frozen and (store.folder or store.location != place):
                return None
        return self._look(context.actor.organization)

    def state(self, owner: Owner) -> CatalogState | None:
        """Return the state of the skills in the database for a user, or None if that is unknown."""
        organization, user = owner.organization_id, owner.user_id
        mark = self._look(organization) if self.is_watching else None
        tail = self._tails.get(organization)
        if mark is None or tail is None:
            return None
        known = tail.private.get(user)
        if known is None or known[:2] != (mark.epoch, mark.listed):
            found = self._query(_PRIVATE, (organization, user))
            if found is None:
                return None
            if len(tail.private) > _MAX_ORGANIZATIONS:
                tail.private.clear()
            known = tail.private[user] = (mark.epoch, mark.listed, bool(found))
        from prowess.storage.ledger import CatalogState  # imports SQLAlchemy, which a server has open

        return CatalogState(mark=f"{mark.epoch}.{mark.listed}", private=known[2])

    def switched_off(self, organization: str) -> Sequence[str] | None:
        """Return the slugs that are switched off for an organization, or None if that is unknown."""
        mark = self._look(organization) if self.is_watching else None
        tail = self._tails.get(organization)
        if mark is None or tail is None:
            return None
        if tail.off is None or tail.off[0] != mark.epoch:
            rows = self._query(_DISABLED, (organization,))
            off = parse_disabled(rows[0][0] if rows else "[]") if rows is not None else None
            if off is None:
                return None
            tail.off = (mark.epoch, off)
        return tail.off[1]

    def accepted(self, owner: Owner, slugs: Sequence[str]) -> tuple[Accepted, list[str]] | None:
        """Return an owner's acceptances of these skills, and the trusted folders; None if that is unknown."""
        if not self.is_watching:
            return None
        rows, folders = self._query(*accepted_query(owner, slugs)), self._query(*folders_query(owner))
        if rows is None or folders is None:
            return None
        found = Accepted()
        add_accepted(found, rows)
        return found, [folder for (folder,) in folders]

    def row(self, context: Context, address: str, mark: Mark | None) -> SkillRow | None:
        """Return the row that was kept for an address, if it is still the same."""
        count_dangers = context.catalog.scans.count

        def is_same(row: SkillRow, tail: _Tail, at: Mark) -> bool:
            return tail.is_same(row.slug, at) and count_dangers(row.digest) == row.dangers

        return self._get(context, address, mark, is_same)

    def page(self, context: Context, query: SkillQuery, mark: Mark | None) -> SkillPage | None:
        """Return the page that was kept for a query, if it is still the same."""
        count_dangers = context.catalog.scans.count

        def is_same(page: SkillPage, tail: _Tail, at: Mark) -> bool:
            if at.listed != tail.mark.listed:
                return False
            return all(tail.is_same(row.slug, at) and count_dangers(row.digest) == row.dangers for row in page.rows)

        return self._get(context, query, mark, is_same)

    async def offload(self, read: Callable[[], T]) -> T:
        """Run a quick read in a thread. A read from a SQLite file takes CPU only, one from a server waits for its answers."""
        return await (offload(read) if self._watch is None else offload_quick(read))

    async def make(
        self,
        context: Context,
        about: Hashable,
        mark: Mark | None,
        read: Callable[[], Answer],
        size: Callable[[Answer], int],
    ) -> Answer:
        """Make an answer in a thread, and keep it unless `mark` is None.

        Everyone who asks for it before the thread starts gets the same one: a server under load would otherwise read the
        same page again and again, for requests that wait behind each other.
        """
        if mark is None:
            return await self.offload(read)
        import asyncio

        key = (asyncio.get_running_loop(), context.actor.owner, about)
        making = self._making.get(key)
        if making is None:

            def work() -> Answer:
                # Who asks from here on may have seen a change that this answer lacks.
                self._making.pop(key, None)
                now = self.mark(context)
                answer = read()
                self._put(context, about, now, answer, size(answer))
                return answer

            making = self._making[key] = asyncio.ensure_future(self.offload(work))
            # Also if the thread never starts.
            making.add_done_callback(lambda done: self._making.get(key) is done and self._making.pop(key, None))
        # One of several that wait may be cancelled without the others.
        return await asyncio.shield(making)

    def _put(
        self, context: Context, about: Hashable, mark: Mark | None, answer: SkillRow | SkillPage, size: int
    ) -> None:
        """Keep an answer that was made after a mark, and drop those that were not used for long if there is no room."""
        if mark is None:
            return
        key, size = (context.actor.owner, about), size + self._OVERHEAD
        with self._lock:
            old = self._kept.pop(key, None)
            self._size += size - (old[2] if old else 0)
            self._kept[key] = (mark, answer, size)
            while self._size > self.MAX_BYTES and self._kept:
                self._size -= self._kept.popitem(last=False)[1][2]

    def _get(
        self, context: Context, about: Hashable, mark: Mark | None, is_same: Callable[[T, _Tail, Mark], bool]
    ) -> T | None:
        if mark is None:
            return None
        key = (context.actor.owner, about)
        with self._lock:
            tail = self._tails.get(context.actor.organization)
            found = self._kept.get(key)
            if found is None or tail is None or found[0].epoch != mark.epoch or mark.epoch != tail.mark.epoch:
                return None
            if not is_same(found[1], tail, found[0]):
                return None
            self._kept.move_to_end(key)
            return found[1]

    def _look(self, organization: str) -> Mark | None:
        """Return the state of an organization after the last commit."""
        committed = self.committed()
        if committed is None:
            return None
        with self._lock:
            tail = self._tails.get(organization)
            if tail is None:
                tail = self._tails[organization] = _Tail()
                if len(self._tails) > _MAX_ORGANIZATIONS:
                    self._tails.popitem(last=False)
            if tail.committed == committed:
                return tail.mark
            # A commit after `committed` was read may be in these rows already. It is then looked for once more.
            rows = self._query(_ROWS, (organization, tail.number, _MAX_ROWS))
            if rows is not None and (len(rows) >= _MAX_ROWS or not rows):
                rows = self._query(_HEAD, (organization,))
            if rows is None:
                return None
            tail.follow(rows)
            tail.committed = committed
            return tail.mark

    def _query(self, sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]] | None:
        return self._watch.query(sql, parameters) if self._watch is not None else None
