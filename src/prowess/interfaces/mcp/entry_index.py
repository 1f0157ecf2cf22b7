"""The served skills as MCP entries, by page and by address, cached until the catalog changes."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import threading
import time
from bisect import bisect_right
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from prowess.catalog.catalog import Catalog, CatalogChanges
from prowess.catalog.store import FileReader, Store
from prowess.engine.engine import Engine
from prowess.errors import ProwessError
from prowess.interfaces.mcp.skill_entry import (
    SkillEntry,
    candidate_slugs,
    enclosing_slugs,
    entry_path,
    make_entry,
)
from prowess.skill.filenames import SKILL_MD
from prowess.skill.kinds import kind_info
from prowess.skill.model import SkillCard
from prowess.skill.outline import SkillOutline
from prowess.skill.package import FileEntry
from prowess.storage.files.cache_file import write_cache
from prowess.threads import offload

SkillsBySlug = Mapping[str, tuple[Store, SkillCard]]
"""The skills that are served, by slug: the store that keeps each, and its card."""

MAX_CACHED_ENTRIES = 10_000

PAGING_SECONDS = 2.0
"""For how long the pages after the first are taken from one look at the catalog.

A look costs two system calls a skill: with 4,000 skills on 80 pages, looking before every page took most of the time of
a listing. The first page always looks, and subscribers are notified of changes in any case.
"""


class ServedSkills:
    """The served skills and their entries, cached until the catalog changes.

    `moves` counts the changes of the catalog that were noticed. `cost` is the CPU time, in seconds, of the last check
    that found no change; the notifier polls less often if a check is expensive.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._lock = asyncio.Lock()
        self._positions: Mapping[str, str] = {}
        self._served: SkillsBySlug = {}
        self._entries: dict[str, SkillEntry] = {}
        self._is_listed = False
        self._looked_at = -math.inf
        self.moves = 0
        self.cost = 0.0

    @property
    def remembered(self) -> SkillsBySlug:
        """The skills as of the last listing."""
        return self._served

    @property
    def entries(self) -> dict[str, SkillEntry]:
        """The valid entries. A change replaces the dict, so that entries made from older files are dropped with the old one."""
        return self._entries

    async def look(self) -> int:
        """Check the catalog for changes and return `moves`."""
        async with self._lock:
            await self._look()
            return self.moves

    async def served(self, *, max_age: float = 0.0) -> SkillsBySlug:
        """Return the skills that are served now, or were when the catalog was checked in the last `max_age` seconds."""
        async with self._lock:
            if time.monotonic() - self._looked_at >= max_age:
                await self._look()
            if not self._is_listed:
                self._served = await offload(_list_served, self._catalog)
                self._is_listed = True
            return self._served

    def remember(self, entries: dict[str, SkillEntry], made: Mapping[str, SkillEntry]) -> None:
        """Cache new entries in the dict that was current when making them started."""
        if len(entries) + len(made) <= MAX_CACHED_ENTRIES:
            entries.update(made)

    async def _look(self) -> None:
        found, cost = await offload(self._measured, self._positions)
        if found.positions != self._positions:
            self.moves += 1
        else:
            self.cost = cost
        if found.positions != self._positions or "" in found.positions.values():
            # A store that does not answer has no position, and may hold anything when it answers again.
            self._is_listed = False
            self._entries = _drop_changed(self._entries, found.slugs)
        self._positions = found.positions
        self._looked_at = time.monotonic()

    def _measured(self, since: Mapping[str, str]) -> tuple[CatalogChanges, float]:
        began = time.thread_time()
        return self._catalog.changes(since), time.thread_time() - began


def _list_served(catalog: Catalog) -> SkillsBySlug:
    """Return what the catalog serves: for each slug, the skill of the first store that has it. Blocking."""
    found: dict[str, tuple[Store, SkillCard]] = {}
    for store in catalog.stores():
        try:
            cards = store.list_skills()
        except (ProwessError, OSError):
            continue
        for card in cards:
            found.setdefault(card.slug, (store, card))
    return dict(sorted(found.items()))


