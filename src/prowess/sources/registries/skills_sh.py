"""The registry skills.sh: the API that its command line uses, or the documented one where there is a key.

Without a key, `/api/search`, `/api/skills/trending` and `/api/download/OWNER/REPO/SKILL` answer anyone. The documented
API below `/api/v1` needs a key and also knows skills that come from websites. Audits are advice, so a skill without any is
no error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import quote, urlsplit

from prowess.errors import NotFound, ProwessError
from prowess.net.request import HttpClient
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.package import File, Package
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
    MAX_RESULTS,
    Audit,
    AuditStatus,
    RegistryDetail,
    RegistryEntry,
    check_id,
    is_registry_id,
)

NAME = "skills.sh"
SITE = "https://skills.sh"
_EXAMPLE = "owner/repo/skill"
_MIN_QUERY = 2
_STATUSES: Mapping[str, AuditStatus] = {"pass": "pass", "warn": "warn", "fail": "fail"}
_AUDITS = 10


class SkillsShRegistry:
    """Reads skills.sh, or a server with the same API at other addresses."""

    name = NAME

    def __init__(
        self,
        client: HttpClient,
        *,
        api_url: str = "",
        download_url: str = "",
        key: str = "",
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self._api = RegistryConnection(NAME, api_url or SITE, client, key=key, configured=bool(api_url))
        self._files = RegistryConnection(NAME, download_url or SITE, client, configured=bool(download_url))
        self._limits = limits

    async def search(self, query: str, *, limit: int) -> list[RegistryEntry]:
        """Return the skills that the registry finds, in its order; nothing for a query of one character."""
        if len(query) < _MIN_QUERY:
            return []
        return await self._search(query, limit)

    async def _search(self, query: str, limit: int, owner: str = "") -> list[RegistryEntry]:
        params: dict[str, str | int] = {"q": query, "limit": limit, **({"owner": owner} if owner else {})}
        if self._api.key:
            answer = await self._api.get_json("/api/v1/skills/search", params)
            return self._entries(answer, "data", limit)
        return self._entries(await self._api.get_json("/api/search", params), "skills", limit)

    async def trending(self, *, limit: int) -> list[RegistryEntry]:
        """Return the skills that are installed most at the moment, in the registry's order."""
        if self._api.key:
            params: dict[str, str | int] = {"view": "trending", "page": 0, "per_page": limit}
            return self._entries(await self._api.get_json("/api/v1/skills", params), "data", limit)
        return self._entries(await self._api.get_json("/api/skills/trending"), "skills", limit)

    async def metadata(self, id: str) -> RegistryDetail:
        """Return what the registry says about one skill, with its files and the audits that there are."""
        name = await self._resolve(id)
        path = _path(name)
        if self._api.key:
            answer = await self._api.get_json(f"/api/v1/skills/{path}", max_bytes=FILES_BYTES)
            entry = self._entry(answer)
            if entry is None or entry.id.casefold() != name.casefold():
                raise self._api.malformed("It describes another skill.")
            return RegistryDetail(entry=entry, skill=self._read_files(name, answer), audits=await self._audits(path))
        entry = await self._find(name) or self._entry({"id": name})
        if entry is None:
            raise _unknown(name)
        return RegistryDetail(entry=entry, skill=await self.download(name), audits=await self._audits(path))

    async def download(self, id: str) -> FetchedSkill:
        """Return the files of one skill. The registry keeps texts only; a skill with other files has none of them here."""
        name = await self._resolve(id)
        if self._api.key:
            answer = await self._api.get_json(f"/api/v1/skills/{_path(name)}", max_bytes=FILES_BYTES)
            return self._read_files(name, answer)
        if name.count("/") != 2:
            raise NotFound(
                f"The registry {NAME} provides the files of {name!r} only with a key.",
                hint=f"Set PROWESS_SKILLS_SH_KEY, or use the site itself: `prowess add https://{name.partition('/')[0]}`.",
            )
        answer = await self._files.get_json(f"/api/download/{_path(name)}", max_bytes=FILES_BYTES)
        return self._read_files(name, answer)

    def page_url(self, id: str) -> str:
        """Return the address of the page about a skill."""
        return f"{SITE}/{_path(id)}"

    def find_id(self, url: str) -> str | None:
        """Return the id of the skill whose page has this address, or None for any other address."""
        parts = urlsplit(url)
        if parts.hostname not in ("skills.sh", "www.skills.sh") or parts.query or parts.fragment:
            return None
        # Skills of websites have pages below `/site/`.
        name = parts.path.strip("/").removeprefix("site/")
        return name if is_registry_id(name) and "/" in name else None

    async def _resolve(self, id: str) -> str:
        """Return the id of a skill. `owner/repo` alone is enough if the registry knows one skill of that repository."""
        name = check_id(id, _EXAMPLE)
        owner, _, rest = name.partition("/")
        # Names of GitHub owners have no dots, and hosts have one.
        if "/" in rest or "." in owner:
            return name
        if not rest:
            raise _unknown(name)
        found = [entry for entry in await self._search(rest, MAX_RESULTS, owner.lower()) if _same(entry.source, name)]
        if len(found) == 1:
            return found[0].id
        there = ", ".join(entry.skill_id for entry in found[:10])
        raise NotFound(
            f"{name!r} names a repository with {len(found) or 'no'} skills in the registry {NAME}.",
            hint=f"Name one of its skills: {there}." if there else f"Use an id from a search, such as {_EXAMPLE!r}.",
        )

    async def _find(self, id: str) -> RegistryEntry | None:
        """Return what a search says about one skill, or None."""
        source, _, skill = id.rpartition("/")
        found = await self._search(skill, MAX_RESULTS, source.partition("/")[0].lower())
        return next((entry for entry in found if _same(entry.id, id)), None)

    async def _audits(self, path: str) -> tuple[Audit, ...]:
        try:
            answer = await self._api.get_json(f"/api/v1/skills/audit/{path}")
            rows = list(self._api.rows(answer, "audits"))
        except ProwessError:  # not audited, or no answer: nothing depends on it
            return ()
        return tuple(
            Audit(
                provider=read_text(row, "provider", limit=80),
                status=_STATUSES[row["status"]],
                summary=read_text(row, "summary", limit=500),
                risk=read_text(row, "riskLevel", limit=40),
                audited_at=read_time(row.get("auditedAt")),
            )
            for row in rows[:_AUDITS]
            if isinstance(row.get("status"), str) and row["status"] in _STATUSES
        )

    def _entries(self, answer: Mapping[str, Any], field: str, limit: int) -> list[RegistryEntry]:
        return first_entries(map(self._entry, self._api.rows(answer, field)), limit)

    def _entry(self, row: Mapping[str, Any]) -> RegistryEntry | None:
        """Return a row as an entry; None if its names are not plain, so that it could not be asked for."""
        source, skill = read_text(row, "source"), read_text(row, "skillId", "slug")
        whole = read_text(row, "id") or (f"{source}/{skill}" if source and skill else "")
        if not is_registry_id(whole) or "/" not in whole:
            return None
        # The id decides. A row that says something else about its parts could show one skill and name another.
        source, _, skill = whole.rpartition("/")
        return RegistryEntry(
            registry=NAME,
            id=whole,
            source=source,
            skill_id=skill,
            name=read_text(row, "name"),
            installs=read_count(row.get("installs")),
            url=self.page_url(whole),
            warnings=("duplicate",) if row.get("isDuplicate") is True else (),
        )

    def _read_files(self, id: str, answer: Mapping[str, Any]) -> FetchedSkill:
        if answer.get("files") is None:
            raise NotFound(
                f"The registry {NAME} does not store the files of {id!r}.",
                hint=f"Use its repository: `prowess add {id.rpartition('/')[0]}`.",
            )
        files: list[File] = []
        for row in self._files.rows(answer, "files"):
            path, contents = row.get("path"), row.get("contents")
            if not isinstance(path, str) or not isinstance(contents, str):
                raise self._files.malformed("A file has no path or no contents.")
            files.append(File(path=path, content=contents.encode("utf-8", "surrogatepass")))
        if len(files) != len(cast("list[object]", answer["files"])):
            raise self._files.malformed("Its list of files is too long, or has something else in it.")
        package = Package.of(id.rpartition("/")[2], files, self._limits)
        return FetchedSkill(package=package, path=id, revision=read_text(answer, "hash", limit=128))


def _path(id: str) -> str:
    """Return an id as the path of a request. Owners and repositories are the same in any case; the registry has them in lower."""
    *source, skill = id.split("/")
    slug = re.sub(r"-+", "-", re.sub(r"[^a-z0-9-]", "", re.sub(r"[\s_]+", "-", skill.lower()))).strip("-")
    return "/".join(quote(part, safe="") for part in (*(part.lower() for part in source), slug or skill))


def _same(one: str, other: str) -> bool:
    return one.casefold() == other.casefold()


def _unknown(id: str) -> NotFound:
    return NotFound(f"The registry {NAME} has no skill {id[:80]!r}.", hint=f"Use an id such as {_EXAMPLE!r}.")
