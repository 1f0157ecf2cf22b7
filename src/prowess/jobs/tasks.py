"""The tasks of authoring that can be durable jobs, by name.

A task takes an engine of the person who started it, the id of its job, its parameters as JSON, and a listener for its
progress, and returns its result as JSON. After a crash or a retry it is called again with the same parameters, so it stores what it must not do
twice. It is cancelled as any coroutine is, with `asyncio.CancelledError`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from prowess.authoring.evals.plan import stored_plan
from prowess.authoring.task import ProgressListener, TaskProgress
from prowess.engine.engine import Engine
from prowess.errors import Invalid
from prowess.skill.kinds import JsonObject
from prowess.storage.driver_errors import reading

if TYPE_CHECKING:
    from prowess.authoring.optimize.proposal import Progress

Task = Callable[[Engine, str, JsonObject, ProgressListener], Awaitable[JsonObject]]


async def _evaluate(engine: Engine, job_id: str, parameters: JsonObject, progress: ProgressListener) -> JsonObject:
    """Run an evaluation by its plan. It has the id of the job, so that a job that was interrupted continues with it."""
    from prowess.authoring.evals.evals import Evals

    plan = stored_plan(f"The plan of the job {job_id[:8]}", parameters)
    run = await Evals(engine.context).run(plan, on_progress=progress, run_id=job_id, exclusive=False)
    return {"run": run.id, "ok": run.ok, "summary": run.summary}


async def _optimize(engine: Engine, job_id: str, parameters: JsonObject, on_progress: ProgressListener) -> JsonObject:
    """Do the optimization with the id `proposal`; `done` and `total` of the job count model calls."""
    from prowess.authoring.optimize.optimizations import Optimizations

    with reading(f"The plan of the job {job_id[:8]}"):
        proposal = str(parameters["proposal"])
    # A job is done by one worker at a time, and may be taken over at once from one that died.
    done = await Optimizations(engine).resume(proposal, on_progress=_count_calls(on_progress), exclusive=False)
    return done.as_json()


async def _reoptimize(engine: Engine, _: str, __: JsonObject, on_progress: ProgressListener) -> JsonObject:
    """Optimize every module again whose state another version of DSPy made, and offer the results as proposals."""
    from prowess.authoring.optimize.optimizations import Optimizations

    done = await Optimizations(engine).refresh(on_progress=_count_calls(on_progress))
    return {"proposals": [one.as_json() for one in done]}


def _count_calls(listener: ProgressListener) -> Callable[[Progress], None]:
    return lambda progress: listener(TaskProgress(total=progress.limit, done=progress.calls, cost=progress.cost))


TASKS: dict[str, Task] = {"eval": _evaluate, "optimize": _optimize, "reoptimize": _reoptimize}
"""Each imports its part when it is called: a worker starts without them."""


def find_task(name: str) -> Task:
    """Return a task by its name; raise `Invalid` if there is none."""
    if name not in TASKS:
        raise Invalid(f"Unknown task {name[:80]!r}.", hint=f"Use one of: {', '.join(sorted(TASKS))}.")
    return TASKS[name]