def _drop_changed(entries: dict[str, SkillEntry], changed: frozenset[str] | None) -> dict[str, SkillEntry]:
    """Return the entries that still hold. The address of a skill also depends on the skills whose slugs enclose its own."""
    if changed is None:
        return {}
    return {
        slug: entry
        for slug, entry in entries.items()
        if slug not in changed and changed.isdisjoint(enclosing_slugs(slug))
    }


_CACHE_FORMAT = 1

_Parts = tuple[tuple[FileEntry, ...], "dict[str, Any] | None"]
"""What an entry is made of besides the card: the manifest of the skill, and its frontmatter as JSON."""


class EntryCache:
    """Remembers between two processes what entries are made of, by the digest of the skill.

    Without it, the first listing after every start reads and parses every skill, which takes a second for 4,000. A digest
    covers all files, so an entry never has to be checked against the disk. A cache that is missing, damaged or written by
    another version is ignored. It belongs into the home folder: who can write to it decides what is listed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        # The parser decides what the frontmatter is, as much as our own code does.
        self._key = [_CACHE_FORMAT, version("prowess"), version("pyyaml")]
        self._lock = threading.Lock()
        self._parts: dict[str, _Parts] | None = None
        self._used: set[str] = set()
        self._is_saved = True

    def get(self, digest: str) -> _Parts | None:
        """Return what is remembered of a skill, or None. Blocking at the first call."""
        with self._lock:
            if self._parts is None:
                self._parts = self._load()
            self._used.add(digest)
            return self._parts.get(digest)

    def put(self, entry: SkillEntry) -> None:
        """Remember an entry that was asked for."""
        with self._lock:
            if self._parts is not None:
                self._parts[entry.digest] = (entry.files, entry.frontmatter)
                self._is_saved = False

    def save(self) -> None:
        """Write what this process asked for, if any of it is new. A disk that is full or read-only is not an error."""
        with self._lock:
            if self._is_saved or self._parts is None:
                return
            used = {digest: parts for digest, parts in self._parts.items() if digest in self._used}
            self._is_saved = True
        if len(used) > MAX_CACHED_ENTRIES:
            return
        rows = {
            digest: [[(file.path, file.mode, file.size, file.sha256) for file in files], frontmatter]
            for digest, (files, frontmatter) in used.items()
        }
        write_cache(self._path, json.dumps([self._key, rows]))

    def _load(self) -> dict[str, _Parts]:
        try:
            key, rows = json.loads(self._path.read_bytes())
            return {digest: _read_row(*row) for digest, row in rows.items()} if key == self._key else {}
        except (OSError, ValueError, TypeError, AttributeError, RecursionError):
            return {}


def _read_row(files: list[Any], frontmatter: dict[str, Any] | None) -> _Parts:
    if frontmatter is not None and not isinstance(frontmatter, dict):  # pyright: ignore[reportUnnecessaryIsInstance]  read from a file
        raise TypeError("frontmatter")
    return tuple(FileEntry(path=path, mode=mode, size=size, sha256=sha) for path, mode, size, sha in files), frontmatter


_BATCH_SIZE = 64


class EntryIndex:
    """The entries of all served skills, by page and by address. An entry is made again only after its skill changed."""

    def __init__(self, engine: Engine, cache: EntryCache | None = None) -> None:
        self._engine = engine
        self._cache = cache
        self.listing = ServedSkills(engine.catalog)

    async def entries(self, after: str = "") -> AsyncIterator[SkillEntry]:
        """Yield the entries after a slug, by slug. A skill that disappears in the meantime is skipped."""
        served = await self.listing.served(max_age=PAGING_SECONDS if after else 0.0)
        slugs = list(served)
        for start in range(bisect_right(slugs, after), len(slugs), _BATCH_SIZE):
            portion = slugs[start : start + _BATCH_SIZE]
            known = self.listing.entries
            missing = [served[slug] for slug in portion if slug not in known]
            made = await offload(_make_entries, missing, served.keys(), self._cache) if missing else {}
            self.listing.remember(known, made)
            for slug in portion:
                entry = made.get(slug) or known.get(slug)
                if entry is not None:
                    yield entry
        if self._cache is not None:
            await offload(self._cache.save)

    async def find(self, uri: str) -> tuple[SkillEntry, str] | None:
        """Return the entry of an address and the path inside it, or None if nothing is served there.

        The catalog is checked at most once: for an unknown slug, or for one that another slug could enclose.
        """
        served, is_fresh = self.listing.remembered, False
        for slug in candidate_slugs(uri):
            if not is_fresh and (slug not in served or "." in slug):
                served, is_fresh = await self.listing.served(), True
            entry = await self._entry(slug, served.keys()) if slug in served else None
            path = entry_path(entry, uri) if entry is not None else None
            if entry is not None and path is not None:
                return entry, path
        return None

    async def digest_at(self, uri: str) -> str | None:
        """Return the digest of the file at an address, or None."""
        found = await self.find(uri)
        file = found[0].file(found[1]) if found else None
        return file.sha256 if file else None

    async def _entry(self, slug: str, slugs: Collection[str]) -> SkillEntry | None:
        """Return the current entry of a skill, or None if it is gone or being changed."""
        known = self.listing.entries
        outline = await self._engine.skills.outline(slug)
        if outline is None or (slug in known and known[slug].digest == outline.digest):
            return known[slug] if outline else None
        try:
            content = await self._engine.skills.read_file(slug, SKILL_MD) if outline.file(SKILL_MD) else b""
        except ProwessError:
            return None
        entry = _entry_of_outline(outline, content, slugs)
        if entry is not None:
            self.listing.remember(known, {slug: entry})
        return entry


def _make_entries(
    skills: Sequence[tuple[Store, SkillCard]], slugs: Collection[str], cache: EntryCache | None
) -> dict[str, SkillEntry]:
    """Return the entries of these skills, without those that are gone. Blocking."""
    entries: dict[str, SkillEntry] = {}
    for store, card in skills:
        parts = cache.get(card.digest) if cache else None
        try:
            entry = make_entry(card, *parts, slugs) if parts else _entry_of_card(store, card, slugs)
        except (ProwessError, OSError):
            continue
        if entry is None:
            continue
        entries[card.slug] = entry
        # The skill may have changed since it was listed; then this is an entry of other files than those of the card.
        if cache and not parts and entry.digest == card.digest:
            cache.put(entry)
    return entries


def _entry_of_card(store: Store, card: SkillCard, slugs: Collection[str]) -> SkillEntry | None:
    """Return the entry of a skill. It is read in one go, which is cheaper, except for large files in a database."""
    if isinstance(store, FileReader) or not any(kind_info(kind).is_file for kind in card.kinds):
        package = store.get_package_by_name(card.slug)
        if package is not None and package.digest == card.digest:
            text = package.get(SKILL_MD)
            return make_entry(card, package.manifest, _read_frontmatter(text.content) if text else None, slugs)
    outline = store.get_outline(card.slug)
    if outline is None:
        return None
    content = store.read_file(outline.id, SKILL_MD) if outline.file(SKILL_MD) else b""
    return _entry_of_outline(outline, content, slugs)


def _entry_of_outline(outline: SkillOutline, content: bytes, slugs: Collection[str]) -> SkillEntry | None:
    """Return the entry for an outline and a SKILL.md, or None if the file is not the one of the outline."""
    file = outline.file(SKILL_MD)
    if file is None:
        return make_entry(outline, outline.manifest, None, slugs)
    if hashlib.sha256(content).hexdigest() != file.sha256:
        return None
    return make_entry(outline, outline.manifest, _read_frontmatter(content), slugs)


def _read_frontmatter(content: bytes) -> dict[str, Any] | None:
    # Imported here because it imports the YAML parser, which a filled cache does without.
    from prowess.skill.json_frontmatter import frontmatter_json

    return frontmatter_json(content)
