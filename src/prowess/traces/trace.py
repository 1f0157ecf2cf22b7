"""Define the trace: the row that every run of an artifact leaves, however it ends."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Literal, get_args

from prowess.lazy_dataclass import dataclass

RunStatus = Literal["running", "ok", "failed", "refused", "unavailable", "timed_out", "cancelled", "interrupted"]
STATUSES: tuple[RunStatus, ...] = get_args(RunStatus)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One run of one artifact.

    The artifacts of one run of a skill share a `run_id`. `fallback_of` is the trace of the artifact that this one replaced.
    `verdicts` has one entry per assertion. Texts, inputs and errors are redacted when the row is written.
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
    """When it must have ended, so that the row of a dead process can be recognised."""
    process: str = ""
    """Identifies the process that runs it."""
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
