"""The stores of all places. Database code is imported only when there is a database."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from prowess.catalog.deferred_store import ListingCache, deferred_store
from prowess.catalog.directory_store import DirectoryStore
from prowess.catalog.memory_store import ForeignFolder, MemoryStore, UnusedStore
from prowess.catalog.store import Store
from prowess.catalog.version_log import LazyVersions, MemoryVersions
from prowess.engine.places import Place, Places
from prowess.errors import Invalid, NotFound, Refused
from prowess.lazy_dataclass import dataclass
from prowess.paths import real_path
from prowess.plugins import working_plugins
from prowess.settings import FOLDER, Settings
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.model import Scope
from prowess.storage.database_url import database_exists, display_url, sqlite_path

if TYPE_CHECKING:
    from prowess.catalog.database_versions import DatabaseVersions
    from prowess.storage.database import Connections
    from prowess.storage.deferred_database import DeferredDatabase
    from prowess.storage.seals import Seals


@dataclass(slots=True, kw_only=True)
class _Opened:
    """The resources that the stores of all organizations and users share."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    databases: dict[str, DeferredDatabase] = field(default_factory=dict[str, "DeferredDatabase"])
    folders: dict[tuple[Scope, str], DirectoryStore] = field(default_factory=dict[tuple[Scope, str], DirectoryStore])
    sessions: WeakValueDictionary[tuple[str, str | None], MemoryStore] = field(
        default_factory=WeakValueDictionary[tuple[str, "str | None"], MemoryStore]
    )
    """The skills of this process alone, by organization and user, as long as anyone uses them."""


