"""What is announced of a run while it goes on: that it began, the states it passes through, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from prowess.storage.ledger import EventEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNews:
    """One event of a run, to be written down by the recorder of events."""

    name: Literal["run_started", "run_state_changed", "run_finished"]
    skill: str
    data: dict[str, Any] = field(default_factory=dict[str, Any])
    session_id: str = ""
    user_id: str = ""
    organization_id: str | None = None
    source: str = ""
    seconds: float | None = None

    def entry(self) -> EventEntry:
        """The event that it becomes."""
        return EventEntry(
            name=self.name,
            data=self.data,
            session_id=self.session_id,
            user_id=self.user_id,
            subject=self.skill,
            source=self.source,
            seconds=self.seconds,
        )
