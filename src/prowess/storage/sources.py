"""Store the sources that skills are copied from, the skills that each delivered, and which sync runs now.

Every query names the owner: the organization, and the user if the source is one user's own. A source of someone else is
found no more than one that does not exist.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from prowess.skill.model import Scope
from prowess.storage.blobs import split_chunks
from prowess.storage.clock import SKEW_SECONDS, is_ahead, is_recent, now, seconds_from_now
from prowess.storage.owner import Owner
from prowess.storage.rows import LazyStatements, make_row, row_values

if TYPE_CHECKING:
    import sqlalchemy as sa

    from prowess.storage.sql import sources as sql
else:
    sql = LazyStatements("sources")

SourceType = Literal["github", "marketplace", "url"]
SyncStatus = Literal["ok", "partial", "failed"]
"""How a sync ended: all skills were taken, some were not, or nothing was changed."""

DEFAULT_INTERVAL = 360
"""Minutes after which a source without an interval of its own is stale."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One source, with the state of its last sync. `user_id` is '' if it belongs to the whole organization."""

    id: str
    organization_id: str
    user_id: str
    scope: Scope
    name: str
    source_type: SourceType
    config: dict[str, Any]
    enabled: bool = True
    created_at: str = ""
    created_by: str = ""
    updated_at: str = ""
    last_sync_at: str | None = None
    last_sync_status: SyncStatus | None = None
    last_sync_error: str | None = None
    fetched_url: str = ""
    revision: str = ""
    tree: str = ""
    etag: str = ""
    checked_at: str = ""
    pinned_key: str = ""
    sequence: int = 0
    counts: dict[str, int] = field(default_factory=dict[str, int])
    problems: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    lease_owner: str | None = None
    lease_until: str | None = None

    @property
    def owner(self) -> Owner:
        """The owner of the source."""
        return Owner(organization_id=self.organization_id, user_id=self.user_id)

    @property
    def interval_minutes(self) -> int:
        """Minutes between two automatic syncs, and after which the source is stale."""
        try:
            return int(self.config.get("sync_interval_minutes") or DEFAULT_INTERVAL)
        except (AttributeError, TypeError, ValueError):  # damaged, which must not hold up the other sources of a list
            return DEFAULT_INTERVAL

    @property
    def is_automatic(self) -> bool:
        """True if the source is synced at its interval. One that another program damaged is not."""
        try:
            return self.config.get("sync_policy") == "auto"
        except AttributeError:
            return False

    @property
    def is_syncing(self) -> bool:
        """True while a sync runs."""
        return self.lease_until is not None and is_ahead(self.lease_until)

    def as_json(self) -> dict[str, Any]:
        """Return a JSON object for people: without the lease, but with what it means."""
        columns = {name: value for name, value in row_values(self).items() if not name.startswith("lease_")}
        return {**columns, "syncing": self.is_syncing, "stale": self.is_stale()}

    def is_stale(self) -> bool:
        """Return True if the last sync is longer ago than the interval."""
        return self.last_sync_at is None or not is_recent(self.last_sync_at, 60 * self.interval_minutes)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceItem:
    """One skill that a source delivered, as it was delivered. The stored skill may have been edited since."""

    slug: str
    path: str
    digest: str
    revision: str = ""
    updated_at: str = ""


CHANGEABLE = frozenset({"name", "config", "enabled"})
"""The fields of a source that a person changes."""
STATE = ("fetched_url", "revision", "tree", "etag", "checked_at", "sequence")
"""The fields that record the state of the source at its last sync."""
COMPARED = ("revision", "tree", "etag")
"""Those of them from which a sync sees that nothing has changed."""
ON_REMOVED = "on_removed"


def add_source(connection: sa.Connection, source: Source, by: str) -> Source:
    """Add a source that was never synced, and return it as it is stored."""
    moment = now()
    source = replace(source, created_at=moment, created_by=by, updated_at=moment)
    connection.execute(sql.INSERT, row_values(source))
    return source


def get_source(connection: sa.Connection, owner: Owner, id: str, *, lock: bool = False) -> Source | None:
    """Return a source that the owner sees, or None. With `lock`, no other transaction changes it until this one ends."""
    query = sql.ONE.with_for_update() if lock else sql.ONE
    row = connection.execute(query, {**owner.key, "which": id}).mappings().first()
    return Source(**row) if row else None


