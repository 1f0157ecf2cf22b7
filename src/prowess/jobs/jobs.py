"""Start, list, cancel and retry jobs for an actor."""

from __future__ import annotations

import asyncio
import hashlib
import json
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import sqlalchemy as sa

from prowess.engine.context import Context, check_type
from prowess.engine.engine import Engine
from prowess.engine.records import SHORTEST_ID, find_by_id, read_rows
from prowess.errors import ApprovalRequired, Conflict, Invalid, Refused
from prowess.jobs.job import (
    DEFAULT_CONCURRENCY,
    MAX_CONCURRENCY,
    MAX_NAME_CHARS,
    Job,
    append_event,
    change_job,
    request_record,
    to_job,
)
from prowess.jobs.tasks import find_task
from prowess.jobs.worker import DEAD_SECONDS, JobWorker, require_extra
from prowess.policy.actor import actor_record, stored_actor
from prowess.run.allowance import read_allowance
from prowess.run.durable import check_storable
from prowess.run.request import RunRequest
from prowess.run.selection import normalize_inputs, select_artifacts
from prowess.skill.kinds import JsonObject
from prowess.storage import jobs
from prowess.storage.clock import now, seconds_from_now
from prowess.storage.driver_errors import reading
from prowess.storage.jobs import JobKind, JobRow, JobState
from prowess.threads import offload
from prowess.traces.cleanup import is_process_gone

_REQUEST = "Pass RunRequest(slug=SLUG)."
POLL_SECONDS = 0.25
_PAGE = 1_000


