"""The workflows that DBOS records and starts again after a crash. Their names and steps must stay compatible.

Importing this module imports DBOS, which takes half a second; only a worker does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from dbos import DBOS, SetWorkflowID

from prowess.skill.kinds import JsonObject
from prowess.storage.jobs import JobRow

if TYPE_CHECKING:
    from prowess.jobs.worker import JobWorker

VERSION = "1"
"""The version of the workflows. Raise it when recorded steps of an older version can no longer be replayed.

DBOS would otherwise use a hash of the source, and not continue a waiting job after any change to it.
"""

RESULT_SECONDS = 0.25
"""How often a batch looks whether its next chunk has ended."""

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

    with _worker().doing(job_id):
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
            with SetWorkflowID(f"{job_id}.{attempt}.{first}"):
                queue = _worker().queue("chunks", job.place)
                handles.append(await DBOS.enqueue_workflow_async(queue, chunk_workflow, job_id, attempt, first))
        for handle in handles:
            await handle.get_result(polling_interval_sec=RESULT_SECONDS)

    with _worker().doing(job_id):
        await _worker().execution.batch(job_id, attempt, do_chunks)


@DBOS.workflow(name="prowess_chunk")
async def chunk_workflow(job_id: str, attempt: int, first: int) -> None:
    """Run the items of one chunk. Each has its own record, so that no step is needed."""
    with _worker().doing(job_id):
        await _worker().execution.chunk(job_id, attempt, first)


@DBOS.workflow(name="prowess_task")
async def task_workflow(job_id: str) -> None:
    """Do a task of authoring. It stores its own steps, so that none is needed here."""
    with _worker().doing(job_id):
        await _worker().execution.task(job_id, _read_attempt())


WORKFLOWS = {"run": run_workflow, "batch": batch_workflow, "task": task_workflow}