class Stores:
    """The stores of one user of an organization, each opened on first use. Without a user (None), those that all users share.

    They are looked up at every call, so that a skill folder or a database that appears later is seen. Folders belong to
    the machine and serve every organization; a database holds the skills of each organization and of each user apart.
    """

    def __init__(
        self, settings: Settings, organization: str = "", user: str | None = "", opened: _Opened | None = None
    ) -> None:
        self.settings = settings
        self.organization = organization
        self.user = user
        self.places = Places(settings)
        self.limits = make_limits(settings)
        self._opened = opened or _Opened()
        self._has_records = False
        self._account_url = settings.account_database  # composed from paths; asked for several times in every call
        with self._opened.lock:
            self._session = self._opened.sessions.setdefault((organization, user), MemoryStore(scope="session"))
        self._in_account: dict[Scope, Store] = {}

    def of(self, organization: str, user: str | None) -> Stores:
        """Return new stores of a user, or of an organization, which use the databases and folders that are open here."""
        return Stores(self.settings, organization, user, self._opened)

    def present(self) -> list[Store]:
        """Return every store that exists, those of one scope in the order of `Places.present`."""
        return [*self.matched(), *(self._store(place) for place in self.places.shipped())]

    def matched(self) -> list[Store]:
        """Return the stores whose skills are matched with messages: all but those that come with Prowess."""
        brought = [store for plugin in working_plugins() for store in plugin.stores]
        places, foreign = self.places.find()
        unread = [
            ForeignFolder(place.address, scope=place.scope, owner=owner)
            for place, owner in foreign
            if self._is_ours(place)
        ]
        own = [place for place in places if self._is_ours(place)]
        return [self._session, *map(self._store, own), *brought, *unread]

    def emptied(self) -> list[Store]:
        """Return the stores of `Places.emptied`, which may have versions of skills that were deleted."""
        return [self._store(place) for place in self.places.emptied()]

    def _is_ours(self, place: Place) -> bool:
        """Return False for skills of users without a user, and for the folders of the operator's home in an organization."""
        if place.scope != "user":
            return True
        return not self.organization if place.kind == "folder" else self.user is not None

    def has_session_skills(self) -> bool:
        """Return True if the user has skills that only this process knows."""
        return bool(self._session.list_skills())

    def in_account_only(self) -> bool:
        """Return True if only skills in the account's database can change: no folder, workspace or plugin has others."""
        brought = any(plugin.stores for plugin in working_plugins())
        return not (self.settings.skill_folders or brought or self.has_session_skills())

    def record(self) -> bytes:
        """Return `Places.record`, or b'' if the session has skills of its own, which no other process can see."""
        return b"" if self.has_session_skills() else self.places.record()

    def holds(self, record: bytes) -> bool:
        """Return `Places.holds`, or False if the session has skills of its own."""
        return not self.has_session_skills() and self.places.holds(record)

    def shared(self) -> bool:
        """Return True if no skill belongs to the session alone."""
        return not self.has_session_skills()

    def writable(self, scope: Scope) -> Store:
        """Return the store that keeps new skills of a scope. Its database is created when something is written."""
        # The workspace of a server is a folder of its operator, in which its organizations write nothing.
        scopes = [name for name in self.places.database_urls if not (self.organization and name == "workspace")]
        if scope not in scopes or (scope == "user" and self.user is None):
            raise Invalid(
                f"Skills cannot be imported into the {scope} scope.",
                hint=f"Use one of these scopes: {', '.join(scopes)}.",
            )
        if scope == "workspace" and self.settings.new_skills == "folder":
            return self._new_skills_folder()
        return self._in_database(scope)

    def _in_database(self, scope: Scope) -> Store:
        """Return the store of a scope's database."""
        url = self.places.database_urls[scope]
        # A workspace may come from anyone: a link in it could make us write into a database elsewhere.
        if self.places.leads_elsewhere(scope):
            raise Refused(
                f"{str(self.settings.workspace / FOLDER)!r} or its database is a link, which could lead outside the workspace.",
                hint="Remove the link, or import with `--scope account`.",
            )
        # The account's database is always usable. Keeping its stores spares the catalog from asking them twice.
        known = self._in_account.get(scope)
        if known is not None:
            return known
        store = deferred_store(
            lambda: self._database_store(scope, url),
            scope=scope,
            location=display_url(url),
            cache=lambda: self._listing_cache(scope, url),
        )
        return store if scope == "workspace" else self._in_account.setdefault(scope, store)

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

    def unopened_records(self) -> str:
        """Return the path of that database if it is a SQLite file that is not open yet; '' otherwise.

        A few reads of such a file take less time without SQLAlchemy. Once it is open, its connections take the least.
        """
        database = self._opened.databases.get(self._account_url)
        return "" if database is not None and database.is_open else sqlite_path(self._account_url)

    def snapshot(self) -> AbstractContextManager[None]:
        """Let the reads that this thread makes inside the block share one transaction for each database."""
        # Databases that are not open yet stay as they are: opening one may create it, and none may be read at all.
        opened = [database for database in tuple(self._opened.databases.values()) if database.is_open]
        return opened[0].snapshot() if len(opened) == 1 else _share_snapshots(opened)

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
        return self._folder(place) if place.kind == "folder" else self._in_database(place.scope)

    def _database_store(self, scope: Scope, url: str) -> Store:
        # Imported when a database is used, because it imports SQLAlchemy.
        from prowess.catalog.database_store import DatabaseStore

        database = self._database(url)
        refusal = database.refusal() if scope == "workspace" else None
        if refusal is not None:
            return UnusedStore(scope, database.location, refusal)
        return DatabaseStore(
            database,
            scope=scope,
            organization_id=self.organization,
            user_id=self.user or "" if scope == "user" else "",
            limits=self.limits,
        )

    def _listing_cache(self, scope: Scope, url: str) -> ListingCache | None:
        """Return the cache for the first listing in this process; None for a server, whose changes no file shows."""
        path, home = sqlite_path(url), self.settings.home
        # Only short commands gain from it, and those work for the single user of this machine.
        if not path or self.organization or self.user or not home.is_dir():
            return None
        return ListingCache(
            home / "cache" / "databases",
            path=path,
            scope=scope,
            organization=self.organization,
            is_ours=url == self._account_url,
        )

    def _database(self, url: str) -> DeferredDatabase:
        from prowess.storage.deferred_database import DeferredDatabase

        with self._opened.lock:
            databases = self._opened.databases
            if url not in databases:
                databases[url] = DeferredDatabase(url, self.seals, ours_only=self.must_be_ours(url))
            return databases[url]

    @property
    def seals(self) -> Seals:
        """The seals of this installation, or of all servers that share a secret key."""
        from prowess.storage.seals import Seals

        return Seals.of_home(self.settings.home, self.settings.secret_key)

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
        url = self.settings.workspace_database if scope == "workspace" else self._account_url
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
        return str(real_path(root))

    def _versions(self, scope: Scope, name: str, url: str) -> DatabaseVersions:
        """Return where the versions of a skill folder are kept: the workspace's database, or the account's."""
        from prowess.catalog.database_versions import DatabaseVersions

        return DatabaseVersions(self._database(url), scope=scope, place=name)


@contextmanager
def _share_snapshots(databases: Sequence[DeferredDatabase]) -> Generator[None]:
    with ExitStack() as stack:
        for database in databases:
            stack.enter_context(database.snapshot())
        yield


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
