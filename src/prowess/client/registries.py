"""Registries of skills, over HTTP: the server asks them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prowess.client.decode import decode, decode_all
from prowess.client.part import Part

if TYPE_CHECKING:
    from prowess.engine.registry_results import RegistryHit, RegistryPreview
    from prowess.skill.model import Scope, Skill


class Registries(Part):
    """Registries of skills, as the server's organization may use them. An empty `registry` means the server's default."""

    async def search(self, query: str, *, limit: int = 10, registry: str = "") -> list[RegistryHit]:
        """Return skills of a registry for a query, best first."""
        from prowess.engine.registry_results import RegistryHit

        found = await self._transport.get("/skills/registry/search", q=query, limit=limit, registry=registry)
        return decode_all(RegistryHit, found["skills"])

    async def trending(self, *, limit: int = 20, registry: str = "") -> list[RegistryHit]:
        """Return the skills that a registry calls trending, in its order."""
        from prowess.engine.registry_results import RegistryHit

        found = await self._transport.get("/skills/registry/trending", limit=limit, registry=registry)
        return decode_all(RegistryHit, found["skills"])

    async def metadata(self, id: str, *, skill_id: str = "", registry: str = "") -> RegistryPreview:
        """Return a skill of a registry with its files checked and scanned. Nothing is stored."""
        from prowess.engine.registry_results import RegistryPreview

        found = await self._transport.get("/skills/registry/metadata", id=id, skill_id=skill_id, registry=registry)
        return decode(RegistryPreview, found)

    async def install(
        self, id: str, *, registry: str = "", scope: Scope | None = None, slug: str = "", digest: str = ""
    ) -> Skill:
        """Store a skill of a registry in the catalog. With `digest`, only if the registry still sends exactly these files."""
        from prowess.client.skills import Skills
        from prowess.skill.model import Provenance

        named = id if "://" in id or not registry else f"{registry}:{id}"
        given = {"source_type": "marketplace", "source_url": named, "scope": scope, "slug": slug, "digest": digest}
        row = await self._transport.post("/skills", {name: value for name, value in given.items() if value})
        kept = await Skills(self._transport).get(f"{row['scope']}:{row['slug']}")
        # The files do not say where they came from; the row does.
        named_fields = {name: row[name] for name in ("source", "source_type", "source_url", "source_ref")}
        return kept.model_copy(update={"provenance": decode(Provenance, named_fields)})
