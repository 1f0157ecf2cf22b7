"""Sources: the places that skills are copied from and kept in step with."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from prowess.engine.context import Context, Part
from prowess.engine.records import read_rows
from prowess.errors import Conflict, Invalid, NotFound, ProwessError, Refused
from prowess.policy.actor import Actor
from prowess.policy.people_log import is_operator
from prowess.policy.text import has_control_chars
from prowess.storage import ledger, sources
from prowess.storage.driver_errors import reading
from prowess.storage.ledger import AuditEntry
from prowess.storage.sources import Source, SourceItem, SourceType
from prowess.threads import offload

if TYPE_CHECKING:
    import sqlalchemy as sa

    from prowess.catalog.database_store import DatabaseStore
    from prowess.engine.source_sync import SourceSync, SyncProgress
    from prowess.skill.model import Scope, Skill
    from prowess.sources.sync_result import SyncResult

SOURCE_SCOPES: tuple[Scope, ...] = ("org", "user", "account")
"""Where the skills of a source can be kept. A workspace is for overrides, which no sync touches."""
MAX_SOURCES = 200
"""How many sources an organization may have."""
_log = logging.getLogger(__name__)

_NAME_CHARS = 200

T = TypeVar("T")


class Sources(Part):
    """The sources of the actor's organization, and the actor's own.

    Everyone who may read skills sees them. Only a person with `skills.write` may change or sync them: an agent would
    otherwise decide about the skills of everyone.
    """

    async def list(self) -> list[Source]:
        """Return all sources, by name."""
        self._context.actor.require("skills.read")
        list_own = partial(sources.list_sources, owner=self._context.actor.owner)
        return await offload(read_rows, self._context, list_own, [])

    async def get(self, source_id: str) -> Source:
        """Return a source, or raise `NotFound`."""
        self._context.actor.require("skills.read")
        return await offload(self._find, source_id)

    async def items(self, source_id: str) -> dict[str, SourceItem]:
        """Return the skills of a source, by slug, as the source delivered them."""
        source = await self.get(source_id)
        records = self._context.resources.records()

        def read() -> dict[str, SourceItem]:
            with records.read() as connection:
                return sources.list_items(connection, source)

        return await offload(read)

    async def create(
        self,
        name: str,
        source_type: str,
        config: Mapping[str, Any],
        *,
        scope: Scope | None = None,
        enabled: bool = True,
    ) -> Source:
        """Add a source. Nothing is fetched before the first sync.

        `scope` is where its skills are kept: by default the organization, or the account where there is none. A source in
        the scope `user` is the actor's alone.
        """
        draft = self._draft(name, source_type, config, scope, enabled=enabled)

        def add(connection: sa.Connection) -> Source:
            if len(sources.list_sources(connection, draft.owner)) >= MAX_SOURCES:
                raise Refused(f"There are already {MAX_SOURCES} sources.", hint="Delete one that is no longer used.")
            return sources.add_source(connection, draft, self._context.actor.label)

        return await offload(self._write, "create_source", draft, add)

    async def update(
        self,
        source_id: str,
        *,
        name: str | None = None,
        source_type: str | None = None,
        config: Mapping[str, Any] | None = None,
        enabled: bool | None = None,
    ) -> Source:
        """Change a source. A new configuration replaces the old one completely; the type cannot change."""
        self._check_writer()
        source = await offload(self._find, source_id)
        if source_type not in (None, source.source_type):
            raise Invalid("The type of a source cannot be changed.", hint="Delete the source and add another one.")
        changes: dict[str, Any] = {}
        if name is not None:
            changes["name"] = _checked_name(name)
        if config is not None:
            changes["config"] = self._checked(source.source_type, config)
        if enabled is not None:
            changes["enabled"] = enabled

        def change(connection: sa.Connection) -> Source:
            now = self._get(connection, source_id, lock=True)
            sources.change_source(connection, now, changes)
            return self._get(connection, source_id)

        return await offload(self._write, "update_source", replace(source, **changes), change)

    async def delete(self, source_id: str, *, remove_skills: bool = False) -> int:
        """Delete a source, and return how many skills were deleted with it.

        Its skills stay, or with `remove_skills` are deleted, except those that someone edited. Their versions are kept.
        """
        self._check_writer()
        source = await offload(self._find, source_id)
        removed = await offload(self._remove_skills, source) if remove_skills else 0

        def delete(connection: sa.Connection) -> Source:
            now = self._get(connection, source_id, lock=True)
            sources.delete_source(connection, now)
            return now

        await offload(self._write, "delete_source", source, delete)
        return removed

    async def preview(
        self,
        source_id: str = "",
        *,
        source_type: str = "",
        config: Mapping[str, Any] | None = None,
        scope: Scope | None = None,
    ) -> SyncResult:
        """Return the changes that a sync would make, of a source that exists or a new one. Changes nothing."""
        if source_id:
            self._check_writer()
            source = await offload(self._find, source_id)
        else:
            source = self._draft("preview", source_type, config or {}, scope)
        return await _sync_of(self._context, source).preview()

    async def sync(
        self,
        source_id: str,
        *,
        take: Collection[str] = (),
        watch: SyncProgress = lambda _done, _total: None,
    ) -> SyncResult:
        """Fetch a source and update its skills in the catalog. Raise `Conflict` if another sync of it is running.

        `take` are the slugs of skills that were edited or deleted here and are to be as the source has them. A failure of the
        source is in the result and stored with the source; nothing is changed then.
        """
        self._check_writer()
        source = await offload(self._find, source_id)
        if not source.enabled:
            raise Refused(
                f"The source {source.name!r} is disabled.", hint=f"Enable it: `prowess source enable {source.id}`."
            )
        return await _sync_of(self._context, source).run(take=take, watch=watch)

    async def install(
        self, source_type: str, url: str, *, ref: str = "", slug: str = "", scope: Scope | None = None
    ) -> Skill:
        """Store one skill from a repository or URL once, without a source that keeps it in sync.

        `slug` chooses one of several. Raise `DuplicateSkill` if the slug is taken, also by a skill that it would hide.
        """
        self._check_writer()
        if source_type not in ("github", "url"):
            raise Invalid(
                f"Skills of type {source_type[:40]!r} cannot be installed from a URL.", hint="Use github or url."
            )
        from prowess.engine.source_install import install_from

        chosen = self._checked_scope(scope)
        return await install_from(self._context, cast("SourceType", source_type), url, ref=ref, slug=slug, scope=chosen)

    async def sync_stale(self) -> list[SyncResult]:
        """Sync every enabled source whose interval has passed, one after the other."""
        self._check_writer()
        stale = [source for source in await self.list() if source.enabled and source.is_stale()]
        results = [await _sync_unless_running(self._context, source) for source in stale]
        return [result for result in results if result is not None]

    async def sync_due(self) -> list[SyncResult]:
        """Sync the sources with the policy `auto` that are due, of all organizations. For background work of the operator.

        Changes are recorded under the actor `source:ID`.
        """
        if not is_operator(self._context.actor):
            raise Refused("Only the operator can sync the sources of all organizations.", hint="Sync your own sources.")
        due = await self.list_due()
        return [result for source in due if (result := await self.sync_one_due(source)) is not None]

    async def list_due(self) -> list[Source]:
        """Return the sources with the policy `auto` that are due, of all organizations. Only the operator can."""
        return [source for source in await self.list_automatic() if source.is_stale() and not source.is_syncing]

    async def list_automatic(self) -> list[Source]:
        """Return the sources with the policy `auto` of all organizations. Only the operator can."""
        if not is_operator(self._context.actor):
            raise Refused("Only the operator can list the sources of all organizations.", hint="List your own sources.")
        return await offload(read_rows, self._context, sources.list_automatic, [])

    async def sync_one_due(self, source: Source) -> SyncResult | None:
        """Sync a source that `list_due` returned; None if another process is syncing it.

        Also None for a source that cannot be synced at all, such as a damaged one. This is logged, so that the sources of other organizations are still synced.
        """
        if not is_operator(self._context.actor):
            raise Refused("Only the operator can sync the sources of all organizations.", hint="Sync your own sources.")
        # Recorded in the organization under the name of the source: nobody there asked for it.
        resources = self._context.resources.of(source.organization_id, source.user_id)
        own = Actor(
            name=f"source:{source.id}",
            organization=source.organization_id,
            user=source.user_id,
            permissions=frozenset({"skills.read", "skills.write"}),
            channel="schedule",
        )
        try:
            return await _sync_unless_running(Context(opened=resources, actor=own), source)
        except ProwessError as error:
            _log.warning("The source %s could not be synced: %s", source.id, error)
            return None

    def _draft(
        self, name: str, source_type: str, config: Mapping[str, Any], scope: Scope | None, *, enabled: bool = True
    ) -> Source:
        self._check_writer()
        actor, scope = self._context.actor, self._checked_scope(scope)
        return Source(
            id=str(uuid.uuid4()),
            organization_id=actor.organization,
            user_id=actor.user if scope == "user" else "",
            scope=scope,
            name=_checked_name(name),
            source_type=cast("SourceType", source_type),
            config=self._checked(source_type, config),
            enabled=enabled,
        )

    def _checked(self, source_type: str, config: Mapping[str, Any]) -> dict[str, Any]:
        from prowess.sources.source_config import check_config

        actor = self._context.actor
        return check_config(source_type, config, remote=actor.is_remote or bool(actor.organization))

    def _checked_scope(self, scope: Scope | None) -> Scope:
        chosen = scope or ("org" if self._context.actor.organization else "account")
        if chosen not in SOURCE_SCOPES:
            raise Invalid(
                f"The skills of a source cannot be stored in the {chosen} scope.",
                hint=f"Use one of: {', '.join(SOURCE_SCOPES)}.",
            )
        return chosen

    def _check_writer(self) -> None:
        actor = self._context.actor
        actor.require("skills.write")
        if not actor.is_person:
            raise Refused(
                "Agents may not add, change or sync sources.", hint="Ask the user to do this, and continue without it."
            )
        if actor.role:
            raise Refused(
                f"The role {actor.role!r} may not change or sync sources.", hint="Act without a role to do this."
            )

    def _remove_skills(self, source: Source) -> int:
        """Delete the skills of a source that are as it delivered them; return how many there were."""
        store = cast("DatabaseStore", self._context.resources.writable(source.scope))
        actor, removed = self._context.actor, list[str]()

        def finish(connection: sa.Connection, slugs: list[str]) -> None:
            removed.extend(slugs)
            entries = [
                AuditEntry(
                    actor=actor.label,
                    channel=actor.channel,
                    action="delete",
                    slug=slug,
                    digest=items[slug].digest,
                    outcome="done",
                    detail={"source_id": source.id},
                )
                for slug in slugs
            ]
            slug = slugs[0] if len(slugs) == 1 else ""
            events = ledger.catalog_events("delete", len(slugs), slug=slug, user=source.user_id)
            ledger.append(connection, source.organization_id, audits=entries, events=events)
            sources.remove_items(connection, source, slugs)

        with self._context.resources.records().read() as connection:
            items = sources.list_items(connection, source)
        store.delete_skills({item.slug: item.digest for item in items.values()}, finish, actor=actor.label)
        self._context.resources.mark_changed()
        self._context.resources.wake(source.organization_id)
        return len(removed)

    def _find(self, source_id: str) -> Source:
        if not self._context.resources.has_records():
            raise _unknown(source_id)
        with self._context.resources.records().read() as connection:
            return self._get(connection, source_id)

    def _get(self, connection: sa.Connection, source_id: str, *, lock: bool = False) -> Source:
        found = (
            None
            if has_control_chars(source_id)
            else sources.get_source(connection, self._context.actor.owner, source_id, lock=lock)
        )
        if found is None:
            raise _unknown(source_id)
        return found

    def _write(self, action: str, source: Source, write: Callable[[sa.Connection], Source]) -> Source:
        """Write with an audit row in the same transaction."""
        actor = self._context.actor
        detail = {
            "source_id": source.id,
            "name": source.name,
            "source_type": source.source_type,
            "config": source.config,
            "enabled": source.enabled,
            "scope": source.scope,
        }
        entry = AuditEntry(actor=actor.label, channel=actor.channel, action=action, outcome="done", detail=detail)
        with self._context.resources.records().write() as connection:
            written = write(connection)
            ledger.append(connection, source.organization_id, audits=[entry])
        return written


async def _sync_unless_running(context: Context, source: Source) -> SyncResult | None:
    try:
        return await _sync_of(context, source).run()
    except Conflict:
        return None


def _sync_of(context: Context, source: Source) -> SourceSync:
    from prowess.engine.source_sync import SourceSync

    with reading(f"The source {source.name!r}"):
        return SourceSync(context, source)


def _unknown(source_id: str) -> NotFound:
    return NotFound(f"No source with the id {source_id[:80]!r}.", hint="Run `prowess source list` to see all sources.")


def _checked_name(name: str) -> str:
    text = name.strip()
    if not text or len(text) > _NAME_CHARS or has_control_chars(text):
        raise Invalid(
            f"Invalid name of a source: {name[:80]!r}.", hint=f"Use a plain text of at most {_NAME_CHARS} characters."
        )
    return text
