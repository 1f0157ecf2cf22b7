"""The prompts and rubrics that an organization keeps in the database."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prowess.storage.database import Connections
from prowess.storage.registry import RegistryRow, list_entries
from prowess.templates.registry_entry import read_entry
from prowess.templates.shelves import Entry, EntryKind

ORIGIN = "database"


class DatabaseShelf:
    """What was added to an organization's registry. Where there is no database yet, there is nothing, and none is made."""

    def __init__(self, records: Callable[[], Connections], present: Callable[[], bool]) -> None:
        self._records = records
        self._present = present

    def entries(self, kind: EntryKind, organization: str, id: str | None = None) -> Sequence[Entry]:
        """What the organization has added; nobody else's."""
        if not self._present():
            return []
        records = self._records()
        with records.read() as connection:
            rows = list_entries(connection, organization, kind, id)
        return [entry_of(kind, row, records.location) for row in rows]


def entry_of(kind: EntryKind, row: RegistryRow, location: str) -> Entry:
    """A row as an entry."""
    name = f"{row.entry_id}@{row.version}.json"
    return read_entry(kind, name, row.content.encode(errors="replace"), origin=ORIGIN, location=location)
