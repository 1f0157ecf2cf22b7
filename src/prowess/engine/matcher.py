"""Open the matcher and the embedder that the settings name.

The catalog is opened only if something changed, because importing it takes longer than a match.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from prowess.engine.places import Places
from prowess.errors import Invalid
from prowess.match.lexicon import static_embedder
from prowess.match.matcher import Matcher
from prowess.match.snapshot import Snapshot
from prowess.plugins import working_plugins
from prowess.settings import Settings, read_settings

if TYPE_CHECKING:
    from prowess.engine.stores import Stores
    from prowess.match.matcher import CatalogReader
    from prowess.match.vectors.embedder import Embedder


STATIC_EMBEDDER = "static"


def open_embedder(settings: Settings) -> Embedder:
    """Return the embedder of these settings, opened once."""
    return _open_embedder(settings.embedder, settings.embedder_url, settings.embedder_key, str(settings.home))


@lru_cache(maxsize=8)
def _open_embedder(named: str, url: str, key: str, home: str) -> Embedder:
    kind, _, which = named.partition(":")
    if named in ("", STATIC_EMBEDDER):
        return static_embedder()
    if kind == "onnx" and which:
        from prowess.match.vectors.onnx import OnnxEmbedder

        return OnnxEmbedder.at(Path(os.path.expanduser(which)))  # noqa: PTH111  (no such user is no error here)
    if kind == "fastembed" and which:
        from prowess.match.vectors.onnx import OnnxEmbedder

        return OnnxEmbedder.downloaded(which, cache=Path(home) / "cache" / "models")
    if kind == "endpoint" and which and url:
        from prowess.match.vectors.endpoint import EndpointEmbedder

        return EndpointEmbedder(url, which, api_key=key)
    for plugin in working_plugins():
        if named in plugin.embedders:
            return plugin.embedders[named]()
    raise Invalid(
        f"PROWESS_EMBEDDER is {named[:80]!r}.",
        hint="Give static, onnx:FOLDER, fastembed:NAME, or endpoint:MODEL with PROWESS_EMBEDDER_URL.",
    )


CACHE_FOLDER = "cache"


def open_matcher(workspace: str | Path | None = None, *, settings: Settings | None = None) -> Matcher:
    """Open a matcher over the skills in reach, for a command that needs nothing else. Close it, or use `with`."""
    chosen = settings or read_settings(workspace=workspace)
    opened: list[tuple[Stores, CatalogReader]] = []

    def catalog() -> CatalogReader:
        if not opened:
            from prowess.catalog.catalog import Catalog
            from prowess.engine.stores import Stores

            stores = Stores(chosen)
            opened.append((stores, Catalog(stores.matched)))
        return opened[0][1]

    def close() -> None:
        while opened:
            opened.pop()[0].close()

    return make_matcher(chosen, catalog, Places(chosen), close=close)


def make_matcher(
    settings: Settings,
    catalog: Callable[[], CatalogReader],
    watch: Places | Stores,
    *,
    organization: str = "",
    close: Callable[[], None] = lambda: None,
) -> Matcher:
    """Return a matcher over the catalog of an organization, with the snapshot that these settings have."""
    # Plugins add kinds and forms, which are part of the reader version that a snapshot is checked against.
    working_plugins()
    return Matcher(
        catalog,
        watch,
        snapshot=Snapshot(snapshot_folder(settings, organization)),
        embedder=lambda: open_embedder(settings),
        close=close,
    )


def snapshot_folder(settings: Settings, organization: str = "") -> Path:
    """Return where the index of an organization is kept.

    It is below the home folder, never in a workspace, which may be somebody else's work.
    """
    # Everything that decides which skills are indexed and how, so that other settings get an index of their own.
    parts = [settings.workspace, settings.user_home, settings.database_url, settings.embedder]
    parts += [organization] if organization else []
    name = hashlib.sha256("\0".join(map(str, parts)).encode(errors="surrogateescape")).hexdigest()[:20]
    return settings.home / CACHE_FOLDER / "match" / name