class Jobs:
    """The jobs of the actor; an administrator sees those of the whole organization."""

    def __init__(self, engine: Engine, context: Context, worker: JobWorker) -> None:
        self._engine = engine
        self._context = context
        self._worker = worker

    async def work(self, *, scheduled: bool = False) -> None:
        """Run jobs in this process until the engine is closed. Raise `Unavailable` if the extra is not installed.

        With `scheduled`, also run scheduled work: syncing sources and deleting old records.
        """
        await self._worker.start(scheduled=scheduled)

    async def stop(self) -> None:
        """Stop running jobs in this process. Other processes, or the next start, continue them."""
        await self._worker.close()

    async def start_run(self, request: RunRequest, *, name: str = "") -> Job:
        """Start a durable run: after a crash it continues with the first artifact that has no result.

        A job of the same name that has not ended is continued if it is the same run; otherwise raise `Conflict`. Raise what
        prevents the run, except that a run which needs an approval waits for it.
        """
        check_type(request, RunRequest, _REQUEST)
        return await self._start("run", request, [], name=name, inputs=_plain_inputs(request))

    async def start_batch(
        self,
        request: RunRequest,
        items: Sequence[Mapping[str, Any]],
        *,
        name: str = "",
        concurrency: int = DEFAULT_CONCURRENCY,
        max_spend: float | None = None,
    ) -> Job:
        """Start a batch: one run for each item, which is the inputs of the run.

        `concurrency` is how many run at once on each worker, `max_spend` what all of them may cost, in US dollars. A batch of
        the same name is continued if it has the same skill, items and models; otherwise raise `Conflict`.
        """
        check_type(request, RunRequest, _REQUEST)
        if not 1 <= concurrency <= MAX_CONCURRENCY:
            raise Invalid(f"Invalid concurrency {concurrency}.", hint=f"Use a number from 1 to {MAX_CONCURRENCY}.")
        lines = await offload(lambda: [json.dumps(normalize_inputs(item), ensure_ascii=False) for item in items])
        if not lines:  # `items` may be an iterator
            raise Invalid("The batch has no items.", hint="Give one JSON object per line.")
        more = {"concurrency": concurrency, "max_spend": max_spend, "items_hash": _hash(lines)}
        return await self._start("batch", request, lines, name=name, **more)

    async def start_task(
        self, task: str, parameters: JsonObject, *, skill: str = "", name: str = "", total: int = 0
    ) -> Job:
        """Start a task of authoring, such as `eval`, with parameters that are plain JSON.

        `skill` is the skill that it is about, if it is about one; a task of an account's skill can be done by any worker, all
        others by one of this workspace. A task of the same name is continued if it has the same parameters; otherwise raise
        `Conflict`.
        """
        actor = self._context.actor
        actor.require("skills.run")
        find_task(task)
        row = JobRow(
            id=str(uuid.uuid4()),
            organization_id=actor.organization,
            user_id=actor.user,
            kind="task",
            name=check_name(name) if name else f"{task}-{uuid.uuid4().hex[:8]}",
            skill_slug=skill,
            place=self._worker.place,
            total=total,
            actor=actor_record(actor),
            request={"task": task, "parameters": json.loads(json.dumps(parameters))},
        )
        if skill:
            store, found = await offload(self._context.catalog.find, skill)
            place = self._worker.place if store.scope == "workspace" or store.folder else ""
            row = replace(row, skill_slug=found.slug, skill_digest=found.digest, place=place)
        return await self._hand_over(row, [])

    async def list(
        self, *, states: Sequence[JobState] = (), limit: int = 50, before: tuple[str, str] | None = None
    ) -> list[Job]:
        """Return jobs without their results, newest first; with `before`, those older than that time and id."""
        organization, user = self._scope()

        def read(connection: sa.Connection) -> list[Job]:
            rows = jobs.list_jobs(connection, organization, user, states=states, before=before, limit=limit)
            rows = [jobs.with_counts(connection, row) for row in rows]
            workers = self._count_workers(jobs.list_workers(connection)) if any(row.is_open for row in rows) else 0
            return [to_job(row, workers=workers) for row in rows]

        return await offload(read_rows, self._context, read, [])

    async def count(self, *, states: Sequence[JobState] = ()) -> int:
        """Return the number of jobs."""
        organization, user = self._scope()
        count = partial(jobs.count_jobs, organization_id=organization, user_id=user, states=states)
        return await offload(read_rows, self._context, count, 0)

    async def get(self, job: str) -> Job:
        """Return a job by its name, its id, or at least the first four characters of its id."""
        return await offload(self._get, job)

    async def results(
        self, job: str, *, after: int = -1, limit: int = _PAGE, failed_only: bool = False
    ) -> list[JsonObject]:
        """Return the results of a batch after a position, in input order. An item that has not ended has `ok` null."""

        def read() -> list[JsonObject]:
            row = self._find(job)
            with self._context.resources.records().read() as connection:
                found = jobs.read_results(connection, row.id, after=after, limit=limit, failed_only=failed_only)
            with reading(f"An item of the job {row.name!r}"):
                return [json.loads(line) if line else {"index": position, "ok": None} for position, line in found]

        return await offload(read)

    async def all_results(self, job: str) -> AsyncGenerator[JsonObject]:
        """Yield the results of a batch, in input order."""
        after = -1
        while page := await self.results(job, after=after):
            for result in page:
                yield result
            after = page[-1]["index"]

    async def cancel(self, job: str) -> Job:
        """Cancel a job. Items that are running are interrupted, and those that have ended keep their results.

        Raise `Conflict` if it has ended.
        """
        self._context.actor.require("skills.run")

        def cancel() -> JobRow:
            row = self._find(job)
            with self._context.resources.records().write() as connection:
                values: dict[str, Any] = {"state": "cancelled", "finished_at": now(), "approval_id": None}
                if row.kind == "batch":
                    counts = jobs.count_items(connection, row.id)
                    values |= {"done": counts.done, "failed": counts.failed, "cost": counts.cost}
                changed = change_job(connection, row.id, values)
            if changed is None:
                raise _ended(self._get(row.id))
            return changed

        row = await offload(cancel)
        self._context.resources.wake(row.organization_id)
        # This ends the work of this process at once. Other workers find the cancelled row at their next look.
        await self._worker.cancel(row)
        return await self.get(row.id)

    async def retry(self, job: str, *, concurrency: int | None = None, max_spend: float | None = None) -> Job:
        """Restart a job that failed, stopped or was cancelled. Finished results are kept, and the rest runs again.

        It has no more permissions than the actor of the retry. A job that has not ended is handed to a worker if none has
        it. Raise `Conflict` if it has succeeded, and `Refused` for an agent if a person started it.
        """
        self._context.actor.require("skills.run")
        require_extra()
        changes = {"concurrency": concurrency, "max_spend": max_spend}
        row = await offload(self._requeue, job, {name: value for name, value in changes.items() if value is not None})
        self._context.resources.wake(row.organization_id)
        await self._worker.hand_over(row)
        return await self.get(row.id)

    async def wait(self, job: str, *, on_change: Callable[[Job], None] = lambda _: None) -> Job:
        """Return a job when it has ended. `on_change` receives it each time that it has changed."""
        seen = await self.get(job)
        on_change(seen)
        while seen.is_open:
            await asyncio.sleep(POLL_SECONDS)
            now_seen = await self.get(seen.id)
            if now_seen != seen:
                seen = now_seen
                on_change(seen)
        return seen

    async def _start(self, kind: JobKind, request: RunRequest, items: Sequence[str], *, name: str, **more: Any) -> Job:
        actor = self._context.actor
        actor.require("skills.run")
        if not isinstance(request.model, str) or not isinstance(request.evaluation_model, str):
            raise Invalid("A job cannot use a model object.", hint="Pass the name of a model.")
        first: JsonObject = json.loads(items[0]) if items else more["inputs"]
        row = JobRow(
            id=str(uuid.uuid4()),
            organization_id=actor.organization,
            user_id=actor.user,
            kind=kind,
            name=check_name(name) if name else f"{kind}-{uuid.uuid4().hex[:8]}",
            skill_slug=request.slug,
            total=len(items),
            actor=actor_record(actor),
            request=request_record(request, **more),
        )
        return await self._hand_over(await self._describe(row, replace(request, inputs=first)), items)

    async def _hand_over(self, row: JobRow, items: Sequence[str]) -> Job:
        """Store a new job and hand it to the workers, or continue with the one of the same name."""
        require_extra()  # before a job is stored that this process can never hand over
        stored = await offload(self._store, row, items)
        self._context.resources.wake(stored.organization_id)
        if stored.is_open:
            await self._worker.hand_over(stored)
        elif stored.state != "succeeded":
            request = row.request
            return await self.retry(
                stored.id, concurrency=request.get("concurrency"), max_spend=request.get("max_spend")
            )
        return await self.get(stored.id)

    async def _describe(self, row: JobRow, request: RunRequest) -> JobRow:
        """Return a job with the digest of its skill and its place. A job that needs an approval has to wait for it."""
        try:
            admitted = await self._engine.runs.admit(request)
        except ApprovalRequired:
            described = await offload(self._describe_unapproved, request)
        else:
            described = admitted.slug, admitted.digest, admitted.scope, admitted.in_folder, len(admitted.artifacts)
        slug, digest, scope, in_folder, artifacts = described
        # Other workers may have neither the workspace nor its folders.
        place = self._worker.place if scope == "workspace" or in_folder else ""
        return replace(row, skill_slug=slug, skill_digest=digest, place=place, total=row.total or artifacts)

    def _describe_unapproved(self, request: RunRequest) -> tuple[str, str, str, bool, int]:
        store, skill = self._context.catalog.find(request.slug)
        check_storable(read_allowance(skill), skill.slug)
        artifacts = select_artifacts(skill, request.artifacts)
        return skill.slug, skill.digest, store.scope, bool(store.folder), len(artifacts)

    def _store(self, row: JobRow, items: Sequence[str]) -> JobRow:
        """Store a new job, or return the one of the same name if it does the same."""
        with self._context.resources.records().write() as connection:
            if jobs.add(connection, row, items):
                append_event(connection, row)
                return row
            known = jobs.find_named(connection, self._context.actor.owner, row.name)
        if known is None or _identity(known) != _identity(row):
            raise Conflict(
                f"The name {row.name!r} is used by another job.",
                hint=f"Choose another name, or see `prowess jobs show {row.name}`.",
            )
        if known.skill_digest != row.skill_digest:
            from prowess.engine.runs import changed_skill

            raise changed_skill(row.skill_slug)
        return known

    def _requeue(self, job_id: str, changes: Mapping[str, Any]) -> JobRow:
        row = self._find(job_id)
        with reading(f"The job {row.name!r}"):
            request = {**row.request, **changes}
        values: dict[str, Any] = {"state": "queued", "queued_at": now(), "request": request}
        with self._context.resources.records().write() as connection:
            if row.is_open:
                if changes:
                    raise Conflict(f"The job {row.name!r} has not ended.", hint="Cancel it first, or wait for it.")
                return row
            if row.state == "succeeded":
                raise Conflict(f"The job {row.name!r} has succeeded.", hint="Start a new one under another name.")
            if row.kind != "run":
                values["failed"] = 0
            if row.kind == "batch":
                jobs.reset_failed(connection, row.id)
            # A new attempt, because it names the workflow, and DBOS does not run one again that has ended.
            cleared = dict.fromkeys(("finished_at", "error_code", "error", "hint", "result"))
            values |= {**cleared, "attempt": row.attempt + 1, "actor": self._retrying_actor(row)}
            changed = jobs.change(connection, row.id, values, states=(row.state,), attempt=row.attempt)
            if changed is None:
                raise Conflict(f"The job {row.name!r} was changed by someone else.", hint="Reload it, then try again.")
            append_event(connection, changed)
            return changed

    def _retrying_actor(self, row: JobRow) -> JsonObject:
        """Return who does a job from now on: whoever started it, without what the actor of the retry may not do."""
        actor, starter = self._context.actor, stored_actor(row.actor)
        if starter.is_person and not actor.is_person:
            raise Refused(
                f"A person started the job {row.name!r}, so only a person can retry it.",
                hint="Start your own job, or ask the person to retry this one.",
            )
        return actor_record(replace(starter, permissions=starter.permissions & actor.permissions))

    def _get(self, job_id: str) -> Job:
        row = self._find(job_id)
        with self._context.resources.records().read() as connection:
            workers = self._count_workers(jobs.list_workers(connection)) if row.is_open else 0
            return to_job(jobs.with_counts(connection, row), workers=workers)

    def _find(self, job_id: str) -> JobRow:
        """Return a job of the actor, or of its organization for an administrator. Raise `NotFound` for all others alike."""
        organization, user = self._scope()
        find = partial(jobs.find, organization_id=organization, user_id=user, name=job_id)
        return find_by_id(self._context, job_id, find, noun="job", listed_by="prowess jobs list")

    def _scope(self) -> tuple[str, str | None]:
        actor = self._context.actor
        actor.require("skills.read")
        return actor.organization, actor.visible_user

    def _count_workers(self, workers: Sequence[tuple[str, str, str]]) -> int:
        silent = seconds_from_now(-DEAD_SECONDS)
        return sum(seen >= silent and not is_process_gone(process) for _, process, seen in workers)


