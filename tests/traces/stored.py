"""A trace as the database has it."""

from __future__ import annotations

from typing import Any

from prowess.storage.traces import Trace


def stored_trace(number: int, moment: str, **values: Any) -> Trace:
    """Return the trace of a run that ended well."""
    given: dict[str, Any] = {
        "id": f"trace-{number}",
        "run_id": f"run-{number}",
        "organization_id": "acme",
        "user_id": "ann",
        "skill_id": "1",
        "skill_slug": "checker",
        "artifact_id": "2",
        "artifact_name": "check",
        "artifact_kind": "prompt_template",
        "status": "ok",
        "started_at": moment,
        "deadline_at": moment,
        "duration_ms": 10,
        "created_at": moment,
    }
    return Trace(**{**given, **values})
