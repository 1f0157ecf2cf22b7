"""Sync one source: hold its lease, fetch, compare, write, and record how it ended."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from prowess.catalog.database_store import DatabaseStore
from prowess.catalog.store import Store
from prowess.engine import marketplace
from prowess.engine.context import Context
from prowess.errors import Conflict, ProwessError, TimedOut
from prowess.session.text import format_diff
from prowess.skill.model import SCOPES, Provenance
from prowess.skill.package import Package
from prowess.sources.fetched import Fetched, SourceState
from prowess.sources.source_config import describe_place, make_reference
from prowess.sources.sync import (
    MAX_PROBLEMS,
    Plan,
    PlannedChange,
    Stored,
    SyncStopped,
    Writer,
    plan_sync,
)
from prowess.sources.sync_result import TAKEN, SkillChange, SyncResult, count_statuses
from prowess.storage import ledger, sources
from prowess.storage.clock import now
from prowess.storage.ledger import AuditEntry, EventEntry
from prowess.storage.sources import Source
from prowess.threads import offload, offload_to_completion

if TYPE_CHECKING:
    import sqlalchemy as sa

LEASE_SECONDS = 30.0
"""How long a sync that was killed blocks the next one. A sync that runs extends its lease well before."""
SYNC_SECONDS = 600.0
"""The deadline for fetching. What was fetched is then written to the end: nobody can interrupt that."""

DIFF_CHARS = 10_000
"""The most characters of the difference that a preview shows for each skill."""

SyncProgress = Callable[[int, int], None]
"""Gets how many of the changed skills are written, and how many there are."""

_log = logging.getLogger(__name__)


class SourceSync:
    """Syncs one source for one actor."""

    def __init__(self, context: Context, source: Source) -> None:
        self._context = context
        self._source = source
        self._actor = context.actor
        self._holder = secrets.token_hex(8)
        self._reference = make_reference(source.source_type, source.config)

    async def preview(self) -> SyncResult:
        """Return what a sync would do. Changes nothing. A source that cannot be fetched is a result that failed."""
        try:
            fetched = await self._fetch(None)
        except ProwessError as error:
            return SyncResult(source=self._source, status="failed", error=error, preview=True)
        plan = await offload(lambda: self._plan(fetched, (), self._stored()))
        changes = await offload(lambda: [self._with_diff(change) for change in plan.changes])
        return self._result(changes, plan, preview=True)

    def _with_diff(self, change: PlannedChange) -> PlannedChange:
        if change.status != "updated" or change.reading is None:
            return change
        before = self._store().get_package_by_name(change.slug)
        text = format_diff(before, change.reading.package) if before else ""
        return replace(change, diff=text[:DIFF_CHARS] + ("\n…" if len(text) > DIFF_CHARS else ""))

    async def run(self, *, take: Collection[str] = (), watch: SyncProgress = lambda _done, _total: None) -> SyncResult:
        """Sync, and store the result with the source. Raise `Conflict` if another sync of it runs.

        What the source did wrong is in `error` of the result; everything that is stored is then as it was.
        """
        await offload(self._begin)
        keeper = asyncio.create_task(self._keep_lease())
        try:
            result = await self._attempt(take, watch)
        except SyncStopped as stopped:
            raise Conflict(
                f"The sync of the source {self._source.name!r} was stopped: the source was deleted or changed, or another"
                " sync of it started.",
                hint="Check the source, and sync it again if it still exists.",
            ) from stopped
        except BaseException:
            with suppress(ProwessError):
                await offload_to_completion(self._release)
            raise
        finally:
            keeper.cancel()
            with suppress(asyncio.CancelledError):
                await keeper
        return result

    async def _attempt(self, take: Collection[str], watch: SyncProgress) -> SyncResult:
        last = self._last_state()
        try:
            async with asyncio.timeout(SYNC_SECONDS):
                fetched = await self._fetch(last)
                # Unchanged since a sync that left something out: compare again, because what was in the way may be gone.
                if last and fetched.unchanged and (take or self._source.last_sync_status != "ok"):
                    fetched = await self._fetch(replace(last, etag="", tree="", revision=""))
            return await offload_to_completion(self._apply, fetched, take, watch)
        except TimeoutError:
            failure: ProwessError = TimedOut(
                f"Fetching the source took longer than {SYNC_SECONDS:.0f} seconds.", hint="Sync again."
            )
        except ProwessError as error:
            failure = error
        return await offload(self._failed, failure)

    async def _fetch(self, last: SourceState | None) -> Fetched:
        resources, source = self._context.resources, self._source
        context = replace(
            await offload(self._context.fetch_context),
            every_markdown=source.source_type == "github",
            # The keys and credentials of this machine's user serve that user, nobody else.
            credentials=not self._actor.is_remote and not source.organization_id,
        )
        if source.source_type == "marketplace":
            return await marketplace.fetch_source(
                source, last, settings=resources.marketplace, context=context, known=self._find_known
            )
        return await resources.fetch_source(self._reference, context, last)

    def _find_known(self, name: str, digest: str) -> Package | None:
        """Return the files of a skill if exactly these are stored, so that they are not downloaded again."""
        store = self._store()
        return store.get_package_by_name(name) if store.get_digest(name) == digest else None

    def _last_state(self) -> SourceState | None:
        """Return the state of the last sync that compared anything; None before the first."""
        source = self._source
        if not source.checked_at:
            return None
        return SourceState(
            url=source.fetched_url,
            revision=source.revision,
            tree=source.tree,
            etag=source.etag,
            sequence=source.sequence,
            checked_at=source.checked_at,
            key=source.pinned_key,
        )

    def _stored(self) -> Stored:
        context, source = self._context, self._source
        store = self._store()
        with context.resources.records().read() as connection:
            items = sources.list_items(connection, source)
        farther = [
            other for other in context.catalog.stores() if SCOPES.index(other.scope) > SCOPES.index(source.scope)
        ]
        return Stored(digests=store.get_digests(), items=items, hidden=lambda: _scopes_of(farther))

    def _plan(self, fetched: Fetched, take: Collection[str], stored: Stored) -> Plan:
        return plan_sync(
            fetched,
            stored,
            limits=self._context.resources.limits,
            take=take,
            keep_removed=self._source.config.get("on_removed") == "keep",
            scan=self._context.catalog.scans.of_package,
        )

    def _apply(self, fetched: Fetched, take: Collection[str], watch: SyncProgress) -> SyncResult:
        plan = self._plan(fetched, take, self._stored())
        writer = Writer(
            source=self._source,
            store=self._store(),
            provenance=Provenance(
                source="community",
                source_type=self._source.source_type,
                source_ref=fetched.state.revision or None,
                source_id=self._source.id,
                sync_etag=fetched.state.etag or None,
            ),
            actor=self._actor.label,
            channel=self._actor.channel,
            records=self._context.resources.records(),
            hold=self._hold,
            url_of=lambda path: describe_place(self._reference, path),
        )
        try:
            changes = writer.apply(plan, watch)
        finally:
            self._context.resources.mark_changed()
        result = self._result(changes, plan, unchanged=fetched.unchanged)
        self._end(result, fetched.state)
        return result

    def _result(
        self, changes: Collection[SkillChange], plan: Plan, *, unchanged: bool = False, preview: bool = False
    ) -> SyncResult:
        complete = all(change.status in TAKEN for change in changes)
        return SyncResult(
            source=self._source,
            status="ok" if complete else "partial",
            counts=count_statuses(changes),
            changes=tuple(changes),
            warnings=plan.warnings,
            unchanged=unchanged,
            preview=preview,
        )

    def _failed(self, error: ProwessError) -> SyncResult:
        result = SyncResult(source=self._source, status="failed", error=error)
        self._end(result, None)
        return result

    # The lease.

    def _begin(self) -> None:
        with self._context.resources.records().write() as connection:
            if not sources.take_lease(connection, self._source, self._holder, LEASE_SECONDS):
                raise _is_running(self._source)
            # Read again under the lease: another sync may have ended, or a person changed the address, since it was read.
            self._source = sources.get_source(connection, self._source.owner, self._source.id) or self._source
        self._reference = make_reference(self._source.source_type, self._source.config)

    def _hold(self, connection: sa.Connection) -> None:
        if not sources.keep_lease(connection, self._source, self._holder, LEASE_SECONDS):
            raise SyncStopped

    async def _keep_lease(self) -> None:
        """Extend the lease until cancelled. If that fails, the next write notices."""
        while True:
            await asyncio.sleep(LEASE_SECONDS / 3)
            try:
                await offload(self._extend)
            except (ProwessError, SyncStopped) as error:
                _log.warning("Failed to extend the lease of the source %s: %s", self._source.id, error)

    def _extend(self) -> None:
        with self._context.resources.records().write() as connection:
            self._hold(connection)

    def _release(self) -> None:
        with self._context.resources.records().write() as connection:
            sources.end_lease(connection, self._source, self._holder, {})

    def _end(self, result: SyncResult, state: SourceState | None) -> None:
        """Store the result with the source, and publish it. An unchanged source leaves neither event nor audit row."""
        source, error = self._source, result.error
        values: dict[str, Any] = {
            "last_sync_at": now(),
            "last_sync_status": result.status,
            "last_sync_error": _describe(error) if error else None,
        }
        if state is not None:
            values |= {name: getattr(state, name) for name in ("revision", "tree", "etag", "sequence")}
            values |= {"fetched_url": state.url, "checked_at": state.checked_at or now(), "pinned_key": state.key}
            values |= {"counts": result.counts, "problems": _stored_problems(result)}
        quiet = result.unchanged and source.last_sync_status == result.status
        with self._context.resources.records().write() as connection:
            if not sources.end_lease(connection, source, self._holder, values):
                raise SyncStopped
            if not quiet:
                self._publish(connection, result)
        if not quiet:
            self._context.resources.wake(source.organization_id)

    def _publish(self, connection: sa.Connection, result: SyncResult) -> None:
        source, error = self._source, result.error
        data = {
            "source_id": source.id,
            "name": source.name,
            "source_type": source.source_type,
            "status": result.status,
            "counts": result.counts,
            "error": error.message if error else None,
        }
        event = EventEntry(name="source_synced", data=data, user_id=source.user_id)
        audit = AuditEntry(
            actor=self._actor.label,
            channel=self._actor.channel,
            action="sync_source",
            outcome=result.status,
            detail={key: value for key, value in data.items() if value is not None},
        )
        ledger.append(connection, source.organization_id, audits=[audit], events=[event])

    def _store(self) -> DatabaseStore:
        # Skills of these scopes are always kept in the account's database.
        return cast("DatabaseStore", self._context.resources.writable(self._source.scope))


def _scopes_of(stores: Collection[Store]) -> dict[str, str]:
    return {card.slug: store.scope for store in reversed(list(stores)) for card in store.list_skills()}


def _is_running(source: Source) -> Conflict:
    return Conflict(
        f"Another sync of the source {source.name!r} is running.",
        hint="Wait until it is done. If that sync was killed, you can start a new one after 30 seconds.",
    )


def _describe(error: ProwessError) -> str:
    return f"{error.message} {error.hint}".strip()[:2_000]


def _stored_problems(result: SyncResult) -> list[dict[str, Any]]:
    """Return the warnings, and the skills that were not taken, for everyone who looks at the source later."""
    warnings = [{"status": "warning", "message": warning.message, "hint": warning.hint} for warning in result.warnings]
    left = [change for change in result.changes if change.status not in TAKEN][:MAX_PROBLEMS]
    names = ("status", "path", "slug", "message", "hint")
    return [*warnings, *({name: change.as_json()[name] for name in names} for change in left)]
