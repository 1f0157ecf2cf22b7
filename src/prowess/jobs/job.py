"""A job as interfaces show it, and the request that it carries out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from prowess.run.request import RunRequest, SharedSpendLimit
from prowess.skill.kinds import JsonObject
from prowess.storage import jobs, ledger
from prowess.storage.driver_errors import reading
from prowess.storage.jobs import OPEN, JobKind, JobRow, JobState
from prowess.storage.ledger import EventEntry
from prowess.storage.rows import convert_row

if TYPE_CHECKING:
    import sqlalchemy as sa

DEFAULT_CONCURRENCY = 4
MAX_CONCURRENCY = 256
MAX_NAME_CHARS = 100

_REQUEST = ("artifacts", "session", "model", "evaluation_model", "timeout")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobError:
    """Why a job failed or stopped."""

    code: str
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job. `total`, `done` and `failed` count the items of a batch, the artifacts of a run, or the steps of a task."""

    id: str
    kind: JobKind
    name: str
    state: JobState
    skill: str
    digest: str
    user: str
    attempt: int
    created_at: str
    started_at: str | None
    finished_at: str | None
    total: int
    done: int
    failed: int
    cost_usd: float | None
    approval_id: str | None
    error: JobError | None
    workers: int
    """How many workers could do it now; 0 once it has ended."""
    result: dict[str, Any] | None = None
    """The result of a run or a task that has ended."""

    @property
    def is_open(self) -> bool:
        """True until the job has ended."""
        return self.state in OPEN

    def as_json(self) -> JsonObject:
        """Return everything as plain JSON."""
        return asdict(self)


def to_job(row: JobRow, *, workers: int = 0) -> Job:
    """Return a stored job as interfaces show it."""
    error = JobError(code=row.error_code, message=row.error or "", hint=row.hint or "") if row.error_code else None
    return convert_row(
        row,
        Job,
        skill=row.skill_slug,
        digest=row.skill_digest,
        user=row.user_id,
        cost_usd=row.cost,
        error=error,
        workers=workers if row.is_open else 0,
    )


def event_data(row: JobRow) -> JsonObject:
    """Return what subscribers learn about a job: never its inputs or results."""
    return {
        "job_id": row.id,
        "kind": row.kind,
        "name": row.name,
        "skill": row.skill_slug,
        "state": row.state,
        "total": row.total,
        "done": row.done,
        "failed": row.failed,
        "approval_id": row.approval_id,
        "error": row.error_code,
    }


def request_record(request: RunRequest, **more: Any) -> JsonObject:
    """Return a request as it is stored. Its models must be names."""
    return {**{name: getattr(request, name) for name in _REQUEST}, "artifacts": list(request.artifacts), **more}


def stored_request(row: JobRow, inputs: JsonObject | None, *, run_id: str) -> RunRequest:
    """Return the request of a job, for one run with these inputs; raise `Unavailable` if another program changed it."""
    with reading(f"The job {row.name!r}"):
        request = row.request
        limit: float | None = request.get("max_spend")
        hint = f"Continue with a higher limit: `prowess jobs retry {row.name} --max-spend N`."
        spend_limit = None if limit is None else SharedSpendLimit(name=f"job:{row.id}", limit=limit, hint=hint)
        return RunRequest(
            slug=row.skill_slug,
            artifacts=tuple(request["artifacts"]),
            inputs=request["inputs"] if inputs is None else inputs,
            session=request["session"],
            model=request["model"],
            evaluation_model=request["evaluation_model"],
            timeout=request["timeout"],
            run_id=run_id,
            digest=row.skill_digest,
            spend_limit=spend_limit,
        )


def change_job(connection: sa.Connection, job_id: str, values: Mapping[str, Any], *, attempt: int = 0) -> JobRow | None:
    """Change a job that has not ended, and append the event; return None if it has ended."""
    changed = jobs.change(connection, job_id, values, states=OPEN, attempt=attempt)
    if changed is not None:
        append_event(connection, changed)
    return changed


def append_event(connection: sa.Connection, job: JobRow) -> None:
    """Append the event that a job has changed."""
    entry = EventEntry(name="job_changed", data=event_data(job), user_id=job.user_id, subject=job.skill_slug)
    ledger.append(connection, job.organization_id, events=[entry])
