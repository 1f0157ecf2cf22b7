"""The stores of all places. Database code is imported only when there is a database."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from prowess.catalog.deferred_store import ListingCache, deferred_store
from prowess.catalog.directory_store import DirectoryStore
from prowess.catalog.memory_store import ForeignFolder, MemoryStore, UnusedStore
from prowess.catalog.store import Store
from prowess.catalog.version_log import LazyVersions, MemoryVersions
from prowess.engine.places import Place, Places
from prowess.errors import Invalid, NotFound, Refused
from prowess.plugins import working_plugins
from prowess.settings import FOLDER, Settings
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.model import Scope
from prowess.storage.database_url import database_exists, display_url, sqlite_path

if TYPE_CHECKING:
    from prowess.catalog.database_versions import DatabaseVersions
    from prowess.storage.database import Connections, DeferredDatabase
    from prowess.storage.seals import Seals


@dataclass(slots=True, kw_only=True)
class _Opened:
    """What the stores of all organizations share."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    databases: dict[str, DeferredDatabase] = field(default_factory=dict[str, "DeferredDatabase"])
    folders: dict[tuple[Scope, str], DirectoryStore] = field(default_factory=dict[tuple[Scope, str], DirectoryStore])
    organizations: dict[str, Stores] = field(default_factory=dict[str, "Stores"])


