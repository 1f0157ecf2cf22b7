"""The result of a sync: what happened, or would happen, to each skill of a source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from prowess.errors import Problem, ProwessError
from prowess.storage.sources import Source, SyncStatus

SkillStatus = Literal["added", "updated", "unchanged", "removed", "conflict", "invalid", "refused"]
TAKEN: frozenset[SkillStatus] = frozenset({"added", "updated", "unchanged", "removed"})
"""The statuses of skills that are now as the source has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillChange:
    """The change of one skill of a source, made or planned."""

    status: SkillStatus
    path: str
    slug: str = ""
    digest: str = ""
    replaces: str = ""
    """The digest of the files that are stored now; '' if there are none."""
    message: str = ""
    hint: str = ""
    title: str = ""
    description: str = ""
    requests: tuple[str, ...] = ()
    """The requests of the skill beyond text: programs, hosts, variables, tools."""
    findings: tuple[dict[str, Any], ...] = ()
    revision: str = ""
    diff: str = ""
    """The difference to the files that are stored now, as text. Only in a preview, and cut if it is very long."""

    @property
    def dangers(self) -> int:
        """How many findings of the security scan are severe."""
        return sum(finding.get("severity") == "danger" for finding in self.findings)

    def as_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        values = {each.name: getattr(self, each.name) for each in fields(SkillChange)}
        return {**values, "requests": list(self.requests), "findings": list(self.findings)}


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncResult:
    """How a sync ended, or with `preview` how it would end."""

    source: Source
    status: SyncStatus
    counts: dict[str, int] = field(default_factory=dict[str, int])
    """How many skills have each status."""
    changes: tuple[SkillChange, ...] = ()
    """The skills of the source; over HTTP without those that are unchanged."""
    warnings: tuple[Problem, ...] = ()
    unchanged: bool = False
    """True if the source is in the state of the last sync, so that nothing was compared."""
    error: ProwessError | None = field(default=None, compare=False)
    preview: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return a JSON object. Skills that are unchanged are only counted."""
        return {
            "source_id": self.source.id,
            "status": self.status,
            "unchanged": self.unchanged,
            "preview": self.preview,
            "counts": self.counts,
            "skills": [change.as_json() for change in self.changes if change.status != "unchanged" or change.message],
            "warnings": [asdict(warning) for warning in self.warnings],
            "error": self.error and self.error.as_json(),
        }


def count_statuses(changes: Iterable[SkillChange]) -> dict[str, int]:
    """Return how many skills have each status."""
    return dict(Counter(change.status for change in changes))