def list_sources(connection: sa.Connection, owner: Owner) -> list[Source]:
    """Return the sources that the owner sees: the organization's and the user's own, by name."""
    found = [make_row(Source, row, ("config", "counts", "problems")) for row in sql.LIST.rows(connection, owner.key)]
    # SQLite has no booleans: rows that SQLAlchemy does not convert have 0 and 1.
    return [replace(source, enabled=bool(source.enabled)) for source in found]


def list_automatic(connection: sa.Connection) -> list[Source]:
    """Return the sources of all organizations that are synced at an interval, the longest unsynced first.

    For background work only: nothing of this is shown to a tenant.
    """
    rows = connection.execute(sql.AUTOMATIC).mappings()
    return [source for source in (Source(**row) for row in rows) if source.is_automatic]


def change_source(connection: sa.Connection, source: Source, changes: Mapping[str, Any]) -> None:
    """Change fields of a source. A new address forgets the state of the old one, which says nothing about the new.

    If it is decided anew what happens to removed skills, the next sync compares again. Both take the lease from a running
    sync, which would continue to write the skills of the old address, and its state as that of the new one.
    """
    values: dict[str, Any] = {name: changes[name] for name in CHANGEABLE & changes.keys()}
    if "config" in values:
        values |= _forget(source.config, values["config"])
    _update(connection, source, {**values, "updated_at": now()})


def _forget(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that say nothing about a new configuration, emptied."""
    free = {"lease_owner": None, "lease_until": None}
    if _address(after) != _address(before):
        return free | {name: 0 if name == "sequence" else "" for name in (*STATE, "pinned_key")}
    return free | dict.fromkeys(COMPARED, "") if after.get(ON_REMOVED) != before.get(ON_REMOVED) else {}


def _address(config: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in config.items()
        if name not in ("sync_policy", "sync_interval_minutes", ON_REMOVED)
    }


def delete_source(connection: sa.Connection, source: Source) -> None:
    """Delete a source and the list of what it delivered. The skills stay."""
    connection.execute(sql.DELETE_ITEMS, {"of_source": source.id, "of_organization": source.organization_id})
    connection.execute(sql.DELETE, {**source.owner.key, "which": source.id})


def take_lease(connection: sa.Connection, source: Source, holder: str, seconds: float) -> bool:
    """Let one sync of a source start; return False if another one runs.

    One statement on both databases: of two that run at the same time, the second sees the lease of the first. It ends by
    itself, so that a sync that was killed does not block the next one forever.
    """
    take = sql.UPDATE_FREE.values(lease_owner=holder, lease_until=seconds_from_now(seconds))
    key = {**source.owner.key, "which": source.id, "moment": now(), "latest": seconds_from_now(SKEW_SECONDS)}
    return connection.execute(take, key).rowcount == 1


def keep_lease(connection: sa.Connection, source: Source, holder: str, seconds: float) -> bool:
    """Extend a lease; return False if it was lost. Until the transaction ends, nobody else can take it."""
    keep = sql.UPDATE_HELD.values(lease_until=seconds_from_now(seconds))
    return connection.execute(keep, {**source.owner.key, "which": source.id, "holder": holder}).rowcount == 1


def end_lease(connection: sa.Connection, source: Source, holder: str, values: Mapping[str, Any]) -> bool:
    """Record how a sync ended, and let the next one start; return False if the lease was lost, and record nothing."""
    end = sql.UPDATE_HELD.values(**values, lease_owner=None, lease_until=None)
    return connection.execute(end, {**source.owner.key, "which": source.id, "holder": holder}).rowcount == 1


def list_items(connection: sa.Connection, source: Source) -> dict[str, SourceItem]:
    """Return the skills that a source delivered, by slug."""
    key = {"of_source": source.id, "of_organization": source.organization_id}
    rows = connection.execute(sql.ITEMS, key).mappings()
    return {row["slug"]: SourceItem(**row) for row in rows}


def put_items(connection: sa.Connection, source: Source, items: Sequence[SourceItem]) -> None:
    """Record skills as they were delivered."""
    moment = now()
    common = {"source_id": source.id, "organization_id": source.organization_id, "updated_at": moment}
    rows = [{**asdict(item), **common} for item in items]
    if rows:
        connection.execute(sql.put_items(connection), rows)


def remove_items(connection: sa.Connection, source: Source, slugs: Collection[str]) -> None:
    """Forget that a source delivered these skills."""
    key = {"of_source": source.id, "of_organization": source.organization_id}
    for chunk in split_chunks(sorted(slugs)):
        connection.execute(sql.delete_items(chunk), key)


def _update(connection: sa.Connection, source: Source, values: Mapping[str, Any]) -> None:
    connection.execute(sql.UPDATE.values(**values), {**source.owner.key, "which": source.id})
