"""Report how much skills are used, from recorded loads and prompt changes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from prowess.storage import counts
from prowess.storage.clock import seconds_from_now
from prowess.storage.database import Connections

DAY_SECONDS = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillUsage:
    """How often and when a skill was last loaded, and when it last entered or left a prompt; '' means never."""

    loads: int = 0
    last_loaded: str = ""
    last_enabled: str = ""

    @property
    def last(self) -> str:
        """When it was last used either way; '' if never."""
        return max(self.last_loaded, self.last_enabled)


NEVER_USED = SkillUsage()


def count_recent_uses(database: Connections, organization: str, *, days: float) -> dict[str, int]:
    """Return how often each skill was loaded, enabled or disabled in the last days, without failed loads. Blocking."""
    with database.read() as connection:
        return counts.recent_uses(connection, organization, since=days_ago(days))


def list_usage(database: Connections, organization: str) -> dict[str, SkillUsage]:
    """Return the usage of every skill that was ever used, by slug. Blocking."""
    used: dict[str, SkillUsage] = {}
    with database.read() as connection:
        for event, slug, many, last in counts.last_uses(connection, organization):
            before = used.get(slug, NEVER_USED)
            loaded = event == counts.LOADED
            used[slug] = replace(before, loads=many, last_loaded=last) if loaded else replace(before, last_enabled=last)
    return used


def days_ago(days: float) -> str:
    """Return the time that many days ago."""
    return seconds_from_now(-days * DAY_SECONDS)
