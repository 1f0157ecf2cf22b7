"""The skills in reach as entries, page by page and by address."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import AsyncIterator
from typing import Any

from prowess.engine.engine import Engine
from prowess.errors import Invalid, NotFound, ProwessError
from prowess.interfaces.mcp.entry import Entry, entry_of, namespaces, path_in, slugs_in
from prowess.interfaces.mcp.frontmatter import frontmatter_json
from prowess.skill.filenames import SKILL_MD
from prowess.skill.model import Skill

_REMEMBERED = 4096


class Shelf:
    """Makes entries of what an engine serves. The frontmatter of a digest is read once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._frontmatters: OrderedDict[str, dict[str, Any] | None] = OrderedDict()

    async def entries(self, after: str = "") -> AsyncIterator[Entry]:
        """Every entry whose slug comes after one, by slug; a skill that goes away meanwhile is passed over."""
        slugs = [card.slug for card in await self._engine.cards()]
        known = frozenset(slugs)
        for slug in slugs:
            if slug <= after:
                continue
            try:
                skill = await self._engine.skill(slug)
                yield entry_of(skill, await self._frontmatter(skill), known)
            except ProwessError:
                continue

    async def find(self, uri: str) -> tuple[Entry, str] | None:
        """The entry an address belongs to, and the path in it; None where nothing is served there."""
        for slug in slugs_in(uri):
            entry = await self._entry(slug)
            if entry is None:
                continue
            path = path_in(entry, uri)
            if path is not None:
                return entry, path
        return None

    async def digest_at(self, uri: str) -> str | None:
        """The digest of the file at an address; None where there is none."""
        found = await self.find(uri)
        file = found[0].file(found[1]) if found else None
        return file.sha256 if file else None

    async def _entry(self, slug: str) -> Entry | None:
        skill = await self._skill(slug)
        if skill is None:
            return None
        outer = [name for name in namespaces(slug) if await self._skill(name) is not None]
        try:
            return entry_of(skill, await self._frontmatter(skill), outer)
        except NotFound:
            return None

    async def _skill(self, slug: str) -> Skill | None:
        try:
            skill = await self._engine.skill(slug)
        except (NotFound, Invalid):
            return None
        return skill if skill.slug == slug else None

    async def _frontmatter(self, skill: Skill) -> dict[str, Any] | None:
        if skill.digest in self._frontmatters:
            self._frontmatters.move_to_end(skill.digest)
            return self._frontmatters[skill.digest]
        file = next((file for file in skill.manifest if file.path == SKILL_MD), None)
        content = await self._engine.read_file(skill.slug, SKILL_MD) if file else b""
        found = frontmatter_json(content) if file else None
        if file and hashlib.sha256(content).hexdigest() != file.sha256:
            raise NotFound(f"{skill.slug!r} is being changed.", hint="Ask again.")
        self._frontmatters[skill.digest] = found
        if len(self._frontmatters) > _REMEMBERED:
            self._frontmatters.popitem(last=False)
        return found
