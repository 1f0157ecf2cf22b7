"""The subject of a decision: one skill with exact bytes, and how far its origin is trusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from prowess.policy.actor import AGENT_PREFIX
from prowess.policy.text import clean_text
from prowess.skill.needs import Reach
from prowess.skill.package import FileEntry

Trust = Literal["local", "synced", "agent", "live"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One skill as the gate sees it.

    `digest` identifies the bytes to be used or, for an update, to be kept. `origin` says exactly where the skill is from, to
    tell a changed skill from another one of the same slug. `written_by` is the label of the author of the current version.
    `live` marks a skill fetched for one conversation. `requests` lists what the skill asks for (tools, hooks, servers,
    hosts); it is shown and grants nothing. `reach` is how far a run goes beyond the sandbox. With `asks_first`, the skill
    itself wants a person asked before an agent runs it.
    """

    slug: str
    digest: str
    title: str = ""
    description: str = ""
    tags: tuple[str, ...] = ()
    scope: str = ""
    source: str = "user"
    source_type: str = "manual"
    origin: str = ""
    written_by: str = ""
    live: bool = False
    chars: int = 0
    manifest: tuple[FileEntry, ...] = ()
    requests: tuple[str, ...] = ()
    reach: Reach = ""
    asks_first: bool = False

    @property
    def trust(self) -> Trust:
        """How far the origin is trusted. A skill that is not known to be local counts as synced."""
        if self.live:
            return "live"
        if self.source_type != "manual" or self.source not in ("user", "system"):
            return "synced"
        return "agent" if self.written_by.startswith(AGENT_PREFIX) else "local"

    @property
    def is_complete(self) -> bool:
        """True if both skill and bytes are known."""
        return bool(self.slug and self.digest)

    @property
    def announced(self) -> dict[str, Any]:
        """What events say about the skill."""
        return {
            "slug": self.slug,
            "name": clean_text(self.title) or self.slug,
            "description": clean_text(self.description),
            "digest": self.digest,
            "source_type": self.source_type,
            "content_length": self.chars,
            "origin": clean_text(self.origin),
            "requests": [clean_text(request) for request in self.requests],
        }


def manifest_changes(before: Sequence[FileEntry], after: Sequence[FileEntry]) -> dict[str, list[str]]:
    """Return the paths that were added, removed or changed (in content or mode), each list sorted."""
    old, new = ({entry.path: entry for entry in manifest} for manifest in (before, after))
    return {
        "added": sorted(new.keys() - old.keys()),
        "removed": sorted(old.keys() - new.keys()),
        "changed": sorted(path for path in old.keys() & new.keys() if old[path] != new[path]),
    }
