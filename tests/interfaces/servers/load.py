"""Clients that write without pause while their server dies, and a record of what they were told.

Each client writes skills of its own, so the state that each of them must have is known: what the server acknowledged last,
or a later write whose response was lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx2

RETRY_SECONDS = 0.1
"""Clients that retry more often take processor time from the server that starts."""

REQUEST_SECONDS = 60.0


@dataclass
class Record:
    """What a client knows about one skill."""

    acknowledged: str = ""
    """The description that the server said is stored; '' if it said nothing yet."""
    possible: list[str] = field(default_factory=list)
    """Later descriptions whose requests had no response: each of them may be stored."""


@dataclass
class History:
    """The records of all clients, by slug, and what went wrong."""

    records: dict[str, Record] = field(default_factory=dict)
    acknowledged: int = 0
    lost_responses: int = 0
    statuses: dict[int, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def allows(self, slug: str, found: str | None) -> bool:
        """Return True if the server may have this description (None: no such skill) after everything it said."""
        record = self.records[slug]
        return (found or "") in (record.acknowledged, *record.possible)


def document(slug: str, description: str) -> dict[str, Any]:
    """Return the body that creates or replaces a skill."""
    content = f"---\nname: {slug}\ndescription: {description}\n---\n\n# {slug}\n\n" + "Write it down.\n" * 20
    return {"name": slug, "slug": slug, "description": description, "scope": "org", "content": content}


class Writer:
    """One client: creates a skill, reads it, changes it, reads it again, and so on with the next one."""

    def __init__(self, name: str, url: Callable[[], str], token: str, history: History) -> None:
        self._name = name
        self._url = url
        self._history = history
        self._client = httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}, timeout=REQUEST_SECONDS)

    async def run(self, stopped: asyncio.Event) -> None:
        """Write until told to stop."""
        async with self._client:
            number = 0
            while not stopped.is_set():
                number += 1
                await self._write_one(f"{self._name}-{number}")

    async def _write_one(self, slug: str) -> None:
        record = self._history.records[slug] = Record()
        for version in ("first", "second"):
            description = f"The {version} text of {slug}."
            while record.acknowledged != description:
                record.possible.append(description)
                await self._write(slug, record, description)
            await self._read(slug)

    async def _write(self, slug: str, record: Record, description: str) -> None:
        create = not record.acknowledged
        method, path = ("POST", "/api/v1/skills") if create else ("PUT", f"/api/v1/skills/{slug}")
        answer = await self._send(method, path, json=document(slug, description))
        if answer is None:
            found = await self._read(slug)
            if found == description:  # it was stored; only the response was lost
                self._acknowledge(record, description)
        elif answer.status_code < 300 or (
            answer.status_code == 409 and create and await self._read(slug) == description
        ):
            self._acknowledge(record, description)
        elif answer.status_code in (429, 503):
            await asyncio.sleep(RETRY_SECONDS)
        else:
            self._history.problems.append(f"{method} {slug}: {answer.status_code} {answer.text[:300]}")
            await asyncio.sleep(RETRY_SECONDS)

    def _acknowledge(self, record: Record, description: str) -> None:
        record.acknowledged, record.possible = description, []
        self._history.acknowledged += 1

    async def _read(self, slug: str) -> str | None:
        """Read the skill until there is a response, and check it. Return its description; None if there is no skill."""
        while True:
            answer = await self._send("GET", f"/api/v1/skills/{slug}")
            if answer is None or answer.status_code in (429, 503):
                await asyncio.sleep(RETRY_SECONDS)
                continue
            if answer.status_code not in (200, 404):
                self._history.problems.append(f"GET {slug}: {answer.status_code} {answer.text[:300]}")
                await asyncio.sleep(RETRY_SECONDS)
                continue
            found = answer.json()["description"] if answer.status_code == 200 else None
            if not self._history.allows(slug, found):
                self._history.problems.append(f"{slug} is {found!r}, not {self._history.records[slug]}")
            return found

    async def _send(self, method: str, path: str, **options: Any) -> httpx2.Response | None:
        """Send a request; return None if no response came."""
        try:
            answer = await self._client.request(method, self._url() + path, **options)
        except httpx2.TransportError:
            self._history.lost_responses += 1
            return None
        if answer.status_code == 503 and "retry-after" not in answer.headers:
            self._history.problems.append(f"{method} {path}: 503 without Retry-After")
        self._history.statuses[answer.status_code] = self._history.statuses.get(answer.status_code, 0) + 1
        return answer


async def stored(url: str, token: str) -> dict[str, list[str]]:
    """Return the descriptions of all skills by slug, page by page; a slug with two of them was stored twice."""
    found: dict[str, list[str]] = {}
    async with httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}, timeout=REQUEST_SECONDS) as client:
        cursor: str | None = ""
        while cursor is not None:
            page = (await client.get(f"{url}/api/v1/skills", params={"limit": 200, "cursor": cursor})).json()
            for item in page["items"]:
                found.setdefault(item["slug"], []).append(item["description"])
            cursor = page["next_cursor"]
    return found


async def check(history: History, url: str, token: str) -> None:
    """Compare everything that was acknowledged with what the server has now."""
    found = await stored(url, token)
    for slug in history.records:
        descriptions = found.pop(slug, [])
        if len(descriptions) > 1:
            history.problems.append(f"{slug} is stored {len(descriptions)} times")
        if not history.allows(slug, descriptions[0] if descriptions else None):
            history.problems.append(f"{slug} is {descriptions}, not {history.records[slug]}")
    if found:
        history.problems.append(f"nobody wrote {sorted(found)}")
