"""Remember what the gate has just allowed, so that a skill that runs again and again is not judged from scratch each time."""

from __future__ import annotations

from collections.abc import Hashable
from time import monotonic
from typing import TYPE_CHECKING

from prowess.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from prowess.policy.organization import OrgPolicy
    from prowess.policy.subject import Subject

RECENT_SECONDS = 1.0
_MOST = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The policy and the skill, with its trust, that a decision was about."""

    policy: OrgPolicy
    subject: Subject


class RecentDecisions:
    """Decisions of the last second that allowed a run without asking a person.

    A decision depends on the skill, which is part of its key, and on what is recorded: policies, acceptances, trusted folders,
    versions, other skills of the same name. Nothing of that changes without a row in the audit, so a decision counts only
    while the audit ends as it did before it was made. The second is for what is not recorded: skills of the same name in
    folders, and links on the way to this one. Its bytes are compared at each run.
    """

    def __init__(self) -> None:
        self._kept: dict[Hashable, tuple[str, float, Decision]] = {}

    def find(self, key: Hashable, mark: str) -> Decision | None:
        """Return the decision for a key, if the audit still ends with this mark."""
        kept = self._kept.get(key)
        return kept[2] if kept is not None and kept[0] == mark and monotonic() < kept[1] else None

    def keep(self, key: Hashable, mark: str, decision: Decision) -> None:
        """Keep a decision. The mark must have been read before anything that was decided about."""
        if not mark:
            return
        if len(self._kept) >= _MOST:
            self._kept.clear()
        self._kept[key] = (mark, monotonic() + RECENT_SECONDS, decision)
