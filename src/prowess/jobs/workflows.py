"""The workflows that DBOS records and starts again after a crash, and those of work that is due at certain times.

Their names and steps must stay compatible. On a shared database, one of all workers does what is due.

Importing this module imports DBOS, which takes half a second; only a worker does.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from dbos import DBOS, ScheduleInput, SetEnqueueOptions, SetWorkflowID

from prowess.errors import ProwessError
from prowess.jobs.execution import when_back
from prowess.skill.kinds import JsonObject
from prowess.storage import jobs
from prowess.storage.clock import seconds_from_now
from prowess.storage.jobs import JobRow
from prowess.threads import offload

if TYPE_CHECKING:
    from prowess.jobs.worker import JobWorker

VERSION = "1"
"""The version of the workflows. Raise it when recorded steps of an older version can no longer be replayed.

DBOS would otherwise use a hash of the source, and not continue a waiting job after any change to it.
"""

RESULT_SECONDS = 0.25
"""How often a batch looks whether its next chunk has ended."""

JOB_DAYS = 30
"""How long a job is kept after its end."""

log = logging.getLogger(__name__)

_active: list[JobWorker] = []


def activate(worker: JobWorker) -> None:
    """Make a worker the one that workflows of this process run on. DBOS has one state for the whole process."""
    _active[:] = [worker]


def deactivate() -> None:
    """Forget the worker."""
    _active.clear()


def active_worker() -> JobWorker | None:
    """Return the worker of this process."""
    return _active[0] if _active else None


def _worker() -> JobWorker:
    return _active[0]


def _read_attempt() -> int:
    """Return the attempt that the id of this workflow names; see `worker.workflow_id`."""
    return int((DBOS.workflow_id or "").rpartition(".")[2])


@DBOS.workflow(name="prowess_run")
async def run_workflow(job_id: str) -> None:
    """Run a skill with one step for each artifact."""
    # Not an argument: a retry is a fork, which has the arguments of the attempt before.
    attempt = _read_attempt()

    async def journal(name: str, work: Callable[[], Awaitable[JsonObject]]) -> JsonObject:
        async def step() -> JsonObject:
            return await work()

        return await DBOS.run_step_async({"name": name}, step)

    with _worker().doing(DBOS.workflow_id or ""):
        await _worker().execution.run(job_id, attempt, journal)


@DBOS.workflow(name="prowess_batch")
async def batch_workflow(job_id: str) -> None:
    """Hand the items of a batch to the workers, in chunks, and wait for all of them."""
    attempt = _read_attempt()

    async def do_chunks(job: JobRow) -> None:
        async def plan() -> list[int]:
            return await _worker().plan_chunks(job.id)

        # The plan is recorded: after a crash fewer items are left, but the same chunks must be waited for.
        starts: list[int] = await DBOS.run_step_async({"name": "plan"}, plan)
        handles: list[Any] = []
        for first in starts:
            name = f"{job_id}.{attempt}.{first}"
            with SetWorkflowID(name), SetEnqueueOptions(queue_partition_key=job.organization_id):
                queue = _worker().queue("chunks", job.place)
                handles.append(await DBOS.enqueue_workflow_async(queue, chunk_workflow, job_id, attempt, first))
        for handle in handles:
            await handle.get_result(polling_interval_sec=RESULT_SECONDS)

    with _worker().doing(DBOS.workflow_id or ""):
        await _worker().execution.batch(job_id, attempt, do_chunks)


@DBOS.workflow(name="prowess_chunk")
async def chunk_workflow(job_id: str, attempt: int, first: int) -> None:
    """Run the items of one chunk. Each has its own record, so that no step is needed."""
    with _worker().doing(f"{job_id}.{attempt}"):
        await when_back(partial(_worker().execution.chunk, job_id, attempt, first))


@DBOS.workflow(name="prowess_task")
async def task_workflow(job_id: str) -> None:
    """Do a task of authoring. It stores its own steps, so that none is needed here."""
    with _worker().doing(DBOS.workflow_id or ""):
        await _worker().execution.task(job_id, _read_attempt())


WORKFLOWS = {"run": run_workflow, "batch": batch_workflow, "task": task_workflow}


@DBOS.workflow(name="prowess_scheduled")
async def scheduled_workflow(_: datetime, task: Any) -> None:
    """Do a task that is due. A failure is logged: the next time may succeed."""
    worker = active_worker()
    if worker is None:
        return
    try:
        await _TASKS[str(task)](worker)
    except ProwessError as error:
        log.warning("The scheduled task %s failed: %s", task, error)


async def _sync_sources(worker: JobWorker) -> None:
    """Sync the sources that are due, of all organizations."""
    await worker.engine().sources.sync_due()


async def _sync_marketplace(worker: JobWorker) -> None:
    """Sync the skills of the marketplace."""
    await worker.engine().marketplace.sync()


async def _watch_optimizations(worker: JobWorker) -> None:
    """Compare the live runs of approved optimizations with those before, and roll back what regressed."""
    from prowess.authoring.optimize.watch import watch_approved

    await watch_approved(worker.engine())


async def _reoptimize(worker: JobWorker) -> None:
    """Optimize the modules again whose state another version of DSPy made."""
    from prowess.authoring.optimize.optimizations import Optimizations

    await Optimizations(worker.engine()).refresh()


async def prune(worker: JobWorker) -> None:
    """Delete old records of all organizations, jobs that ended long ago, and the workflows of both and of schedules."""
    await worker.engine().clean_up()
    before = seconds_from_now(-JOB_DAYS * 86_400)

    def list_old() -> list[JobRow]:
        with worker.records().read() as connection:
            return jobs.list_ended_before(connection, before)

    def remove(job_ids: list[str]) -> None:
        with worker.records().write() as connection:
            jobs.remove(connection, job_ids)

    while old := await offload(list_old):
        attempts = [f"{job.id}.{attempt}" for job in old for attempt in range(1, job.attempt + 1)]
        await DBOS.delete_workflows_async(attempts, delete_children=True)
        await offload(remove, [job.id for job in old])
    done = await DBOS.list_workflows_async(
        name="prowess_scheduled", completed_before=seconds_from_now(-86_400), load_input=False, load_output=False
    )
    if done:
        await DBOS.delete_workflows_async([workflow.workflow_id for workflow in done])


_TASKS: Mapping[str, Callable[[JobWorker], Awaitable[None]]] = {
    "retention": prune,
    "sources": _sync_sources,
    "marketplace": _sync_marketplace,
    "optimizations": _watch_optimizations,
    "reoptimize": _reoptimize,
}

SCHEDULES: tuple[tuple[str, str], ...] = (
    ("retention", "23 * * * *"),
    ("sources", "*/5 * * * *"),
    ("marketplace", "41 * * * *"),
    ("optimizations", "*/5 * * * *"),
    ("reoptimize", "53 * * * *"),
)
"""Each task, with the times at which it is due, in UTC."""


async def apply_schedules() -> None:
    """Make the schedules known to all workers of the database."""
    stale = [
        ScheduleInput(schedule_name=f"prowess-{task}", workflow_fn=scheduled_workflow, schedule=times, context=task)
        for task, times in SCHEDULES
    ]
    await DBOS.apply_schedules_async(stale)
