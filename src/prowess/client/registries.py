"""Registries of skills, over HTTP: the server asks them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prowess.client.decode import decode, decode_all
from prowess.client.part import Part

if TYPE_CHECKING:
    from prowess.engine.registries import RegistryHit, RegistryPreview


class Registries(Part):
    """Registries of skills, as the server's organization may use them. An empty `registry` means the server's default."""

    async def search(self, query: str, *, limit: int = 10, registry: str = "") -> list[RegistryHit]:
        """Return skills of a registry for a query, best first."""
        from prowess.engine.registries import RegistryHit

        found = await self._transport.get("/skills/registry/search", q=query, limit=limit, registry=registry)
        return decode_all(RegistryHit, found["skills"])

    async def trending(self, *, limit: int = 20, registry: str = "") -> list[RegistryHit]:
        """Return the skills that a registry calls trending, in its order."""
        from prowess.engine.registries import RegistryHit

        found = await self._transport.get("/skills/registry/trending", limit=limit, registry=registry)
        return decode_all(RegistryHit, found["skills"])

    async def metadata(self, id: str, *, registry: str = "") -> RegistryPreview:
        """Return a skill of a registry with its files checked and scanned. Nothing is stored."""
        from prowess.engine.registries import RegistryPreview

        return decode(RegistryPreview, await self._transport.get("/skills/registry/metadata", id=id, registry=registry))
