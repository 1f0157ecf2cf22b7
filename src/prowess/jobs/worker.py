"""The worker of a process: DBOS on the right database, a heartbeat, and taking over the jobs of dead workers."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from sqlalchemy.exc import IntegrityError

from prowess.engine.engine import Engine
from prowess.errors import Conflict, ProwessError, Unavailable
from prowess.jobs.execution import CHUNK_ITEMS, Execution
from prowess.jobs.system import SystemDatabase, by_queue
from prowess.storage import jobs
from prowess.storage.clock import now, seconds_from_now
from prowess.storage.database import Connections
from prowess.storage.driver_errors import reading
from prowess.storage.jobs import JobRow
from prowess.threads import offload
from prowess.traces.cleanup import is_process_gone, process_identity

BEAT_SECONDS = 3.0
DEAD_SECONDS = 15.0
"""A worker without a heartbeat for this long is dead. One on this host whose process is gone is dead at once."""

LEASE_SECONDS = 30.0
"""How long a worker has to take over the jobs of a dead one, before another tries."""

WATCH_SECONDS = 1.0
"""How often a worker looks whether its jobs were cancelled."""

CHUNKS_AT_ONCE = 2
"""Chunks of one organization that a worker takes at once: a second one, so that it never waits for the last items of the
first. More would stay with this worker while others have nothing to do."""

JOBS_AT_ONCE = 100
"""Jobs of one organization on a worker. Most of them wait: for their chunks, for a model, or for a person."""

ORGANIZATIONS_AT_ONCE = 10
"""How many organizations can have as many as that at once. Without a share for each, one with many jobs, or with jobs that
wait for a person, would hold up all others."""

POLL_SECONDS = 1.0
"""How often a queue is looked at, which is how late a job may start. Each of four queues costs a few queries: twice a
second, these were two thirds of the CPU time of a server that has nothing to do."""

log = logging.getLogger(__name__)


def require_extra() -> None:
    """Raise `Unavailable` if DBOS is not installed."""
    if find_spec("dbos") is None:
        raise Unavailable("Jobs are not installed.", hint="Install them: pip install 'prowess[jobs]'")


def place_of(workspace: Path) -> str:
    """Return what identifies a workspace on this machine, for jobs whose skill only exists there."""
    identity = f"{os.uname().nodename}\n{os.path.realpath(workspace)}"
    return hashlib.sha256(identity.encode()).hexdigest()[:12]


class JobWorker:
    """Does the jobs of one process. It starts when it is first needed, and there is one in each process.

    DBOS records which steps of a workflow are done. The worker gives it a unique id in each process, because two processes
    with the same id would do the same work, and takes over what dead workers have left, which DBOS itself does not.
    """

    def __init__(
        self,
        engine: Callable[[], Engine],
        *,
        records: Callable[[], Connections],
        wake: Callable[[str], None],
        redact: Callable[[Any], Any],
        url: str,
        workspace: Path,
    ) -> None:
        self.id = ""
        self.place = place_of(workspace)
        self.execution = Execution(engine, records=records, wake=wake, redact=redact)
        self.engine = engine
        self.records = records
        self._url = url
        self._lock: asyncio.Lock | None = None
        self._loops: list[asyncio.Task[None]] = []
        self._doing: dict[str, set[asyncio.Task[Any]]] = defaultdict(set)
        self._system: SystemDatabase | None = None
        self._closing = False
        self._heard: dict[str, tuple[str, float]] = {}
        """The last heartbeat of each worker, and when it came."""

    @property
    def is_running(self) -> bool:
        """True between `start` and `close`."""
        return bool(self.id)

    async def start(self, *, scheduled: bool = False) -> None:
        """Start doing jobs in this process, on this event loop. Does nothing if the worker runs already.

        With `scheduled`, also do what is due at certain times.

        Raise `Unavailable` if the extra is not installed, and `Conflict` if another engine has a worker in this process.
        """
        require_extra()
        self._lock = self._lock or asyncio.Lock()
        async with self._lock:
            if not self.is_running:
                await self._start()
            if scheduled:
                from prowess.jobs.workflows import apply_schedules

                await apply_schedules()

    async def close(self) -> None:
        """Stop. What was being done is left to other workers, or to the next start."""
        if not self.is_running:
            return
        from dbos import DBOS

        from prowess.jobs.workflows import deactivate

        # Before the tasks are cancelled: DBOS may still start a workflow, and `doing` cancels that one.
        self._closing = True
        tasks = [*self._loops, *(task for tasks in self._doing.values() for task in tasks)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        # DBOS has made its own thread pool that of the event loop, and ends it now.
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(thread_name_prefix="asyncio"))
        await offload(DBOS.destroy)
        deactivate()
        # Only now that DBOS has stopped: it could take what is handed back from the queues again.
        if self._system is not None:
            with suppress(ProwessError):
                await offload(self._leave, self._system)
            self._system.close()
        self.id, self._loops, self._closing, self._system = "", [], False, None

    def queue(self, kind: str, place: str) -> str:
        """Return the name of a queue: that of one workspace, or the one that all workers share."""
        return f"prowess-{kind}-{place}" if place else f"prowess-{kind}"

    @contextmanager
    def doing(self, attempt: str) -> Generator[None]:
        """Let the task of a workflow be cancelled together with an attempt. Cancel at once if the worker is closing.

        `attempt` is the id that `workflow_id` returns.
        """
        task = asyncio.current_task()
        if self._closing or task is None:
            raise asyncio.CancelledError
        self._doing[attempt].add(task)
        try:
            yield
        finally:
            self._doing[attempt].discard(task)
            if not self._doing[attempt]:
                del self._doing[attempt]

    async def hand_over(self, job: JobRow) -> None:
        """Hand a job to the workers. Does nothing if this attempt was handed over before, and has not ended.

        A new attempt of a run keeps the steps which succeeded in the attempt before.
        """
        await self.start()
        await self._hand_over(job)

    async def _hand_over(self, job: JobRow) -> None:
        from dbos import DBOS, SetEnqueueOptions, SetWorkflowID

        from prowess.jobs.workflows import WORKFLOWS

        with reading(f"The job {job.name!r}"):
            workflow = WORKFLOWS[job.kind]
        attempts = await DBOS.list_workflows_async(
            workflow_id_prefix=f"{job.id}.",
            name=[f"prowess_{kind}" for kind in WORKFLOWS],
            load_input=False,
            load_output=False,
        )
        states = {int(one.workflow_id.rpartition(".")[2]): one.status for one in attempts}
        if job.attempt in states:
            if states[job.attempt] in ("ENQUEUED", "PENDING"):
                return
            # The job has not ended, but its workflow has: the job was restored from a backup.
            renumbered = await offload(self._renumber, job, max(states) + 1)
            if renumbered is None:
                return
            job = renumbered
        queue, share = self.queue("jobs", job.place), job.organization_id
        before = workflow_id(job, attempt=job.attempt - 1)
        first = await _first_step(before) if job.kind == "run" and job.attempt - 1 in states else 1
        with SetWorkflowID(workflow_id(job)):
            if first > 1:
                with suppress(IntegrityError):  # another process has handed it over in the meantime
                    await DBOS.fork_workflow_async(before, first, queue_name=queue, queue_partition_key=share)
            else:
                with SetEnqueueOptions(queue_partition_key=share):
                    await DBOS.enqueue_workflow_async(queue, workflow, job.id)

    def _renumber(self, job: JobRow, attempt: int) -> JobRow | None:
        """Give a job the number of another attempt and return it; None if it has ended in the meantime."""
        values = {"attempt": attempt, "state": "queued", "queued_at": now(), "approval_id": None}
        with self.records().write() as connection:
            return jobs.change(connection, job.id, values, states=jobs.OPEN, attempt=job.attempt)

    async def cancel(self, job: JobRow) -> None:
        """Cancel the workflows of a job that has been marked as cancelled."""
        from dbos import DBOS

        await self.start()
        await DBOS.cancel_workflow_async(workflow_id(job), cancel_children=True)
        self._cancel_tasks(workflow_id(job))

    async def plan_chunks(self, job_id: str) -> list[int]:
        """Return the first position of each chunk that has an item to do."""

        def read() -> list[int]:
            with self.records().read() as connection:
                return jobs.list_unfinished_ranges(connection, job_id, CHUNK_ITEMS)

        return await offload(read)

    async def _start(self) -> None:
        from prowess.jobs import workflows

        if workflows.active_worker() is not None:
            raise Conflict("Another engine of this process has a worker for jobs.", hint="Close it first.")
        from dbos import DBOS

        worker_id = f"worker-{uuid.uuid4().hex[:12]}"
        await offload(self._join, worker_id)
        self._system = SystemDatabase(self._url)
        own = [self.queue(kind, place) for kind in ("jobs", "chunks") for place in ("", self.place)]
        try:
            DBOS(config=self._system.config(worker_id, workflows.VERSION))
            DBOS.listen_queues(own)
            with ExitStack() as stack:
                await offload(stack.enter_context, self._system.lock())
                # Not in a thread: DBOS runs workflows on the event loop from which it is launched, where the engine lives.
                DBOS.launch()
        except Exception as error:
            await offload(DBOS.destroy)
            await offload(self._forget_worker, worker_id)
            raise Unavailable(
                f"The records of jobs cannot be opened: {type(error).__name__}.",
                hint="Check that the database can be reached and written to.",
            ) from error
        self.id = worker_id
        workflows.activate(self)
        for place in ("", self.place):
            for kind, most in (("jobs", JOBS_AT_ONCE), ("chunks", CHUNKS_AT_ONCE)):
                await DBOS.register_queue_async(
                    self.queue(kind, place),
                    worker_concurrency=most * ORGANIZATIONS_AT_ONCE,
                    partition_worker_concurrency=most,
                    polling_interval_sec=POLL_SECONDS,
                )
        await offload(self._system.share_older, own)
        await self._take_over()
        self._loops = [asyncio.create_task(self._beat()), asyncio.create_task(self._watch())]

    async def _beat(self) -> None:
        """Show that the worker is alive, and take over the jobs of those that are not."""
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            try:
                await self._take_over()
            except ProwessError as error:
                log.warning("Failed to check the jobs of other workers: %s", error)
            except Exception:
                log.exception("Failed to check the jobs of other workers.")

    async def _watch(self) -> None:
        """Cancel the tasks of jobs that were cancelled, or that another worker has started again."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            if doing := list(self._doing):
                with suppress(ProwessError):
                    current = await offload(self._list_current, doing)
                    for attempt in doing:
                        if attempt not in current:
                            self._cancel_tasks(attempt)

    def _cancel_tasks(self, attempt: str) -> None:
        for task in list(self._doing.get(attempt, ())):
            task.cancel()

    async def _take_over(self) -> None:
        """Send a heartbeat; hand the unfinished workflows of dead workers back to their queues."""
        if not await offload(self._show_life):
            # Others believed that this worker was dead, and took its workflows. It may have got some of them again since.
            tasks = [task for tasks in self._doing.values() for task in tasks]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await _hand_back(self.id)
        for dead in await offload(self._claim_dead):
            await _hand_back(dead)
            await offload(self._forget_worker, dead)
        for job in await offload(self._list_lost):
            await self._hand_over(job)  # not `hand_over`, which would wait for the start that this is a part of

    def _join(self, worker_id: str) -> None:
        with self.records().write() as connection:
            jobs.add_worker(connection, worker_id, process=process_identity(), place=self.place)

    def _show_life(self) -> bool:
        with self.records().write() as connection:
            if jobs.beat(connection, self.id):
                return True
            jobs.add_worker(connection, self.id, process=process_identity(), place=self.place)
            return False

    def _claim_dead(self) -> list[str]:
        with self.records().read() as connection:
            workers = jobs.list_workers(connection)
        # How long a heartbeat has not changed counts, not its time: the clocks of two machines differ, and are set.
        moment, last = time.monotonic(), self._heard
        self._heard = {
            one: last[one] if seen == last.get(one, ("",))[0] else (seen, moment) for one, _, seen in workers
        }
        silent = {worker for worker, (_, since) in self._heard.items() if since <= moment - DEAD_SECONDS}
        dead = [one for one, process, _ in workers if one != self.id and (one in silent or is_process_gone(process))]
        if not dead:
            return []
        with self.records().write() as connection:
            # Several workers may find the same dead one. The claim lets only one of them take over its jobs.
            return [
                worker_id for worker_id in dead if jobs.claim_worker(connection, worker_id, lease_seconds=LEASE_SECONDS)
            ]

    def _forget_worker(self, worker_id: str) -> None:
        with self.records().write() as connection:
            jobs.remove_worker(connection, worker_id)

    def _list_lost(self) -> list[JobRow]:
        """Return jobs that were stored but never handed over, because their process died in between."""
        with self.records().read() as connection:
            # Not a job that was stored just now: the process that stored it is about to hand it over.
            return jobs.list_lost(connection, places=("", self.place), before=seconds_from_now(-LEASE_SECONDS))

    def _list_current(self, attempts: Sequence[str]) -> set[str]:
        """Return those of these attempts that were neither cancelled nor followed by another one."""
        with self.records().read() as connection:
            present = jobs.read_attempts(connection, [attempt.partition(".")[0] for attempt in attempts])
        return {f"{job_id}.{attempt}" for job_id, attempt in present.items()}

    def _leave(self, system: SystemDatabase) -> None:
        """Hand what this worker was doing back to the queues, so that others need not wait until it counts as dead."""
        pending = system.hand_back(self.id)
        with self.records().write() as connection:
            jobs.requeue(connection, [one.partition(".")[0] for one in pending])
            jobs.remove_worker(connection, self.id)


async def _hand_back(worker_id: str) -> None:
    """Hand what a worker has started and not ended back to the queues."""
    from dbos import DBOS

    pending = await DBOS.list_workflows_async(
        status="PENDING", executor_id=worker_id, load_input=False, load_output=False
    )
    for queue, ids in by_queue(pending).items():
        await DBOS.resume_workflows_async(ids, queue_name=queue)


def workflow_id(job: JobRow, *, attempt: int = 0) -> str:
    """Return the id of the workflow of an attempt."""
    return f"{job.id}.{attempt or job.attempt}"


async def _first_step(before: str) -> int:
    """Return the step with which a run continues: the one that failed in the attempt before, or was not done."""
    from dbos import DBOS

    steps = await DBOS.list_workflow_steps_async(before)
    numbers = [step["function_id"] for step in steps]
    failed = [step["function_id"] for step in steps if _has_failed(step["output"])]
    return min(failed) if failed else max(numbers, default=0) + 1


def _has_failed(output: Any) -> bool:
    if not isinstance(output, dict):
        return True
    parts: list[dict[str, Any]] = cast("dict[str, Any]", output).get("parts", [])
    return any(part.get("error") for part in parts[-1:])
