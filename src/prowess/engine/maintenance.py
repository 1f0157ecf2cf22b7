"""Maintain the account's database: prune it, back it up, restore it, and migrate it up and down. A workspace's database is only migrated down."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from prowess.engine.stores import Stores
from prowess.errors import Invalid, NotFound
from prowess.settings import read_settings
from prowess.storage.database_url import database_exists, display_url, sqlite_path

if TYPE_CHECKING:
    from prowess.policy.retention import PruneReport
    from prowess.storage.backup import Contents, Restored
    from prowess.storage.downgrade import SchemaStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Downgrade:
    """A migration to an older revision: what was deleted (tables and columns, with their rows), and the backup made before."""

    before: str
    after: str
    deleted: dict[str, int]
    backup: str


class Maintenance:
    """Works on the database of the settings. For the operator of the machine: it reaches all organizations. Blocking.

    With the scope `workspace`, only `status` and `downgrade` may be used: that database has skills, and no records.
    """

    def __init__(self, workspace: str | Path | None = None, scope: Literal["account", "workspace"] = "account") -> None:
        self._stores = Stores(read_settings(workspace=workspace))
        settings = self._stores.settings
        self._url = settings.workspace_database if scope == "workspace" else settings.account_database
        self.location = display_url(self._url)

    def prune(self, *, by: str, channel: str, any_key: bool = False) -> list[PruneReport]:
        """Delete the records that their organizations no longer keep; see `policy.retention.Retention.prune`."""
        from prowess.policy.retention import Retention

        if not database_exists(self._url):
            return []
        with closing(self._stores):
            retention = Retention(self._stores.records(), trace_days=self._stores.settings.trace_days)
            return retention.prune(by=by, channel=channel, any_key=any_key)

    def preview_pruning(self) -> list[PruneReport]:
        """Return what `prune` would delete."""
        from prowess.policy.retention import Retention

        if not database_exists(self._url):
            return []
        with closing(self._stores):
            return Retention(self._stores.records(), trace_days=self._stores.settings.trace_days).preview()

    def back_up(self, target: Path, *, replace: bool = False) -> Contents:
        """Write a copy of the database to a file, while others use it; see `storage.backup.back_up`.

        Raise `Invalid`, with the command to use instead, for PostgreSQL.
        """
        from prowess.storage.backup import back_up

        command = f'pg_dump --format=custom --file {target} "$PROWESS_DATABASE_URL"'
        return back_up(self._sqlite_file("backed up", command), target, self._stores.seals, replace=replace)

    def restore(self, source: Path, *, replace: bool = False, any_key: bool = False) -> Restored:
        """Replace the database with a backup; see `storage.backup.restore`. With `any_key`, it is one of ours from then on.

        Raise `Invalid`, with the command to use instead, for PostgreSQL.
        """
        from prowess.storage.backup import restore
        from prowess.storage.database import adopt_database

        command = f'pg_restore --clean --if-exists --no-owner --single-transaction -d "$PROWESS_DATABASE_URL" {source}'
        target, seals = self._sqlite_file("restored", command), self._stores.seals
        restored = restore(source, target, seals, replace=replace, any_key=any_key)
        if not restored.contents.ours:
            adopt_database(self._url, seals)
        return restored

    def status(self) -> SchemaStatus:
        """Return the revision of the database. Changes nothing. Raise `NotFound` if there is no database."""
        from prowess.storage.database import connect_database
        from prowess.storage.downgrade import read_status

        self._require_database()
        with closing(connect_database(self._url, self._stores.seals)) as database:
            return read_status(database)

    def upgrade(self) -> tuple[str, str]:
        """Migrate the database to the newest revision; return the revision before and after."""
        before = self.status().revision
        with closing(self._stores), self._stores.records().read():
            pass  # opening a database migrates it
        return before, self.status().revision

    def downgrade(self, to: str, *, lose_data: bool = False) -> Downgrade:
        """Migrate the database down to a revision, after a backup on SQLite; see `storage.downgrade.migrate_down`."""
        from prowess.storage.backup import back_up
        from prowess.storage.database import connect_database
        from prowess.storage.downgrade import migrate_down

        before = self.status().revision
        path, backup = sqlite_path(self._url), None
        if path:
            source = Path(path)
            backup = source.with_name(f"{source.name}.before-{to[:8]}-{datetime.now(UTC):%Y%m%dT%H%M%S}")
            back_up(source, backup, self._stores.seals)
        try:
            with closing(connect_database(self._url, self._stores.seals)) as database:
                deleted = migrate_down(database, to, lose_data=lose_data)
        except BaseException:
            if backup:
                backup.unlink()  # nothing was changed
            raise
        return Downgrade(before=before, after=to, deleted=deleted, backup=str(backup or ""))

    def _sqlite_file(self, done: str, command: str) -> Path:
        path = sqlite_path(self._url)
        if not path:
            raise Invalid(
                f"The database {self.location} is a PostgreSQL database, which is {done} with its own tools.",
                hint=f"Run `{command}`.",
            )
        return Path(path)

    def _require_database(self) -> None:
        if not database_exists(self._url):
            raise NotFound(
                f"There is no database at {self.location} yet.", hint="It is created when something is first stored."
            )
