"""The tasks of the optimiser that durable jobs do."""

from __future__ import annotations

from collections.abc import Callable

from prowess.authoring.optimize.optimizations import Optimizations
from prowess.authoring.optimize.proposal import Progress
from prowess.authoring.task import ProgressListener, TaskProgress
from prowess.engine.engine import Engine
from prowess.skill.kinds import JsonObject


def _count_calls(listener: ProgressListener) -> Callable[[Progress], None]:
    def receive(progress: Progress) -> None:
        listener(TaskProgress(total=progress.limit, done=progress.calls, cost=progress.cost))

    return receive


async def optimize(engine: Engine, parameters: JsonObject, on_progress: ProgressListener) -> JsonObject:
    """Do the optimisation with the id `proposal`; `done` and `total` of the job count model calls."""
    # A job is done by one worker at a time, and may be taken over at once from one that died.
    done = await Optimizations(engine).resume(
        str(parameters["proposal"]), on_progress=_count_calls(on_progress), exclusive=False
    )
    return done.as_json()


async def reoptimize(engine: Engine, _: JsonObject, on_progress: ProgressListener) -> JsonObject:
    """Optimise every module again whose state another version of DSPy made, and offer the results as proposals."""
    done = await Optimizations(engine).refresh(on_progress=_count_calls(on_progress))
    return {"proposals": [one.as_json() for one in done]}
