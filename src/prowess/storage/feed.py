"""The log of versions as a feed: which skills of a tenant changed since a position.

Every version carries a number, `feed`, and a position says up to where the numbers were seen.

SQLite has one writer at a time, who counts on from the tenant's last number; so what is committed later always has a
higher one. PostgreSQL has many, who commit in any order: there the number is the id of the writing transaction, and a
position is a snapshot, which knows the transactions that it could not see yet. Either way a position also names the
newest version that was there, by which a database that was restored or exchanged is told from the one that grew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, repeat

import sqlalchemy as sa

from prowess.storage.tables import skill_versions
from prowess.storage.tenant import Tenant, belongs

_OWN = sa.and_(belongs(skill_versions), skill_versions.c.place == sa.bindparam("tenant_place"))
_LAST = sa.select(sa.func.max(skill_versions.c.feed)).where(_OWN)
_NEWEST = (
    sa.select(skill_versions.c.feed, skill_versions.c.id)
    .where(_OWN)
    .order_by(skill_versions.c.feed.desc(), skill_versions.c.id.desc())
    .limit(1)
)
_KNOWN = sa.select(skill_versions.c.feed).where(_OWN, skill_versions.c.id == sa.bindparam("which"))
_AFTER = (
    sa.select(skill_versions.c.slug, skill_versions.c.feed)
    .where(_OWN, skill_versions.c.feed >= sa.bindparam("least"))
    .distinct()
)
_TRANSACTION = sa.text("SELECT CAST(CAST(pg_current_xact_id() AS text) AS bigint)")
_SNAPSHOT = sa.text(
    "SELECT CAST(pg_current_snapshot() AS text), oid || '.' || CAST(to_regclass('skill_versions') AS oid)"
    " FROM pg_database WHERE datname = current_database()"
)

_POSITION = re.compile(
    r"(?P<least>\d{1,18}):(?P<end>\d{1,18}):(?P<open>(?:\d{1,18}(?:,\d{1,18})*)?)/(?P<log>[0-9.]*)/(?P<newest>[0-9a-f-]*)",
    re.ASCII,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Position:
    """Numbers below `end` were seen, except those that are `open`; `least` is below all that were not.

    `log` says which table of which database it was, where that can be told, and `newest` is the id of a version in it.
    """

    least: int
    end: int
    open: frozenset[int]
    log: str
    newest: str

    def saw(self, number: int) -> bool:
        """Whether a version of that number was there."""
        return number < self.end and number not in self.open

    def __str__(self) -> str:
        return f"{self.least}:{self.end}:{','.join(map(str, sorted(self.open)))}/{self.log}/{self.newest}"


def next_numbers(connection: sa.Connection, tenant: Tenant) -> Iterator[int]:
    """The numbers for the versions that a transaction is about to add."""
    if connection.dialect.name == "postgresql":
        return repeat(connection.execute(_TRANSACTION).scalar_one())
    return count((connection.execute(_LAST, _key(tenant)).scalar() or 0) + 1)


def read_feed(connection: sa.Connection, tenant: Tenant, since: str) -> tuple[str, frozenset[str] | None]:
    """The position now, and the slugs that changed since another one; None where that is not known."""
    now = _now(connection, tenant)
    seen = _parse(since)
    if seen is None or not _continues(connection, tenant, seen, now):
        return str(now), None
    rows = connection.execute(_AFTER, {**_key(tenant), "least": seen.least})
    return str(now), frozenset(slug for slug, number in rows if number < now.end and not seen.saw(number))


def _now(connection: sa.Connection, tenant: Tenant) -> _Position:
    row = connection.execute(_NEWEST, _key(tenant)).first()
    newest = row.id if row else ""
    if connection.dialect.name != "postgresql":
        end = row.feed + 1 if row else 0
        return _Position(least=end, end=end, open=frozenset(), log="", newest=newest)
    snapshot, log = connection.execute(_SNAPSHOT).one()
    least, end, running = snapshot.split(":")
    open_ones = frozenset(map(int, running.split(","))) if running else frozenset[int]()
    return _Position(least=int(least), end=int(end), open=open_ones, log=log or "", newest=newest)


def _continues(connection: sa.Connection, tenant: Tenant, seen: _Position, now: _Position) -> bool:
    """Whether the log is the one that the position is from, with all that was there then."""
    if seen.end > now.end or seen.log != now.log:
        return False
    return not seen.newest or connection.execute(_KNOWN, {**_key(tenant), "which": seen.newest}).first() is not None


def _parse(text: str) -> _Position | None:
    found = _POSITION.fullmatch(text)
    if found is None:
        return None
    running = frozenset(map(int, found["open"].split(","))) if found["open"] else frozenset[int]()
    return _Position(
        least=int(found["least"]), end=int(found["end"]), open=running, log=found["log"], newest=found["newest"]
    )


def _key(tenant: Tenant) -> dict[str, str]:
    return {**tenant.key, "tenant_place": tenant.place}
