"""The composition root: from settings to an engine with its stores.

What needs a database is imported when there is one: it takes longer than listing a few skill folders.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Self

from prowess.catalog.catalog import Catalog
from prowess.catalog.deferred import DeferredVersions
from prowess.catalog.directory import DirectoryStore
from prowess.catalog.discovery import user_roots, workspace_roots
from prowess.catalog.memory import MemoryStore
from prowess.catalog.store import Store
from prowess.engine import Engine
from prowess.errors import Invalid, Refused
from prowess.settings import FOLDER, Settings, read_settings
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.model import Scope
from prowess.storage.location import database_exists

if TYPE_CHECKING:
    from prowess.catalog.database_versions import DatabaseVersions
    from prowess.catalog.doctor import Finding
    from prowess.storage.deferred import DeferredDatabase


class Prowess(Engine):
    """The engine, opened for a workspace."""

    @classmethod
    def open(cls, workspace: str | Path | None = None, *, settings: Settings | None = None) -> Self:
        """Open with the settings of the environment; nothing is written before something is kept."""
        stores = Stores(settings or read_settings(workspace=workspace))
        return cls(Catalog(stores.present), limits=stores.limits, writable=stores.writable, close=stores.close)


class Stores:
    """The stores that these settings give, each opened when it is first needed.

    They are looked for anew at every call, so that a skill folder or a database that appears later is seen.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.limits = limits_of(settings)
        self._lock = threading.Lock()
        self._databases: dict[str, DeferredDatabase] = {}
        self._folders: dict[tuple[Scope, Path], DirectoryStore] = {}
        self._session = MemoryStore(scope="session")

    @property
    def database_urls(self) -> dict[Scope, str]:
        """The database of each scope that has one."""
        return {"workspace": self.settings.workspace_database, "account": self.settings.account_database}

    def present(self) -> list[Store]:
        """Every store that is there; a scope's folders, which people edit, before its database."""
        settings = self.settings
        near = workspace_roots(settings.workspace)
        far = user_roots(settings.user_home, settings.environment)
        found: list[Store] = [self._session]
        found += [self._folder("workspace", root) for root in near]
        found += [self._folder("user", root) for root in far if root not in near]
        for scope, url in self.database_urls.items():
            if database_exists(url) and not self._leads_elsewhere(scope):
                found.append(self.writable(scope))
        return found

    def writable(self, scope: Scope) -> Store:
        """The store that keeps new skills of a scope; its database is made when something is written."""
        url = self.database_urls.get(scope)
        if url is None:
            raise Invalid(f"Nothing can be imported into the {scope} scope.", hint="Choose workspace or account.")
        if self._leads_elsewhere(scope):
            raise Refused(
                f"{str(self.settings.workspace / FOLDER)!r} is a link; whoever made the workspace chose where it leads.",
                hint="Remove the link, or import with --scope account.",
            )
        from prowess.catalog.database import DatabaseStore

        return DatabaseStore(self._database(url), scope=scope, limits=self.limits)

    def close(self) -> None:
        """Close every database."""
        with self._lock:
            for database in self._databases.values():
                database.close()
            self._databases.clear()

    def _leads_elsewhere(self, scope: Scope) -> bool:
        return scope == "workspace" and (self.settings.workspace / FOLDER).is_symlink()

    def _database(self, url: str) -> DeferredDatabase:
        from prowess.storage.deferred import DeferredDatabase

        with self._lock:
            if url not in self._databases:
                self._databases[url] = DeferredDatabase(url)
            return self._databases[url]

    def _folder(self, scope: Scope, root: Path) -> DirectoryStore:
        with self._lock:
            key = (scope, root)
            if key not in self._folders:
                place = self._place(scope, root)
                url = self.database_urls["workspace" if scope == "workspace" else "account"]
                versions = DeferredVersions(
                    find=lambda: self._versions(scope, place, url) if database_exists(url) else None,
                    make=lambda: self._versions(scope, place, url),
                )
                self._folders[key] = DirectoryStore(
                    root, scope=scope, versions=versions, limits=self.limits, place=place
                )
            return self._folders[key]

    def _place(self, scope: Scope, root: Path) -> str:
        """What a skill folder is known by: relative to its workspace, so that it stays itself when that is moved."""
        if scope == "workspace":
            return Path(os.path.relpath(root, self.settings.workspace)).as_posix()
        return str(root.resolve())

    def _versions(self, scope: Scope, place: str, url: str) -> DatabaseVersions:
        """Where the versions of a skill folder are kept: the workspace's database, or the account's."""
        from prowess.catalog.database_versions import DatabaseVersions

        return DatabaseVersions(self._database(url), scope=scope, place=place)


def limits_of(settings: Settings) -> Limits:
    """The limits of these settings; what is not set is the default."""
    default = DEFAULT_LIMITS
    return Limits(
        archive_bytes=settings.max_archive_bytes or default.archive_bytes,
        skill_bytes=settings.max_skill_bytes or default.skill_bytes,
        file_bytes=settings.max_file_bytes or default.file_bytes,
        files=settings.max_files or default.files,
    )


def examine(workspace: str | Path | None = None) -> list[Finding]:
    """What `prowess doctor` reports; it also clears away what an interrupted write left behind."""
    from prowess.catalog.doctor import examine_stores

    stores = Stores(read_settings(workspace=workspace))
    try:
        return examine_stores(
            home=stores.settings.home,
            workspace=stores.settings.workspace,
            database_urls=stores.database_urls,
            catalog=Catalog(stores.present),
        )
    finally:
        stores.close()
