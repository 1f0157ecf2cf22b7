"""The events that agents, web pages and other programs can subscribe to."""

from __future__ import annotations

from typing import Any

from prowess.lazy_dataclass import dataclass

EVENT_NAMES = (
    "skills_state_changed",
    "approval_required",
    "approval_resolved",
    "skill_loaded",
    "run_started",
    "run_state_changed",
    "run_finished",
    "decision_made",
    "source_synced",
    "job_changed",
    "composition_changed",
    "optimization_changed",
    "catalog_changed",
    "settings_changed",
    "conversation_changed",
)
SHARED_EVENTS = ("catalog_changed", "settings_changed", "source_synced")
"""Events that concern everyone in an organization, unless they name a user."""


EVENTS_PRUNED = "events_pruned"
"""The name of an event that is in no log: a subscriber receives it instead of events that are no longer kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event. `number` counts from 1 in each organization, without gaps, in the order in which things happened."""

    number: int
    name: str
    data: dict[str, Any]
    at: str
    id: str = ""
    session: str = ""
    user: str = ""
