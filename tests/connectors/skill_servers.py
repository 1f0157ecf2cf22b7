"""A server of skills that follows the MCP skills extension, until a test makes it break one rule."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import yaml

from prowess.errors import NotFound

ROOT = "skill://acme/billing/refunds"
URI = f"{ROOT}/SKILL.md"
FRONTMATTER = {"name": "refunds", "description": "Refund a customer by the rules of the company."}
BODY = "# Refunds\n\nRead references/limits.md first.\n"
LIMITS = "Up to 100 without a second person.\n"


def skill_md(frontmatter: dict[str, Any] | None = None, body: str = BODY) -> str:
    """The text of a SKILL.md."""
    return f"---\n{yaml.safe_dump(frontmatter or FRONTMATTER, sort_keys=False)}---\n{body}"


def entry_of(uri: str, frontmatter: Any, files: dict[str, bytes]) -> dict[str, Any]:
    """The entry of a skill with these files, by address."""
    resources = [
        {"uri": place, "digest": f"sha256:{hashlib.sha256(content).hexdigest()}", "size": len(content)}
        for place, content in files.items()
    ]
    return {"uri": uri, "frontmatter": frontmatter, "resources": resources}


class FakeSkillServer:
    """Serves skills from memory, and records every request. Requests for anything else are refused."""

    def __init__(self, name: str = "docs") -> None:
        self.name = name
        self.files: dict[str, bytes] = {}
        self.entries: dict[str, dict[str, Any]] = {}
        self.asked: list[tuple[str, str]] = []
        self.change_list: Callable[[dict[str, Any]], object] = lambda result: result
        self.change_get: Callable[[dict[str, Any]], object] = lambda result: result
        self.change_read: Callable[[dict[str, Any]], object] = lambda result: result
        self.page_size = 100

    def add(
        self,
        root: str = ROOT,
        *,
        frontmatter: dict[str, Any] | None = None,
        body: str = BODY,
        **others: str | bytes,
    ) -> dict[str, Any]:
        """Serve a skill. `others` are its other files, with `__` for a slash and `_md` for the ending."""
        fields = frontmatter or {**FRONTMATTER, "name": root.rpartition("/")[2]}
        texts = {f"{root}/SKILL.md": skill_md(fields, body)}
        texts |= {f"{root}/{name.replace('__', '/').replace('_md', '.md')}": text for name, text in others.items()}
        own = {uri: text if isinstance(text, bytes) else text.encode() for uri, text in texts.items()}
        self.files |= own
        uri = f"{root}/SKILL.md"
        self.entries[uri] = entry_of(uri, fields, own)
        return self.entries[uri]

    @property
    def reads(self) -> list[str]:
        """The addresses that were read."""
        return [uri for method, uri in self.asked if method == "resources/read"]

    async def list_skills(self, cursor: str | None) -> object:
        self.asked.append(("skills/list", cursor or ""))
        start = int(cursor or 0)
        page = list(self.entries.values())[start : start + self.page_size]
        result: dict[str, Any] = {**_RESULT, "skills": page}
        if start + self.page_size < len(self.entries):
            result["nextCursor"] = str(start + self.page_size)
        return self.change_list(result)

    async def get_skill(self, uri: str) -> object:
        self.asked.append(("skills/get", uri))
        if uri not in self.entries:
            raise NotFound("There is no such skill.")
        return self.change_get({**_RESULT, "skill": self.entries[uri]})

    async def read_resource(self, uri: str) -> object:
        self.asked.append(("resources/read", uri))
        if uri not in self.files:
            raise NotFound("There is no such file.")
        content = self.files[uri]
        try:
            part = {"uri": uri, "text": content.decode()}
        except UnicodeDecodeError:
            part = {"uri": uri, "blob": b64encode(content).decode()}
        return self.change_read({**_RESULT, "contents": [part]})


_RESULT = {"resultType": "complete", "ttlMs": 300_000, "cacheScope": "public"}


def connect_to(*servers: FakeSkillServer) -> Callable[[str], Any]:
    """How a host reaches these servers, each by its own name and no other."""

    @asynccontextmanager
    async def connect(name: str) -> AsyncIterator[FakeSkillServer]:
        found = {server.name: server for server in servers}
        if name not in found:
            raise NotFound(f"There is no connector {name!r}.")
        yield found[name]

    return connect