class Stores:
    """The stores of one organization, each opened on first use.

    They are looked up at every call, so that a skill folder or a database that appears later is seen. Folders belong to
    the machine and serve every organization; a database holds the skills of each organization apart.
    """

    def __init__(self, settings: Settings, organization: str = "", opened: _Opened | None = None) -> None:
        self.settings = settings
        self.organization = organization
        self.places = Places(settings)
        self.limits = make_limits(settings)
        self._opened = opened or _Opened()
        self._has_records = False
        self._account_url = settings.account_database  # composed from paths; asked for several times in every call
        self._session = MemoryStore(scope="session")
        self._opened.organizations[organization] = self

    def of(self, organization: str) -> Stores:
        """Return the stores of an organization, which use the databases and folders that are open here."""
        with self._opened.lock:
            found = self._opened.organizations.get(organization)
            return found or Stores(self.settings, organization, self._opened)

    def present(self) -> list[Store]:
        """Return every store that exists, those of one scope in the order of `Places.present`."""
        return [*self.matched(), *(self._store(place) for place in self.places.shipped())]

    def matched(self) -> list[Store]:
        """Return the stores whose skills are matched with messages: all but those that come with Prowess."""
        brought = [store for plugin in working_plugins() for store in plugin.stores]
        places, foreign = self.places.find()
        unread = [ForeignFolder(place.address, scope=place.scope, owner=owner) for place, owner in foreign]
        return [self._session, *map(self._store, places), *brought, *unread]

    def record(self) -> bytes:
        """Return `Places.record`, or b'' if the session has skills of its own, which no other process can see."""
        return b"" if self._session.list_skills() else self.places.record()

    def holds(self, record: bytes) -> bool:
        """Return `Places.holds`, or False if the session has skills of its own."""
        return not self._session.list_skills() and self.places.holds(record)

    def shared(self) -> bool:
        """Return True if no skill belongs to the session alone."""
        return not self._session.list_skills()

    def writable(self, scope: Scope) -> Store:
        """Return the store that keeps new skills of a scope. Its database is created when something is written."""
        url = self.places.database_urls.get(scope)
        if url is None:
            raise Invalid(
                f"Skills cannot be imported into the {scope} scope.",
                hint="Use `--scope workspace` or `--scope account`.",
            )
        if scope == "workspace" and self.settings.new_skills == "folder":
            return self._new_skills_folder()
        # A workspace may come from anyone: a link in it could make us write into a database elsewhere.
        if self.places.leads_elsewhere(scope):
            raise Refused(
                f"{str(self.settings.workspace / FOLDER)!r} or its database is a link, which could lead outside the workspace.",
                hint="Remove the link, or import with `--scope account`.",
            )
        return deferred_store(
            lambda: self._database_store(scope, url),
            scope=scope,
            location=display_url(url),
            cache=self._listing_cache(scope, url),
        )

    def _new_skills_folder(self) -> Store:
        root = self.settings.workspace / "skills"
        if root.is_symlink():
            raise Refused(f"{str(root)!r} is a link, which could lead outside the workspace.", hint="Remove the link.")
        return self._folder(Place(scope="workspace", kind="folder", address=str(root)))

    def records(self) -> Connections:
        """Return the database of sessions, approvals, events and the audit log: the account's, created on first use."""
        return self._database(self._account_url)

    def has_records(self) -> bool:
        """Return True if that database exists. Once it does, it is assumed to stay."""
        self._has_records = self._has_records or database_exists(self._account_url)
        return self._has_records

    @contextmanager
    def snapshot(self) -> Generator[None]:
        """Let the reads that this thread makes inside the block share one transaction for each database."""
        # Databases that are not open yet stay as they are: opening one may create it, and none may be read at all.
        with ExitStack() as stack:
            for database in tuple(self._opened.databases.values()):
                if database.is_open:
                    stack.enter_context(database.snapshot())
            yield

    def release(self) -> None:
        """Close all idle connections; databases are opened again when they are used.

        The last connection moves the write-ahead log into the file of a SQLite database. Done when this process ends, that
        would look like a change to what it has indexed.
        """
        for database in tuple(self._opened.databases.values()):
            database.close()

    def close(self) -> None:
        """Close every database."""
        with self._opened.lock:
            for database in self._opened.databases.values():
                database.close()
            self._opened.databases.clear()

    def _store(self, place: Place) -> Store:
        return self._folder(place) if place.kind == "folder" else self.writable(place.scope)

    def _database_store(self, scope: Scope, url: str) -> Store:
        # Imported when a database is used, because it brings SQLAlchemy.
        from prowess.catalog.database_store import DatabaseStore

        database = self._database(url)
        refusal = database.refusal() if scope == "workspace" else None
        if refusal is not None:
            return UnusedStore(scope, database.location, refusal)
        return DatabaseStore(database, scope=scope, organization_id=self.organization, limits=self.limits)

    def _listing_cache(self, scope: Scope, url: str) -> ListingCache | None:
        """Return the cache for the first listing in this process; None for a server, whose changes no file shows."""
        path, home = sqlite_path(url), self.settings.home
        if not path or url in self._opened.databases or not home.is_dir():
            return None
        folder = home / "cache" / "databases"
        return ListingCache(folder, path=path, scope=scope, organization=self.organization)

    def _database(self, url: str) -> DeferredDatabase:
        from prowess.storage.database import DeferredDatabase

        with self._opened.lock:
            databases = self._opened.databases
            if url not in databases:
                databases[url] = DeferredDatabase(url, self.seals, ours_only=self.must_be_ours(url))
            return databases[url]

    @property
    def seals(self) -> Seals:
        """The seals of this installation, whose key is kept in the home folder."""
        from prowess.storage.seals import Seals

        return Seals.of_home(self.settings.home)

    def must_be_ours(self, url: str) -> bool:
        """Return True for the database of the workspace: a workspace may come from anyone, and so may a database in it."""
        return url == self.settings.workspace_database and url != self._account_url

    def adopt_workspace_database(self) -> str:
        """Use the database of the workspace from now on, although another installation made it. Return its location.

        Its tables are checked as always, and its skills still have to be accepted. Raise `NotFound` if there is none.
        """
        from prowess.storage.database import adopt_database

        url = self.settings.workspace_database
        if not database_exists(url) or self.places.leads_elsewhere("workspace"):
            raise NotFound("This workspace has no database.", hint="Pass another workspace with `--workspace DIR`.")
        adopt_database(url, self.seals)
        return display_url(url)

    def _folder(self, place: Place) -> DirectoryStore:
        with self._opened.lock:
            key = (place.scope, place.address)
            folders = self._opened.folders
            if key not in folders:
                folders[key] = self._open_folder(place.scope, Path(place.address))
            return folders[key]

    def _open_folder(self, scope: Scope, root: Path) -> DirectoryStore:
        if scope == "system":
            return DirectoryStore(
                root,
                scope=scope,
                versions=MemoryVersions(),
                limits=replace(self.limits, hard_links=True),
                place=root.name,
                frozen=True,
                cache=self._cache,
            )
        name = self._name(scope, root)
        # Versions of a workspace's skills stay with the workspace; all others belong to the account.
        url = self.places.database_urls["workspace" if scope == "workspace" else "account"]
        versions = LazyVersions(
            find=lambda: self._versions(scope, name, url) if self._is_usable(scope, url) else None,
            make=lambda: self._versions(scope, name, url),
        )
        return DirectoryStore(root, scope=scope, versions=versions, limits=self.limits, place=name, cache=self._cache)

    def _is_usable(self, scope: Scope, url: str) -> bool:
        """Return True if there is a database, and it is one that may be used."""
        return database_exists(url) and not (scope == "workspace" and self._database(url).refusal() is not None)

    @property
    def _cache(self) -> Path | None:
        """The folder in which listings of skill folders are cached; None before Prowess has a home, so that reading leaves no files."""
        home = self.settings.home
        return home / "cache" / "folders" if home.is_dir() else None

    def scan_folder(self) -> Path | None:
        """Return the folder in which findings are remembered; None before Prowess has a home."""
        home = self.settings.home
        return home / "cache" / "scans" if home.is_dir() else None

    def _name(self, scope: Scope, root: Path) -> str:
        """Return the name of a skill folder: relative to its workspace, so that it survives a move of the workspace."""
        if scope == "workspace":
            return Path(os.path.relpath(root, self.settings.workspace)).as_posix()
        return str(root.resolve())

    def _versions(self, scope: Scope, name: str, url: str) -> DatabaseVersions:
        """Return where the versions of a skill folder are kept: the workspace's database, or the account's."""
        from prowess.catalog.database_versions import DatabaseVersions

        return DatabaseVersions(self._database(url), scope=scope, place=name)


def make_limits(settings: Settings) -> Limits:
    """Return the limits of these settings, with defaults."""
    default = DEFAULT_LIMITS
    return Limits(
        archive_bytes=settings.max_archive_bytes or default.archive_bytes,
        skill_bytes=settings.max_skill_bytes or default.skill_bytes,
        file_bytes=settings.max_file_bytes or default.file_bytes,
        files=settings.max_files or default.files,
        strict=settings.strict,
    )
