"""One trace: the row that every run of an artifact leaves, however it ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

RunStatus = Literal["running", "ok", "failed", "refused", "unavailable", "timed_out", "cancelled", "interrupted"]
STATUSES: tuple[RunStatus, ...] = get_args(RunStatus)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What is known about one run of one artifact.

    A `run_id` is shared by the artifacts of one run of a skill. `fallback_of` is the trace of the artifact in whose place it
    ran. `verdicts` has one entry for each assertion. Texts, inputs and errors are redacted when the row is written.
    """

    id: str
    run_id: str
    organization_id: str = ""
    user_id: str = ""
    actor: str = ""
    session_id: str = ""
    skill_id: str
    skill_slug: str
    skill_digest: str = ""
    artifact_id: str
    artifact_name: str
    artifact_kind: str
    fallback_of: str | None = None
    status: RunStatus = "running"
    started_at: str
    deadline_at: str
    """When it is over at the latest, so that a row of a process that is gone can be told."""
    process: str = ""
    """Which process runs it."""
    completed_at: str | None = None
    duration_ms: int | None = None
    model_id: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    estimated_cost: float | None = None
    assertions_run: int = 0
    assertions_passed: int = 0
    error_code: str | None = None
    error: str | None = None
    verdicts: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    detail: dict[str, Any] = field(default_factory=dict[str, Any])
    inputs: dict[str, Any] = field(default_factory=dict[str, Any])
    rendered_input: str | None = None
    raw_output: str | None = None
    created_at: str = ""
