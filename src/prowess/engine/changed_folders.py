"""Read the few skills that have changed in folders since the index was saved, without listing all the others.

This answers only if nothing else can be different: a skill that is served has other files and the same slug, or a new folder
with a new slug has appeared beside the others. In every other case the catalog has to be asked: for instance, a skill that is
gone may uncover another one of its name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from prowess.engine.places import Places
from prowess.match.matcher import FolderUpdate
from prowess.skill.filenames import is_marker

if TYPE_CHECKING:
    from prowess.catalog.store import SearchDocument
    from prowess.match.index import Index
    from prowess.match.matcher import CatalogReader
    from prowess.match.snapshot import SavedIndex
    from prowess.storage.files.freshness import TreeChanges


def read_changed_folders(
    saved: SavedIndex, places: Places, catalog: Callable[[], CatalogReader]
) -> FolderUpdate | None:
    """Return the changed skills and the new record, or None if the catalog has to be asked."""
    found = places.changes(saved.record)
    if found is None:
        return None
    changes, keys = found
    locations: dict[str, set[str]] = {}
    for root, path in changes.changed | changes.added:
        location = _find_location(saved.index, changes, root, path) if path and root in keys else None
        if location is not None:
            locations.setdefault(keys[root], set()).add(location)
        # A root changes when something is added to it, which is a change of its own.
        elif path or root not in keys:
            return None
    documents: list[SearchDocument] = []
    for key, some in locations.items():
        read = catalog().documents_at(key, some)
        if len(read) != len(some):
            return None
        documents += read
    if len({document.slug for document in documents}) != len(documents):
        return None
    if not all(_keeps_its_place(saved.index, document) for document in documents):
        return None
    return FolderUpdate(documents=[one for one in documents if _differs(saved.index, one)], record=changes.fingerprint)


def _find_location(index: Index, changes: TreeChanges, root: str, path: str) -> str | None:
    """Return the location of the skill that a path belongs to, or None."""
    parts = path.split("/")
    for count in range(1, len(parts) + 1):
        location = "/".join([root, *parts[:count]])
        if index.at(location) is not None:
            return location
    if (root, parts[0]) not in changes.added:
        return None
    # A new folder right below the root is a skill if it has a SKILL.md. Anything else may be a category, or no skill.
    inside = [inner.split("/") for other, inner in changes.added if other == root]
    has_marker = any(len(inner) == 2 and inner[0] == parts[0] and is_marker(inner[1]) for inner in inside)
    return f"{root}/{parts[0]}" if has_marker else None


def _keeps_its_place(index: Index, document: SearchDocument) -> bool:
    """Return True if the skill is served under the slug that it had, or is new and so is its slug."""
    before = index.at(document.location)
    if before is None:
        return not index.has(document.slug)
    return (before["slug"], before["scope"]) == (document.slug, document.scope)


def _differs(index: Index, document: SearchDocument) -> bool:
    before = index.at(document.location)
    return before is None or before["digest"] != document.digest
