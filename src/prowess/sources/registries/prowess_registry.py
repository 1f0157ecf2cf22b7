"""A registry server of Prowess, such as that of an organization. Skills are identified by their slug.

What it lists is only shown. What it delivers must be in its signed index, with exactly these bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any
from urllib.parse import quote, urlsplit

from prowess.errors import NotFound, Refused, Unavailable
from prowess.net.request import HttpClient
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.sources.fetched import FetchedSkill
from prowess.sources.marketplace import INDEX_PATH, archive_path, make_skill, open_archive
from prowess.sources.registries.connection import FILES_BYTES, RegistryConnection, first_entries, read_count, read_text
from prowess.sources.registries.registry import RegistryDetail, RegistryEntry, check_id, is_registry_id
from prowess.sources.signed_index import MAX_INDEX_BYTES, IndexEntry, check_age, open_index
from prowess.threads import offload

NAME = "prowess"
_EXAMPLE = "release-notes"


class ProwessRegistry:
    """Reads one registry server. With `key`, its index must be signed with this public key."""

    name = NAME

    def __init__(
        self, client: HttpClient, *, url: str, key: str = "", token: str = "", limits: Limits = DEFAULT_LIMITS
    ) -> None:
        self._client = client
        self._url = url.rstrip("/")
        self._key = key
        self._token = token
        self._limits = limits

    @cached_property
    def _api(self) -> RegistryConnection:
        # Raised only when it is used: all registries are asked whether an address is one of theirs.
        if not self._url:
            raise Unavailable(
                "No registry server of Prowess is configured.", hint="Set PROWESS_REGISTRY_URL to its address."
            )
        return RegistryConnection(NAME, self._url, self._client, key=self._token, configured=True)

    async def search(self, query: str, *, limit: int) -> list[RegistryEntry]:
        """Return the skills that the registry finds, in its order."""
        answer = await self._api.get_json("/api/v1/search", {"q": query, "limit": limit})
        return first_entries(map(self._entry, self._api.rows(answer, "skills")), limit)

    async def trending(self, *, limit: int) -> list[RegistryEntry]:
        """Return the skills that were downloaded most in the last seven days."""
        answer = await self._api.get_json("/api/v1/trending", {"limit": limit})
        return first_entries(map(self._entry, self._api.rows(answer, "skills")), limit)

    async def metadata(self, id: str) -> RegistryDetail:
        """Return what the signed index says about one skill, with its files."""
        indexed, registry = await self._find(id)
        entry = self._entry(indexed.model_dump(mode="json"))
        if entry is None:
            raise self._api.malformed("Its name cannot be used.")
        return RegistryDetail(entry=entry, skill=await self._download(indexed, registry))

    async def download(self, id: str) -> FetchedSkill:
        """Return the files of the newest version; raise `Refused` if they are not those that the index states."""
        return await self._download(*await self._find(id))

    def page_url(self, id: str) -> str:
        """Return the address of what the registry says about a skill."""
        return f"{self._url}/api/v1/skills/{quote(id, safe='')}"

    def find_id(self, url: str) -> str | None:
        """Return the id of the skill with this address, or None for any other address."""
        prefix = f"{self._url}/api/v1/skills/"
        parts = urlsplit(url)
        name = url.removeprefix(prefix)
        if not self._url or not url.startswith(prefix) or parts.query or parts.fragment or "/" in name:
            return None
        return name if is_registry_id(name) else None

    async def _find(self, id: str) -> tuple[IndexEntry, str]:
        """Return the newest version of a skill in the signed index, and the id of the registry."""
        name = check_id(id, _EXAMPLE)
        answer = await self._api.get(INDEX_PATH, max_bytes=MAX_INDEX_BYTES)
        index, _ = await offload(open_index, answer.body, self._key)
        check_age(index)
        entry = index.find(name)
        if entry is None:
            raise NotFound(f"The registry {NAME} has no skill {name[:80]!r}.", hint="Search for its name first.")
        return entry, index.registry

    async def _download(self, entry: IndexEntry, registry: str) -> FetchedSkill:
        if entry.size > FILES_BYTES:
            raise Refused(f"The archive of {entry.name!r} is too large.", hint="Ask its publisher to make it smaller.")
        answer = await self._api.get(archive_path(entry), max_bytes=entry.size)
        package = await offload(open_archive, answer.body, entry, self._limits)
        return make_skill(entry, package, registry)

    def _entry(self, row: Mapping[str, Any]) -> RegistryEntry | None:
        """Return a row as an entry; None if its name is not plain, so that it could not be asked for."""
        name = read_text(row, "name")
        if not is_registry_id(name) or "/" in name:
            return None
        return RegistryEntry(
            registry=NAME,
            id=name,
            source=NAME,
            skill_id=name,
            name=name,
            description=read_text(row, "description", limit=1_024),
            version=read_text(row, "version", limit=80),
            installs=read_count(row.get("downloads")),
            url=self.page_url(name),
            updated_at=read_text(row, "published_at", limit=40),
        )
