"""Open the matcher and the embedder that the settings name.

The catalog is opened only if something changed, because importing it takes longer than a match.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from prowess.engine.changed_folders import read_changed_folders
from prowess.engine.places import Places
from prowess.engine.vector_worker import start_worker, vectors_folder
from prowess.errors import Invalid
from prowess.match import vectors
from prowess.match.matcher import CatalogReader, Matcher
from prowess.match.snapshot import Snapshot
from prowess.match.vectors.card_vectors import CardVectors
from prowess.match.vectors.embedder import Embedder, WordsOnly
from prowess.match.vectors.encoder import default_encoder
from prowess.paths import expand_user
from prowess.plugins import working_plugins
from prowess.settings import Settings, read_settings
from prowess.storage.accepted import Accepted, read_disabled, read_sqlite_file, read_stored
from prowess.storage.database_url import database_exists, sqlite_path
from prowess.storage.owner import Owner

if TYPE_CHECKING:
    from prowess.engine.stores import Stores
    from prowess.match.recommendation import Recommendation


DEFAULT_EMBEDDER, NO_EMBEDDER = "default", "none"


def open_embedder(settings: Settings) -> Embedder:
    """Return the embedder of these settings, opened once."""
    return _open_embedder(settings.embedder, settings.embedder_url, settings.embedder_key, str(settings.home))


@lru_cache(maxsize=8)
def _open_embedder(named: str, url: str, key: str, home: str) -> Embedder:
    kind, _, which = named.partition(":")
    if named in ("", DEFAULT_EMBEDDER):
        return default_encoder()
    if named == NO_EMBEDDER:
        return WordsOnly()
    if kind == "onnx" and which:
        from prowess.match.vectors.onnx import OnnxEmbedder

        return OnnxEmbedder.at(expand_user(which))
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
        f"Invalid value {named[:80]!r} for PROWESS_EMBEDDER.",
        hint="Use default, none, onnx:FOLDER, fastembed:NAME, or endpoint:MODEL with PROWESS_EMBEDDER_URL.",
    )


CACHE_FOLDER = "cache"
_VECTOR_FILE_SECONDS = 2.0
"""How often a matcher writes single vectors. A server gets one with every skill that is written."""
PACK_VECTORS = Path(vectors.__file__).with_name("packs.vectors")
"""The vectors of the skills that come with Prowess, made by `scripts/pack_vectors.py`."""


def open_card_vectors(settings: Settings, *, pause: float = 0.0) -> CardVectors:
    """Return the card vectors of the embedder that these settings name, opened once; raise `Unavailable` without it."""
    return _open_card_vectors(settings.embedder, settings.embedder_url, settings.embedder_key, settings.home, pause)


@lru_cache(maxsize=8)
def _open_card_vectors(named: str, url: str, key: str, home: Path, pause: float) -> CardVectors:
    embedder = _open_embedder(named, url, key, str(home))
    return CardVectors(vectors_folder(home), embedder, shipped=[PACK_VECTORS], pause=pause)


def open_matcher(
    workspace: str | Path | None = None, *, settings: Settings | None = None, patient: bool = False
) -> Matcher:
    """Open a matcher over the skills in reach, for a command that needs nothing else. Close it, or use `with`.

    A patient one computes the missing vectors of some hundred skills before its first answer.
    """
    chosen = settings or read_settings(workspace=workspace)
    opened: list[tuple[Stores, CatalogReader]] = []

    def catalog() -> CatalogReader:
        if not opened:
            from prowess.catalog.catalog import Catalog
            from prowess.engine.stores import Stores

            stores = Stores(chosen)
            opened.append((stores, Catalog(stores.matched, strict=chosen.strict)))
        return opened[0][1]

    def close() -> None:
        while opened:
            opened.pop()[0].close()

    return make_matcher(chosen, catalog, Places(chosen, by_rows=True), patient=patient, close=close)


def make_matcher(
    settings: Settings,
    catalog: Callable[[], CatalogReader],
    watch: Places | Stores,
    *,
    patient: bool = False,
    close: Callable[[], None] = lambda: None,
) -> Matcher:
    """Return a matcher over a catalog, with the snapshot of these settings and of the owner of the stores."""
    # Plugins add kinds and forms, which are part of the reader version that a snapshot is checked against.
    working_plugins()
    places, owner = (watch, ("", "")) if isinstance(watch, Places) else (watch.places, (watch.organization, watch.user))
    return Matcher(
        catalog,
        watch,
        snapshot=Snapshot(snapshot_folder(settings, *owner)),
        embedder=lambda: open_embedder(settings),
        cards=lambda: open_card_vectors(settings, pause=_VECTOR_FILE_SECONDS),
        changed_folders=lambda saved: read_changed_folders(saved, places, catalog),
        background=(lambda: start_worker(settings)) if settings.background else None,
        one_transaction=nullcontext if isinstance(watch, Places) else watch.snapshot,
        patient=patient,
        close=close,
    )


def mark_trust(found: Sequence[Recommendation], settings: Settings) -> list[Recommendation]:
    """Return results with how far each skill is trusted, by the records' file alone; '' where that takes the catalog.

    Skills that are switched off are left out.

    It is enough for skills that were accepted, and for those in a scope without a database whose folders are all trusted
    or all not.
    """
    url, owner, slugs = settings.account_database, Owner(), [item.slug for item in found]
    if not database_exists(url):
        read: tuple[Accepted, list[str]] | None = ({}, [])
    else:
        read = read_sqlite_file(sqlite_path(url), owner, slugs) if sqlite_path(url) else None
    if read is None or not found:
        return list(found)
    off = read_disabled(sqlite_path(url), owner.organization_id) if database_exists(url) else []
    if off is None:
        return list(found)
    found = [item for item in found if item.slug not in off]
    accepted, folders = read
    scopes = _regard_scopes(Places(settings), (*settings.trusted_folders, *folders))
    regarded = {item.slug: scopes.get(item.scope, "") for item in found if (item.slug, item.digest) not in accepted}
    # The user's skills are in folders and in the account's database, where nothing is under a rule for folders.
    doubtful = [item.slug for item in found if item.scope == "user" and regarded.get(item.slug)]
    if doubtful and database_exists(url):
        stored = read_stored(sqlite_path(url), owner, doubtful)
        regarded |= dict.fromkeys((slug for slug in doubtful if stored is None or ("user", slug) in stored), "")
    return [replace(item, trust=regarded.get(item.slug, "local")) for item in found]


def _regard_scopes(places: Places, trusted: Sequence[str]) -> dict[str, str]:
    """Return how far everything in folders is trusted that nobody accepted, for the scopes in which that is the same for all."""
    by_scope: dict[str, set[str]] = {"system": {"local"}}
    for place in places.present():
        if place.kind != "folder" and place.scope == "user":
            continue
        regarded = by_scope.setdefault(place.scope, set())
        if place.kind != "folder":
            regarded.add("")
        elif place.scope != "system":
            real = os.path.realpath(place.address).rstrip("/") + "/"
            rules = [f"{rule.rstrip('/')}/" for rule in trusted]
            is_trusted = any(real.startswith(rule) for rule in rules)
            # A rule for a part of the folder leaves open which skills it covers.
            is_partly = not is_trusted and any(rule.startswith(real) for rule in rules)
            regarded.add("local" if is_trusted else "" if is_partly else "found")
    return {scope: next(iter(regarded)) for scope, regarded in by_scope.items() if len(regarded) == 1}


def snapshot_folder(settings: Settings, organization: str = "", user: str | None = "") -> Path:
    """Return where the index of a user is kept, or without a user (None) the one that an organization shares.

    It is below the home folder, never in a workspace, which may be someone else's work.
    """
    # Everything that decides which skills are indexed and how, so that other settings get an index of their own.
    parts = [settings.workspace, settings.user_home, settings.database_url, settings.embedder]
    parts += [] if settings.skill_folders else ["no folders"]
    # As JSON, so that no organization and user together look like another pair.
    parts += [json.dumps([organization, user])] if organization or user != "" else []
    name = hashlib.sha256("\0".join(map(str, parts)).encode(errors="surrogateescape")).hexdigest()[:20]
    return snapshots_folder(settings) / name


def snapshots_folder(settings: Settings) -> Path:
    """Return the folder with all saved indexes."""
    return settings.home / CACHE_FOLDER / "match"
