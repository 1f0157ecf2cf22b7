"""Read the few skills that have changed in folders since the index was saved, without listing all the others.

This answers only if nothing else can be different: a skill that is served has other files and the same slug, a new folder
with a new slug has appeared next to the others, or a skill is gone that cannot have hidden another one of its name. In every
other case the catalog has to be asked.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from prowess.engine.places import Places
from prowess.match.lexicon import hash_words
from prowess.match.matcher import CatalogReader, FolderUpdate
from prowess.skill.filenames import SINGLE_FILE_SUFFIXES, is_marker

if TYPE_CHECKING:
    from prowess.catalog.store import SearchDocument
    from prowess.match.index import Index
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
        # A root changes when something is added to it, which is its own change.
        elif path or root not in keys:
            return None
    gone = {location for some in locations.values() for location in some if not os.path.lexists(location)}
    if gone and not _all_are_served(saved.index, places, changes):
        return None
    removed = {shown["slug"] for location in gone if (shown := saved.index.at(location)) is not None}
    documents: list[SearchDocument] = []
    for key, every in locations.items():
        some = every - gone
        read = catalog().documents_at(key, some) if some else []
        if len(read) != len(some):
            return None
        documents += read
    if len({document.slug for document in documents}) != len(documents):
        return None
    if not all(_keeps_its_place(saved.index, document, removed) for document in documents):
        return None
    return FolderUpdate(
        documents=[document for document in documents if _differs(saved.index, document)],
        removed=removed - {document.slug for document in documents},
        record=changes.fingerprint,
    )


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


def _all_are_served(index: Index, places: Places, changes: TreeChanges) -> bool:
    """Return True if every skill was in the index, so that none was hidden by another one of its name."""
    if any(place.kind == "database" for place in places.present()):
        return False
    # A skill has a file that marks its folder, or is a single file. Files deeper inside belong to the skill above them.
    inside: list[str] = []
    counts: list[int] = []
    for path in changes.before:
        name = path.rpartition("/")[2]
        if is_marker(name) or name.endswith(SINGLE_FILE_SUFFIXES):
            above = list(accumulate(path.split("/"), "{}/{}".format))
            inside += above
            counts.append(len(above))
    if not counts:
        return True
    known = np.concatenate([part.segment.locations[part.alive] for part in index.parts])
    is_known = np.isin(hash_words(inside), known)
    return bool(np.logical_or.reduceat(is_known, np.cumsum([0, *counts[:-1]])).all())


def _keeps_its_place(index: Index, document: SearchDocument, removed: Collection[str]) -> bool:
    """Return True if the skill is served under the slug that it had, or is new and so is its slug."""
    before = index.at(document.location)
    if before is None:
        return document.slug in removed or not index.has(document.slug)
    return (before["slug"], before["scope"]) == (document.slug, document.scope)


def _differs(index: Index, document: SearchDocument) -> bool:
    before = index.at(document.location)
    return before is None or before["digest"] != document.digest
