"""Opening a matcher. The catalog, whose import takes longer than a match, is opened only where something changed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from prowess.build.embedding import embedder_of
from prowess.build.places import Places
from prowess.match.matcher import Matcher
from prowess.match.snapshot import Snapshot
from prowess.settings import Settings, read_settings

if TYPE_CHECKING:
    from prowess.build.stores import Stores
    from prowess.match.matcher import Cards

CACHE = "cache"


def open_matcher(workspace: str | Path | None = None, *, settings: Settings | None = None) -> Matcher:
    """A matcher over the skills in reach, for one who needs nothing else; close it, or use `with`."""
    chosen = settings or read_settings(workspace=workspace)
    opened: list[tuple[Stores, Cards]] = []

    def catalog() -> Cards:
        if not opened:
            from prowess.build.stores import Stores
            from prowess.catalog.catalog import Catalog

            stores = Stores(chosen)
            opened.append((stores, Catalog(stores.matched)))
        return opened[0][1]

    def close() -> None:
        while opened:
            opened.pop()[0].close()

    return matcher_of(chosen, catalog, Places(chosen), close=close)


def matcher_of(
    settings: Settings,
    catalog: Callable[[], Cards],
    watch: Places | Stores,
    *,
    close: Callable[[], None] = lambda: None,
) -> Matcher:
    """A matcher over a catalog, with the snapshot that these settings have."""
    return Matcher(
        catalog,
        watch,
        snapshot=Snapshot(snapshot_folder(settings)),
        embedder=lambda: embedder_of(settings),
        close=close,
    )


def snapshot_folder(settings: Settings) -> Path:
    """Where the index is kept: below the home folder, never in a workspace, which may be somebody else's work."""
    parts = (settings.workspace, settings.user_home, settings.database_url, settings.embedder)
    name = hashlib.sha256("\0".join(map(str, parts)).encode(errors="surrogateescape")).hexdigest()[:20]
    return settings.home / CACHE / "match" / name
