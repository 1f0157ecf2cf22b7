"""Do jobs: start them, wait for approvals, run their artifacts or items, and record how they end.

A worker calls this inside the workflows of DBOS, which start a method again after a crash. Everything here may therefore
happen twice up to the point where it is recorded: a step by DBOS, an item by its row.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import sqlalchemy as sa

from prowess.authoring.task import TaskProgress
from prowess.engine.engine import Engine
from prowess.errors import (
    ApprovalDenied,
    ApprovalRequired,
    Conflict,
    Invalid,
    NoModel,
    NotFound,
    ProwessError,
    Refused,
    RunFailed,
    Unavailable,
)
from prowess.jobs.job import change_job, stored_request
from prowess.jobs.tasks import find_task
from prowess.policy.actor import stored_actor
from prowess.policy.people import current_actor
from prowess.run.request import RunRequest, StepJournal
from prowess.run.result import RunResult
from prowess.skill.kinds import JsonObject
from prowess.storage import jobs
from prowess.storage.clock import now
from prowess.storage.database import Connections
from prowess.storage.jobs import JobRow
from prowess.threads import offload, offload_to_completion

CHUNK_ITEMS = 50
"""Items that one worker takes at a time. After a crash, only those of them that have no result yet run again."""

APPROVAL_SECONDS = 3600.0
"""How long one wait for an approval takes. Then the request is looked at again; a job waits as long as it is pending."""

PROGRESS_SECONDS = 1.0
"""How often the progress of a task is stored."""

AWAY_SECONDS, AWAY_TIMES = 2.0, 300
"""How long a job waits before it tries again to reach a database that is away, and how often."""

_STOPPING = (Refused, Conflict, NotFound, NoModel)
"""Errors that every further item would have too: a spending limit, a skill that changed, no model, a withdrawn approval."""

log = logging.getLogger(__name__)

T = TypeVar("T")


class _Progress:
    """The newest progress of a task."""

    def __init__(self) -> None:
        self.is_new = False
        self._last: TaskProgress | None = None

    def hear(self, progress: TaskProgress) -> None:
        """Keep progress. A task may call this thousands of times a second."""
        self._last, self.is_new = progress, True

    def values(self) -> JsonObject:
        """Return the columns of a job that show it."""
        return {} if self._last is None else asdict(self._last)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _EndedItem:
    """An item of a batch that has ended, and whose result is to be stored. Each is equal only to itself."""

    job_id: str
    position: int
    failed: bool
    cost: float | None
    result: str


class Execution:
    """Does jobs with an engine. `redact` removes secrets from results before they are stored."""

    def __init__(
        self,
        engine: Callable[[], Engine],
        *,
        records: Callable[[], Connections],
        wake: Callable[[str], None],
        redact: Callable[[Any], Any],
    ) -> None:
        self._engine = engine
        self._records = records
        self._wake = wake
        self._redact = redact
        # Shared by the chunks of an attempt: `concurrency` limits a worker, not each chunk.
        self._slots: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._ended: list[_EndedItem] = []
        self._storing = asyncio.Lock()

    async def run(self, job_id: str, attempt: int, journal: StepJournal) -> None:
        """Run a skill, with each artifact as a step of the journal."""

        async def work(job: JobRow, engine: Engine) -> None:
            request = stored_request(job, None, run_id=job.id)
            request = replace(request, journal=self._counting(job, journal))
            await self._admit(job, engine, request)
            result = await engine.runs.attempt(request)
            await self._end_run(job, result)

        await self._guard(job_id, attempt, work)

    async def task(self, job_id: str, attempt: int) -> None:
        """Do a task of authoring, and store its progress about every second."""

        async def work(job: JobRow, engine: Engine) -> None:
            progress, do = _Progress(), find_task(job.request["task"])

            async def do_task() -> JsonObject:
                return await do(engine, job.id, job.request["parameters"], progress.hear)

            storing = asyncio.create_task(self._store_progress(job, progress))
            try:
                result = await self._with_approval(job, engine, do_task)
            except ProwessError:
                await self._change(job.id, job.attempt, progress.values())
                raise
            finally:
                storing.cancel()
                await asyncio.gather(storing, return_exceptions=True)
            await self._finish(job, "succeeded", None, {**progress.values(), "result": self._redact(result)})

        await self._guard(job_id, attempt, work)

    async def batch(self, job_id: str, attempt: int, do_chunks: Callable[[JobRow], Awaitable[None]]) -> None:
        """Run a skill for each item. `do_chunks` returns when all chunks have ended, on this worker or others."""

        async def work(job: JobRow, engine: Engine) -> None:
            for _, text in await self._pending(job.id, 0, job.total):
                with suppress(Invalid):  # the inputs of one item are wrong, which is the result of that item
                    await self._admit(job, engine, stored_request(job, json.loads(text), run_id=job.id))
                    break
            await do_chunks(job)
            await self._end_batch(job)

        await self._guard(job_id, attempt, work)

    async def chunk(self, job_id: str, attempt: int, first: int) -> None:
        """Run the items of one chunk that have no result yet, as many at once as the job allows on one worker."""
        job = await offload(self._read, lambda connection: jobs.get(connection, job_id))
        # Not only if it is running: after an interruption, a chunk may start before the job itself does.
        if job is None or job.attempt != attempt or not job.is_open:
            return
        engine = await self._acting(job)
        slots = self._slots.setdefault(f"{job_id}.{attempt}", asyncio.Semaphore(int(job.request["concurrency"])))
        stopped: list[ProwessError] = []

        async def do(position: int, text: str) -> None:
            async with slots:
                if not stopped:
                    await self._do_item(job, engine, position, text, stopped)

        pending = await self._pending(job_id, first, CHUNK_ITEMS)
        try:
            async with asyncio.TaskGroup() as group:
                for position, text in pending:
                    group.create_task(do(position, text))
        except* ProwessError as errors:
            stopped.append(_first(errors))  # the records cannot be written: the reaper or a retry tries the chunk again
        if stopped:
            await self._finish(job, "stopped", stopped[0])
        else:
            await offload(self._publish_counts, job)

    async def _pending(self, job_id: str, first: int, count: int) -> list[tuple[int, str]]:
        """Return the position and input of at most one chunk of items in a range that have no result yet."""
        read = partial(jobs.read_pending, job_id=job_id, first=first, count=count, limit=CHUNK_ITEMS)
        return await offload(self._read, read)

    async def _do_item(
        self, job: JobRow, engine: Engine, position: int, text: str, stopped: list[ProwessError]
    ) -> None:
        run_id = str(uuid.uuid5(uuid.UUID(job.id), str(position)))  # the same when it runs again after a crash
        began = time.perf_counter()
        result_row: JsonObject = {"index": position, "run_id": run_id, "ok": False, "output": None, "error": None}
        cost: float | None = None
        try:
            result = await engine.runs.attempt(stored_request(job, json.loads(text), run_id=run_id))
            error, cost = result.error, result.cost
            result_row |= {"ok": result.ok, "output": None if result.output is None else result.output.value}
            result_row["traces"] = [part.trace for part in result.parts]
        except ProwessError as raised:
            error = raised
        if isinstance(error, _STOPPING):
            stopped.append(error)  # the item stays pending, so that a retry of the job runs it
            return
        if error is not None:
            result_row["error"] = error.without_location().as_json()
        result_row |= {"cost_usd": cost, "duration_ms": round((time.perf_counter() - began) * 1000)}
        line = json.dumps(self._redact(result_row), ensure_ascii=False)
        await self._store_item(
            _EndedItem(job_id=job.id, position=position, failed=error is not None, cost=cost, result=line)
        )

    async def _store_item(self, item: _EndedItem) -> None:
        """Store the result of an item, together with those that ended while the previous write was in progress.

        One transaction for each item would cost most of what a batch costs: on SQLite, writers wait for each other.
        """
        self._ended.append(item)
        async with self._storing:
            if item not in self._ended:
                return  # whoever had the lock before has stored it
            batch, self._ended = self._ended, []

            def write(connection: sa.Connection) -> None:
                for row in batch:
                    jobs.finish_item(
                        connection, row.job_id, row.position, failed=row.failed, cost=row.cost, result=row.result
                    )

            try:
                await offload_to_completion(self._write, write)
            except ProwessError:
                self._ended = batch + self._ended  # the others try it themselves, and get the error if it fails again
                raise

    async def _guard(self, job_id: str, attempt: int, work: Callable[[JobRow, Engine], Awaitable[None]]) -> None:
        """Start a job, do the work, and record an error that ends it. Do nothing if the job has ended already."""
        began = sa.func.coalesce(jobs.jobs.c.started_at, now())  # a restart keeps the time of the first start
        values = {"state": "running", "approval_id": None, "started_at": began}
        job = await when_back(partial(self._change, job_id, attempt, values))
        if job is None:
            return
        try:
            await work(job, await self._acting(job))
        except ProwessError as error:
            failure = error
        except Exception as error:
            log.exception("The job %s failed.", job_id)
            hint = "This is a bug in Prowess. The log has the traceback."
            failure = ProwessError(f"The job failed: {type(error).__name__}.", hint=hint)
        else:
            return
        await when_back(partial(self._finish, job, "failed", failure))

    async def _acting(self, job: JobRow) -> Engine:
        """Return the engine of whoever started the job, with the permissions that they still have."""
        actor = await offload(self._read, lambda connection: current_actor(connection, stored_actor(job.actor)))
        return self._engine().as_actor(actor)

    async def _admit(self, job: JobRow, engine: Engine, request: RunRequest) -> None:
        """Pass the gate; if a person has to approve first, wait for the answer."""

        async def admit() -> None:
            await engine.runs.admit(request)

        await self._with_approval(job, engine, admit)

    async def _with_approval(self, job: JobRow, engine: Engine, work: Callable[[], Awaitable[T]]) -> T:
        """Do work; if a person has to approve it first, wait for the answer, which may come from another process.

        The wait needs no record of its own: the request is in the database, and a job that is started again waits again.
        """
        while True:
            try:
                return await work()
            except ApprovalRequired as asked:
                await self._change(job.id, job.attempt, {"state": "waiting", "approval_id": asked.approval_id})
                answer = await engine.approvals.wait(asked.approval_id, seconds=APPROVAL_SECONDS)
                if answer.state == "pending":
                    continue
                await self._change(job.id, job.attempt, {"state": "running", "approval_id": None})
                if answer.state != "approved":
                    raise ApprovalDenied(
                        f"The approval that the job waited for was not given: it is {answer.state}.",
                        hint=f"`prowess jobs retry {job.name}` asks again.",
                    ) from None
                # The answer may have taken days.
                if (await self._acting(job)).actor.permissions != engine.actor.permissions:
                    raise Refused(
                        "The permissions of the user have changed while the job waited.",
                        hint=f"`prowess jobs retry {job.name}` runs it with the current permissions.",
                    ) from None

    async def _store_progress(self, job: JobRow, progress: _Progress) -> None:
        """Store new progress until this is cancelled."""
        while True:
            await asyncio.sleep(PROGRESS_SECONDS)
            if progress.is_new:
                progress.is_new = False
                with suppress(ProwessError):  # the next one may succeed
                    await self._change(job.id, job.attempt, progress.values())

    def _counting(self, job: JobRow, journal: StepJournal) -> StepJournal:
        """Return a journal that also counts the artifacts that have run."""
        done = 0

        async def count(name: str, work: Callable[[], Awaitable[JsonObject]]) -> JsonObject:
            nonlocal done
            record = await journal(name, work)
            if not any(part["error"] for part in record["parts"][-1:]):
                done += 1
                await self._change(job.id, job.attempt, {"done": done})
            return record

        return count

    async def _end_run(self, job: JobRow, result: RunResult) -> None:
        values: JsonObject = {"cost": result.cost, "result": self._redact(result.as_json())}
        await self._finish(job, "failed" if result.error else "succeeded", result.error, values)

    async def _end_batch(self, job: JobRow) -> None:
        counts = await offload(self._read, lambda connection: jobs.count_items(connection, job.id))
        values: JsonObject = {"done": counts.done, "failed": counts.failed, "cost": counts.cost}
        left = job.total - counts.done - counts.failed
        state, error = "succeeded", None
        if left or counts.failed:
            state = "stopped" if left else "failed"
            what = "were not processed" if left else "failed"
            many = f"{left or counts.failed:,} of {job.total:,} items {what}."
            error = RunFailed(many, hint=f"`prowess jobs retry {job.name}` runs them again.")
        await self._finish(job, state, error, values)

    async def _finish(
        self, job: JobRow, state: str, error: ProwessError | None, values: Mapping[str, Any] | None = None
    ) -> None:
        error = error and error.without_location()
        if values is None and job.kind == "batch":
            counts = await offload(self._read, lambda connection: jobs.count_items(connection, job.id))
            values = {"done": counts.done, "failed": counts.failed, "cost": counts.cost}
        await self._change(
            job.id,
            job.attempt,
            {
                **(values or {}),
                "state": state,
                "approval_id": None,
                "finished_at": now(),
                "error_code": error.code if error else None,
                "error": self._redact(error.message) if error else None,
                "hint": error.hint if error else None,
            },
        )

    async def _change(self, job_id: str, attempt: int, values: Mapping[str, Any]) -> JobRow | None:
        """Change a job that has not ended, and publish that; return None if it has ended, or nothing is to be changed."""
        if not values:
            return None
        changed = await offload(self._write, lambda connection: change_job(connection, job_id, values, attempt=attempt))
        if changed is not None:
            self._wake(changed.organization_id)
        return changed

    def _publish_counts(self, job: JobRow) -> None:
        """Store how far a batch is, and publish it."""
        counts = self._read(lambda connection: jobs.count_items(connection, job.id))
        values = {"done": counts.done, "failed": counts.failed, "cost": counts.cost}
        if self._write(lambda connection: change_job(connection, job.id, values, attempt=job.attempt)) is not None:
            self._wake(job.organization_id)

    def _read(self, work: Callable[[sa.Connection], T]) -> T:
        with self._records().read() as connection:
            return work(connection)

    def _write(self, work: Callable[[sa.Connection], T]) -> T:
        with self._records().write() as connection:
            return work(connection)


async def when_back(work: Callable[[], Awaitable[T]]) -> T:
    """Do what needs the database as soon as it answers: a workflow that fails ends for good, and its job never."""
    for _ in range(AWAY_TIMES):
        try:
            return await work()
        except Unavailable as error:
            log.warning("A job waits for the database: %s", error)
            await asyncio.sleep(AWAY_SECONDS)
    return await work()


def _first(errors: BaseExceptionGroup[ProwessError]) -> ProwessError:
    found = errors.exceptions[0]
    return _first(found) if isinstance(found, BaseExceptionGroup) else found
