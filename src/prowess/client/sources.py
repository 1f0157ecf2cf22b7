"""Sources that skills are copied from, and registries that list them, over HTTP: the server asks both."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from prowess.client.part import Part, decode, decode_all
from prowess.client.problems import make_error
from prowess.client.skills import Skills
from prowess.client.transport import read_json, segment
from prowess.errors import Problem

if TYPE_CHECKING:
    from prowess.engine.registry_results import RegistryHit, RegistryPreview
    from prowess.skill.model import Scope, Skill
    from prowess.sources.sync_result import SyncResult
    from prowess.storage.sources import Source

_PATH = "/skills/sources"


class Sources(Part):
    """The sources of the organization, and the caller's own."""

    async def list(self) -> list[Source]:
        """Return all sources, by name."""
        from prowess.storage.sources import Source

        found = [decode(Source, row) async for row in self._transport.pages(_PATH)]
        return sorted(found, key=lambda source: (source.name, source.id))

    async def get(self, source_id: str) -> Source:
        """Return a source, or raise `NotFound`."""
        return _source(await self._transport.get(f"{_PATH}/{segment(source_id)}"))

    async def create(
        self,
        name: str,
        source_type: str,
        config: Mapping[str, Any],
        *,
        scope: Scope | None = None,
        enabled: bool = True,
    ) -> Source:
        """Add a source. Nothing is fetched before the first sync. Only a person can do this."""
        body = {"name": name, "source_type": source_type, "config": dict(config), "enabled": enabled}
        return _source(await self._transport.post(_PATH, {**body, "scope": scope or "org"}))

    async def update(
        self,
        source_id: str,
        *,
        name: str | None = None,
        config: Mapping[str, Any] | None = None,
        enabled: bool | None = None,
    ) -> Source:
        """Change a source. A new configuration replaces the old one completely. Only a person can do this."""
        body = {"name": name, "config": None if config is None else dict(config), "enabled": enabled}
        return _source(read_json(await self._transport.send("PUT", f"{_PATH}/{segment(source_id)}", json=body)))

    async def delete(self, source_id: str, *, remove_skills: bool = False) -> None:
        """Delete a source. Its skills stay, or with `remove_skills` are deleted, except those that someone edited."""
        params = {"remove_skills": "true" if remove_skills else "false"}
        await self._transport.send("DELETE", f"{_PATH}/{segment(source_id)}", params=params)

    async def preview(
        self,
        source_id: str = "",
        *,
        source_type: str = "",
        config: Mapping[str, Any] | None = None,
        scope: Scope | None = None,
    ) -> SyncResult:
        """Return the changes that a sync would make, of a source that exists or a new one. Changes nothing."""
        if source_id:
            source = await self.get(source_id)
            return _result(source, await self._transport.get(f"{_PATH}/{segment(source_id)}/preview"))
        body = {"source_type": source_type, "config": dict(config or {}), "scope": scope or "org"}
        found = await self._transport.post(f"{_PATH}/preview", body)
        return _result(_draft(source_type, config or {}, scope or "org"), found)

    async def sync(
        self,
        source_id: str,
        *,
        take: Collection[str] = (),
        watch: Callable[[int, int], None] = lambda _done, _total: None,
    ) -> SyncResult:
        """Sync a source, and return the result. `watch` is not called: the server reports no progress."""
        del watch
        found = await self._transport.post(f"{_PATH}/{segment(source_id)}/sync", {"take": list(take)})
        return _result(await self.get(source_id), found)

    async def sync_stale(self) -> list[SyncResult]:
        """Sync every enabled source whose interval has passed."""
        found = await self._transport.post(f"{_PATH}/sync-stale", {})
        sources = {source.id: source for source in await self.list()}
        return [_result(sources[row["source_id"]], row) for row in found["items"] if row["source_id"] in sources]


def _source(value: Any) -> Source:
    from prowess.storage.sources import Source

    return decode(Source, value)


def _draft(source_type: str, config: Mapping[str, Any], scope: Scope) -> Source:
    fields = {"id": "", "organization_id": "", "user_id": "", "name": "preview"}
    return _source({**fields, "source_type": source_type, "config": dict(config), "scope": scope})


def _result(source: Source, found: Mapping[str, Any]) -> SyncResult:
    from prowess.sources.sync_result import SkillChange, SyncResult

    return SyncResult(
        source=source,
        status=found["status"],
        counts=found["counts"],
        changes=tuple(decode_all(SkillChange, found["skills"])),
        warnings=tuple(decode_all(Problem, found["warnings"])),
        unchanged=found["unchanged"],
        error=make_error(found["error"]) if found["error"] else None,
        preview=found["preview"],
    )


class Registries(Part):
    """Registries of skills, as the server's organization may use them. An empty `registry` means the server's default."""

    async def search(self, query: str, *, limit: int = 10, registry: str = "") -> list[RegistryHit]:
        """Return skills of a registry for a query, best first."""
        from prowess.engine.registry_results import RegistryHit

        found = await self._transport.get("/skills/registry/search", q=query, limit=limit, registry=registry)
        return decode_all(RegistryHit, found["skills"])

    async def trending(self, *, limit: int = 20, registry: str = "") -> list[RegistryHit]:
        """Return the trending skills of a registry, in its order."""
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
        """Store a skill from a registry in the catalog. With `digest`, only if the registry still sends exactly these files."""
        address = id if "://" in id or not registry else f"{registry}:{id}"
        fields = {"source_type": "marketplace", "source_url": address, "scope": scope, "slug": slug, "digest": digest}
        row = await self._transport.post("/skills", {name: value for name, value in fields.items() if value})
        return await Skills(self._transport).get(f"{row['scope']}:{row['slug']}")
