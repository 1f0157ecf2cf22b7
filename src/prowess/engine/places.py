"""Which skill folders and databases exist, and whether anything in them may have changed.

Every start needs this, so it imports nothing slow: no skill model, no database.
"""

from __future__ import annotations

import os
from dataclasses import field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from prowess.catalog.discovery import FolderOwners, emptied_roots, user_roots, workspace_roots
from prowess.lazy_dataclass import dataclass
from prowess.plugins import working_plugins
from prowess.settings import DATABASE, FOLDER, Settings
from prowess.storage.accepted import read_skills_mark
from prowess.storage.database_url import SQLITE_PREFIX, database_exists, display_url, sqlite_path
from prowess.storage.files.freshness import (
    TreeChanges,
    fingerprint_changes,
    fingerprint_folders,
    fingerprint_sqlite,
    first_difference,
)

if TYPE_CHECKING:
    from prowess.skill.model import Scope


PACKS = Path(__file__).parents[1] / "packs"
"""The folder of skills that come with Prowess. They are chosen by role, never matched with messages."""


def is_role_pack(scope: str, slug: str) -> bool:
    """Return True for a role pack that comes with Prowess. Skills of plugins are in the system scope, too."""
    return scope == "system" and (PACKS / slug).is_dir()


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place for skills of one scope: a folder by its path, or a database by its URL."""

    scope: Scope
    kind: Literal["folder", "database"]
    address: str = field(repr=False)

    @property
    def location(self) -> str:
        """The address without the password that a URL may contain."""
        return self.address if self.kind == "folder" else display_url(self.address)

    @property
    def key(self) -> str:
        """The key of the place in `Catalog.changes`."""
        return f"{self.scope}:{self.location}"


def find_plugin(location: str) -> str:
    """Return the name of the plugin that brings a folder or store, by its location; '' if none does."""
    for plugin in working_plugins():
        if location in {*map(str, plugin.packs), *(store.location for store in plugin.stores)}:
            return plugin.name
    return ""


@lru_cache(maxsize=4)
def _find_packs(home: Path, key: str, _current: bytes) -> Path:
    """Return the folder of system skills. Everything in it is hashed and verified, so this is done once for each refresh."""
    from prowess.sources.system_skills import find_system_skills

    return find_system_skills(home, PACKS, key)


class Places:
    """The places of these settings. They are looked up again at every call.

    With `by_rows`, the account's database has changed only if a skill in it has. That is for short commands, which would import
    SQLAlchemy to find out. A process that has the database open is faster if it asks for the changes after each write.
    """

    def __init__(self, settings: Settings, *, by_rows: bool = False) -> None:
        self.settings = settings
        self._by_rows = by_rows
        self._checked: tuple[bytes, int, list[Place]] = (b"", 0, [])
        self._trace: tuple[list[str], bytes] = ([], b"")
        # Before any skill is read: plugins add kinds and forms to the tables that readers look into.
        working_plugins()

    @property
    def database_urls(self) -> dict[Scope, str]:
        """The database of each scope that has one, whether it exists yet or not.

        The account's database holds the skills of each user and of each organization too.
        """
        account = self.settings.account_database
        near: dict[Scope, str] = {"workspace": self.settings.workspace_database} if self.settings.skill_folders else {}
        return {**near, "user": account, "org": account, "account": account}

    @property
    def kept(self) -> list[Path]:
        """The places of Prowess' own data: the home folder, and the file of the account's database."""
        database = sqlite_path(self.settings.account_database)
        return [self.settings.home, *([Path(database)] if database and database != ":memory:" else [])]

    @property
    def kept_in_workspace(self) -> Path:
        """The folder of the database in the workspace."""
        return self.settings.workspace / FOLDER

    def present(self) -> list[Place]:
        """Return every place whose skills are matched; a scope's folders, which people edit, come before its database."""
        return self.find()[0]

    def find(self) -> tuple[list[Place], list[tuple[Place, int]]]:
        """Return `present`, and the skill folders that are not read because they belong to another user, with that user's id."""
        settings = self.settings
        found: list[Place] = []
        foreign: list[tuple[Place, int]] = []
        if settings.skill_folders:
            self._find_folders(found, foreign)
        exists: dict[str, bool] = {}
        for scope, url in self.database_urls.items():
            if url not in exists:
                exists[url] = database_exists(url)
            if exists[url] and not self.leads_elsewhere(scope):
                found.append(Place(scope=scope, kind="database", address=url))
        packs = [pack for plugin in working_plugins() for pack in plugin.packs]
        return [*found, *(Place(scope="system", kind="folder", address=str(pack)) for pack in packs)], foreign

    def emptied(self) -> list[Place]:
        """Return the folders of the workspace that `present` leaves out because they hold no skill, perhaps not any more."""
        settings = self.settings
        if not settings.skill_folders:
            return []
        owners = FolderOwners(settings.safe_folders, settings.environment)
        return [
            Place(scope="workspace", kind="folder", address=str(root))
            for root in emptied_roots(settings.workspace)
            if owners.foreign_owner(root, settings.workspace) is None
        ]

    def _find_folders(self, found: list[Place], foreign: list[tuple[Place, int]]) -> None:
        settings = self.settings
        owners = FolderOwners(settings.safe_folders, settings.environment)
        near = workspace_roots(settings.workspace)
        far = [root for root in user_roots(settings.user_home, settings.environment) if root not in near]
        scopes: list[tuple[Scope, Path, list[Path]]] = [
            ("workspace", settings.workspace, near),
            ("user", settings.user_home, far),
        ]
        for scope, start, roots in scopes:
            for root in roots:
                place = Place(scope=scope, kind="folder", address=str(root))
                owner = owners.foreign_owner(root, start)
                if owner is None:
                    found.append(place)
                else:
                    foreign.append((place, owner))

    @property
    def packs(self) -> Path:
        """The folder of skills that come with Prowess, or of newer versions from the registry of system skills."""
        settings = self.settings
        if not settings.system_registry_key:
            return PACKS
        from prowess.sources.system_skills import current_set

        return _find_packs(settings.home, settings.system_registry_key, current_set(settings.home))

    def shipped(self) -> list[Place]:
        """Return the folder of `packs`, unless it is switched off. Its skills are chosen by role, never matched."""
        return [Place(scope="system", kind="folder", address=str(self.packs))] if self.settings.system_skills else []

    def leads_elsewhere(self, scope: Scope) -> bool:
        """Return True if the scope's database is behind a link that came with the workspace. It is not used then."""
        folder = self.kept_in_workspace
        # `Path.is_symlink` would raise for a folder that another user keeps private.
        return scope == "workspace" and any(map(os.path.islink, (folder, folder / DATABASE)))

    def record(self) -> bytes:
        """Return a fingerprint of everything in all places, for `holds`; b'' if one cannot be read cheaply.

        Take it before the skills are read, so that a change in between is seen the next time.
        """
        places = self.present()
        head = self._head(places, by_rows=self._by_rows)
        trace = self._fingerprint([place.address for place in places if place.kind == "folder"]) if head else b""
        return head + trace if trace else b""

    def _fingerprint(self, folders: list[str]) -> bytes:
        """Return a fingerprint of these folders: the last one if nothing has changed since.

        While agents work, the head changes with every write to the database, and the folders do not. Checking a fingerprint
        takes less than half the time of a walk through all folders.
        """
        known, trace = self._trace
        if not trace or known != folders or first_difference(trace) is not None:
            trace = fingerprint_folders(folders)
            self._trace = (folders, trace)
        return trace

    def holds(self, record: bytes) -> bool:
        """Return True if the places are those of the record and nothing in them has changed.

        False may also mean that something irrelevant has changed.
        """
        places = self.present()
        head = self._head_of(record, places)
        if not head:
            return False
        different = first_difference(record[len(head) :])
        self._checked = (record, different or 0, places)
        return different is None

    def changes(self, record: bytes) -> tuple[TreeChanges, dict[str, str]] | None:
        """Return what has changed in folders since a record, and the record's keys of these folders by their paths.

        None if it is unknown, or if anything else has changed. The fingerprint in the result is a record, or b''.
        """
        # `holds` has just looked for the places, and found the beginning of this record unchanged.
        (checked, start, places), self._checked = self._checked, (b"", 0, [])
        if checked is not record:
            start, places = 0, self.present()
        head = self._head_of(record, places)
        found = fingerprint_changes(record[len(head) :], start) if head else None
        if found is None:
            return None
        now = head + found.fingerprint if found.fingerprint else b""
        return replace(found, fingerprint=now), {place.address: place.key for place in places if place.kind == "folder"}

    def shared(self) -> bool:
        """Return True: other processes can see all skills of folders and databases."""
        return True

    def _head_of(self, record: bytes, places: list[Place]) -> bytes:
        """Return the beginning of a record that was made with the limits, places and databases of now; b'' for any other."""
        # The fingerprints of files first: they take microseconds. A process that had the database open made its record so.
        for by_rows in (False, True) if self._by_rows else (False,):
            head = self._head(places, by_rows=by_rows)
            if head and record.startswith(head):
                return head
        return b""

    def _head(self, places: list[Place], *, by_rows: bool) -> bytes:
        """Return the limits, the places, and the state of the databases; b'' if that is unknown."""
        settings = self.settings
        # A plugin's store has no fingerprint, so it is unknown whether it has changed.
        if any(plugin.stores for plugin in working_plugins()):
            return b""
        parts = [f"{settings.max_skill_bytes} {settings.max_file_bytes} {settings.max_files} {settings.strict}"]
        marks: dict[str, str] = {}
        for place in places:
            if place.kind == "database" and place.address not in marks:
                marks[place.address] = self._database_mark(place.address, by_rows=by_rows)
            now = marks.get(place.address, "folder")
            if not now:
                return b""
            parts += [place.key, now]
        # Two NULs at the end: no head is the beginning of another one, as `holds` requires.
        return "\0".join([*parts, "", ""]).encode(errors="surrogateescape")

    def _database_mark(self, url: str, *, by_rows: bool) -> str:
        """Return a value that changes with the skills in a database; '' if there is none."""
        if not url.startswith(SQLITE_PREFIX):
            return ""
        path = sqlite_path(url)
        # One in a workspace may come from anyone, so nothing is read from it here.
        rows = read_skills_mark(path) if by_rows and url == self.settings.account_database else ""
        return rows or fingerprint_sqlite(path)
