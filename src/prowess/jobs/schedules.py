"""Work that is due at certain times. On a shared database, one of all workers does it each time."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from dbos import DBOS, ScheduleInput

from prowess.errors import ProwessError
from prowess.jobs import workflows
from prowess.storage import jobs
from prowess.storage.clock import seconds_from_now
from prowess.storage.jobs import JobRow
from prowess.threads import offload

if TYPE_CHECKING:
    from prowess.jobs.worker import JobWorker

JOB_DAYS = 30
"""How long a job is kept after its end."""

log = logging.getLogger(__name__)


@DBOS.workflow(name="prowess_scheduled")
async def scheduled_workflow(_: datetime, task: Any) -> None:
    """Do a task that is due. A failure is logged: the next time may succeed."""
    worker = workflows.active_worker()
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
    """Compare the live runs of approved optimisations with those before, and roll back what regressed."""
    from prowess.authoring.optimize.watch import watch_approved

    await watch_approved(worker.engine())


async def _reoptimize(worker: JobWorker) -> None:
    """Optimise the modules again whose state another version of DSPy made."""
    from prowess.authoring.optimize.optimizations import Optimizations

    await Optimizations(worker.engine()).refresh()


async def prune(worker: JobWorker) -> None:
    """Delete old records of all organizations, jobs that ended long ago, and the workflows of both and of schedules."""
    await worker.engine().clean_up()
    before = seconds_from_now(-JOB_DAYS * 86_400)

    def list_old() -> list[JobRow]:
        with worker.records().read() as connection:
            return jobs.list_ended_before(connection, before, 100)

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
        await DBOS.delete_workflows_async([one.workflow_id for one in done])


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
    wanted = [
        ScheduleInput(schedule_name=f"prowess-{task}", workflow_fn=scheduled_workflow, schedule=times, context=task)
        for task, times in SCHEDULES
    ]
    await DBOS.apply_schedules_async(wanted)
