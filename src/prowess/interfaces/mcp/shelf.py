"""The skills in reach as entries, page by page and by address."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Collection, Sequence

from prowess.catalog.store import Store
from prowess.engine.engine import Engine
from prowess.errors import ProwessError
from prowess.interfaces.mcp.entry import Entry, entry_of, path_in, slugs_in
from prowess.interfaces.mcp.frontmatter import frontmatter_json
from prowess.interfaces.mcp.listing import Listing
from prowess.skill.filenames import SKILL_MD
from prowess.skill.kinds import FILE_KINDS
from prowess.skill.model import SkillCard
from prowess.skill.outline import Outline

_AT_ONCE = 64


class Shelf:
    """Makes entries of what an engine serves. What was made once is made again only after it changed."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.listing = Listing(engine.catalog)

    async def entries(self, after: str = "") -> AsyncIterator[Entry]:
        """Every entry whose slug comes after one, by slug; a skill that goes away meanwhile is passed over."""
        served = await self.listing.served()
        following = [slug for slug in served if slug > after]
        for start in range(0, len(following), _AT_ONCE):
            portion = following[start : start + _AT_ONCE]
            known = self.listing.entries
            missing = [served[slug] for slug in portion if slug not in known]
            made = await asyncio.to_thread(_made, missing, served.keys()) if missing else {}
            self.listing.remember(known, made)
            for slug in portion:
                entry = made.get(slug) or known.get(slug)
                if entry is not None:
                    yield entry

    async def find(self, uri: str) -> tuple[Entry, str] | None:
        """The entry an address belongs to, and the path in it; None where nothing is served there.

        The catalog is looked at once at most: for a slug that is not known, and for one that another could enclose.
        """
        served, is_fresh = self.listing.remembered, False
        for slug in slugs_in(uri):
            if not is_fresh and (slug not in served or "." in slug):
                served, is_fresh = await self.listing.served(), True
            entry = await self._entry(slug, served.keys()) if slug in served else None
            path = path_in(entry, uri) if entry is not None else None
            if entry is not None and path is not None:
                return entry, path
        return None

    async def digest_at(self, uri: str) -> str | None:
        """The digest of the file at an address; None where there is none."""
        found = await self.find(uri)
        file = found[0].file(found[1]) if found else None
        return file.sha256 if file else None

    async def _entry(self, slug: str, slugs: Collection[str]) -> Entry | None:
        """The entry of a skill as it is now; None where it went away, or changes right now."""
        known = self.listing.entries
        outline = await self._engine.outline(slug)
        if outline is None or (slug in known and known[slug].digest == outline.digest):
            return known[slug] if outline else None
        try:
            content = await self._engine.read_file(slug, SKILL_MD) if outline.file(SKILL_MD) else b""
        except ProwessError:
            return None
        entry = _by_outline(outline, content, slugs)
        if entry is not None:
            self.listing.remember(known, {slug: entry})
        return entry


def _made(skills: Sequence[tuple[Store, SkillCard]], slugs: Collection[str]) -> dict[str, Entry]:
    """The entries of some of the skills that are served, without those that went away. Blocking."""
    made: dict[str, Entry] = {}
    for store, card in skills:
        try:
            entry = _by_card(store, card, slugs)
        except (ProwessError, OSError):
            continue
        if entry is not None:
            made[card.slug] = entry
    return made


def _by_card(store: Store, card: SkillCard, slugs: Collection[str]) -> Entry | None:
    """The entry of a skill by its card; where it has little more than its text, all its files are read at once."""
    if FILE_KINDS.isdisjoint(card.kinds):
        package = store.get_package_by_name(card.slug)
        if package is not None and package.digest == card.digest:
            text = package.get(SKILL_MD)
            return entry_of(card, package.manifest, frontmatter_json(text.content) if text else None, slugs)
    outline = store.get_outline(card.slug)
    if outline is None:
        return None
    content = store.read_file(outline.id, SKILL_MD) if outline.file(SKILL_MD) else b""
    return _by_outline(outline, content, slugs)


def _by_outline(outline: Outline, content: bytes, slugs: Collection[str]) -> Entry | None:
    """The entry of a skill by its outline and its SKILL.md, if it has one; None where the two do not belong together."""
    file = outline.file(SKILL_MD)
    if file is None:
        return entry_of(outline, outline.manifest, None, slugs)
    if hashlib.sha256(content).hexdigest() != file.sha256:
        return None
    return entry_of(outline, outline.manifest, frontmatter_json(content), slugs)