def check_name(name: str) -> str:
    """Return a name that a job may have; raise `Invalid` otherwise."""
    if not SHORTEST_ID <= len(name) <= MAX_NAME_CHARS or not name.isprintable() or name != name.strip():
        raise Invalid(
            f"Invalid name {name[:80]!r} for a job.",
            hint=f"Use {SHORTEST_ID} to {MAX_NAME_CHARS} printable characters.",
        )
    return name


def _identity(row: JobRow) -> tuple[object, ...]:
    request = row.request
    names = ("artifacts", "inputs", "items_hash", "model", "evaluation_model", "task", "parameters")
    return row.kind, row.skill_slug, *(request.get(name) for name in names)


def _plain_inputs(request: RunRequest) -> JsonObject:
    if callable(request.inputs):
        raise Invalid("The inputs of a job must be given when it is started.", hint="Pass an object.")
    return normalize_inputs(request.inputs)


def _hash(lines: Sequence[str]) -> str:
    whole = hashlib.sha256()
    for line in lines:
        whole.update(line.encode("utf-8", "surrogatepass") + b"\n")
    return whole.hexdigest()


def _ended(job: Job) -> Conflict:
    return Conflict(f"The job {job.name!r} has ended: it is {job.state}.", hint=f"See `prowess jobs show {job.name}`.")
