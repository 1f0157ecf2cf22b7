"""The registry ClawHub: its public API for reading. Skills are identified by their slug, and downloaded as zip archives.

Skills that ClawHub has blocked as malware are not downloaded. Those that it only suspects are marked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import quote, urlsplit

from prowess.errors import NotFound, Refused
from prowess.net.request import HttpClient
from prowess.skill.archive import read_archive
from prowess.skill.json_values import json_object
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.sources.fetched import FetchedSkill
from prowess.sources.registries.connection import (
    FILES_BYTES,
    RegistryConnection,
    first_entries,
    read_count,
    read_text,
    read_time,
)
from prowess.sources.registries.registry import (
    Audit,
    AuditStatus,
    RegistryDetail,
    RegistryEntry,
    check_id,
    is_registry_id,
)

NAME = "clawhub"
SITE = "https://clawhub.ai"
_EXAMPLE = "gifgrep"
_VERDICTS: Mapping[str, AuditStatus] = {"clean": "pass", "suspicious": "warn", "malicious": "fail"}


class ClawHubRegistry:
    """Reads ClawHub, or a server with the same API at another address."""

    name = NAME

    def __init__(self, client: HttpClient, *, url: str = "", limits: Limits = DEFAULT_LIMITS) -> None:
        self._api = RegistryConnection(NAME, url or SITE, client, configured=bool(url))
        self._limits = limits

    async def search(self, query: str, *, limit: int) -> list[RegistryEntry]:
        """Return the skills that the registry finds, in its order, without those that it suspects."""
        params: dict[str, str | int] = {"q": query, "limit": limit, "nonSuspiciousOnly": "true"}
        answer = await self._api.get_json("/api/v1/search", params)
        return first_entries(map(self._entry, self._api.rows(answer, "results")), limit)

    async def trending(self, *, limit: int) -> list[RegistryEntry]:
        """Return the skills that were installed most in the last seven days, without those that it suspects."""
        params: dict[str, str | int] = {"sort": "trending", "limit": limit, "nonSuspiciousOnly": "true"}
        answer = await self._api.get_json("/api/v1/skills", params)
        return first_entries(map(self._entry, self._api.rows(answer, "items")), limit)

    async def metadata(self, id: str) -> RegistryDetail:
        """Return what the registry says about one skill, with its files."""
        entry, audits = await self._read(id)
        return RegistryDetail(entry=entry, skill=await self._download(entry), audits=audits)

    async def download(self, id: str) -> FetchedSkill:
        """Return the files of the latest version; raise `Refused` if ClawHub has blocked the skill as malware."""
        entry, _ = await self._read(id)
        return await self._download(entry)

    def page_url(self, id: str) -> str:
        """Return the address of the page about a skill, which leads to that of its owner."""
        return f"{SITE}/skills/{quote(id, safe='')}"

    def find_id(self, url: str) -> str | None:
        """Return the id of the skill whose page has this address, or None for any other address."""
        parts = urlsplit(url)
        if parts.hostname not in ("clawhub.ai", "www.clawhub.ai", "clawhub.com") or parts.query or parts.fragment:
            return None
        # `/OWNER/skills/SLUG`, the older `/OWNER/SLUG`, and `/skills/SLUG`.
        segments = parts.path.strip("/").split("/")
        slug = segments[-1] if len(segments) in (2, 3) else ""
        return slug if is_registry_id(slug) else None

    async def _read(self, id: str) -> tuple[RegistryEntry, tuple[Audit, ...]]:
        slug = check_id(id, _EXAMPLE)
        if "/" in slug:
            raise NotFound(
                f"The registry {NAME} has no skill {slug[:80]!r}.", hint=f"Use a slug, such as {_EXAMPLE!r}."
            )
        answer = await self._api.get_json(f"/api/v1/skills/{quote(slug, safe='')}")
        if answer.get("skill") is None:
            raise NotFound(f"The registry {NAME} has no skill {slug[:80]!r}.", hint="Search for its slug first.")
        version = read_text(json_object(answer.get("latestVersion")), "version", limit=80)
        entry = self._entry({**self._api.object(answer, "skill"), "version": version})
        if entry is None:
            raise self._api.malformed("Its slug cannot be used.")
        # A renamed skill answers under its new slug, which is the one that is shown and downloaded.
        moderation = answer.get("moderation")
        return entry, self._check(entry, cast("Mapping[str, Any]", moderation)) if isinstance(moderation, dict) else ()

    def _check(self, entry: RegistryEntry, moderation: Mapping[str, Any]) -> tuple[Audit, ...]:
        verdict = read_text(moderation, "verdict", limit=40)
        summary = read_text(moderation, "summary", limit=500)
        if moderation.get("isMalwareBlocked") is True or verdict == "malicious":
            raise Refused(
                f"The registry {NAME} has blocked {entry.id!r} as malware.",
                hint=f"Choose another skill. The reason is on its page: {entry.url}",
            )
        suspicious = moderation.get("isSuspicious") is True or verdict == "suspicious"
        status: AuditStatus = "warn" if suspicious else _VERDICTS.get(verdict, "warn")
        at = read_time(moderation.get("updatedAt"))
        return (Audit(provider=NAME, status=status, summary=summary, risk=verdict, audited_at=at),)

    async def _download(self, entry: RegistryEntry) -> FetchedSkill:
        params = {"slug": entry.id, **({"version": entry.version} if entry.version else {})}
        answer = await self._api.get("/api/v1/download", params, max_bytes=FILES_BYTES)
        packages = read_archive(answer.body, f"{entry.id}.zip", self._limits)
        if len(packages) != 1:
            raise self._api.malformed(f"The archive of {entry.id!r} has {len(packages)} skills.")
        return FetchedSkill(package=packages[0], path=entry.id, revision=entry.version)

    def _entry(self, row: Mapping[str, Any]) -> RegistryEntry | None:
        """Return a row as an entry; None if its slug is not plain, so that it could not be asked for."""
        slug = read_text(row, "slug")
        if not is_registry_id(slug) or "/" in slug:
            return None
        counts = json_object(row.get("stats"))
        installs = next(
            (counts[name] for name in ("installsCurrent", "installsAllTime", "downloads") if name in counts), None
        )
        latest = json_object(row.get("latestVersion"))
        version = read_text(latest, "version", limit=80) or read_text(row, "version", limit=80)
        return RegistryEntry(
            registry=NAME,
            id=slug,
            source=NAME,
            skill_id=slug,
            name=read_text(row, "displayName"),
            description=read_text(row, "summary", limit=1_024),
            version=version,
            installs=read_count(installs),
            url=self.page_url(slug),
            updated_at=read_time(row.get("updatedAt")),
        )
