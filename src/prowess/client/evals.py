"""Evaluate skills on a server."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, cast

from prowess.client.decode import decode
from prowess.client.jobs import Jobs
from prowess.client.part import Part
from prowess.client.transport import segment
from prowess.errors import ProwessError

if TYPE_CHECKING:
    from prowess.authoring.evals.plan import EvalPlan
    from prowess.authoring.evals.results import EvalRun
    from prowess.authoring.task import ProgressListener
    from prowess.jobs.job import Job


class Evals(Part):
    """The evaluations of the caller; an administrator sees those of the whole organization."""

    async def start(self, plan: EvalPlan, *, name: str = "") -> Job:
        """Start an evaluation as a job, and return the job at once. When it has ended, its `result` has the id as `run`."""
        from prowess.jobs.job import Job

        told = plan.model_dump(mode="json", exclude={"target", "skill"})
        body = {**told, "skill_slug": plan.target, "name": name}
        return decode(Job, await self._transport.post("/evals", body))

    async def run(self, plan: EvalPlan, *, on_progress: ProgressListener | None = None) -> EvalRun:
        """Run all cases of a plan, and return the results. The server goes on if this is cancelled.

        Raise what prevents the evaluation, such as `SpendExceeded`; results that were there by then are kept.
        """
        from prowess.authoring.task import TaskProgress

        def hear(job: Job) -> None:
            if on_progress is not None:
                on_progress(TaskProgress(total=job.total, done=job.done, failed=job.failed, cost=job.cost_usd))

        started = await self.start(plan)
        ended = await Jobs(self._transport).wait(started.id, on_change=hear)
        return await self.get(_result(ended)["run"])

    async def list(self, *, skill: str = "", limit: int = 50) -> list[EvalRun]:
        """Return runs without their results, newest first."""
        given = {"skill": skill} if skill else {}
        return [_decode(one) async for one in self._transport.pages("/evals", most=limit, **given)]

    async def get(self, run: str) -> EvalRun:
        """Return a run with its results, by its id or at least four of its first characters."""
        return _decode(await self._transport.get(f"/evals/{segment(run)}"))

    async def compare(self, before: str, after: str) -> dict[str, Any]:
        """Return the differences between two runs with their intervals and verdicts, on the cases that both have."""
        return await self._transport.get(f"/evals/{segment(after)}/compare/{segment(before)}")


def _result(job: Job) -> dict[str, Any]:
    """Return the result of a job that has ended, or raise its error."""
    from prowess.run.decoding import revive_error

    if job.result is not None:
        return job.result
    if job.error is not None:
        raise revive_error({"code": job.error.code, "message": job.error.message, "hint": job.error.hint})
    raise ProwessError(
        f"The job {job.name!r} is {job.state}.", hint=f"`prowess jobs retry {job.name}` starts it again."
    )


def _decode(value: Any) -> EvalRun:
    from prowess.authoring.evals.results import Arm, EvalRun

    told = cast("dict[str, Any]", value)
    # `name` and `label` of an arm follow from the rest, and so does `ok` of a run.
    known = {one.name for one in fields(Arm)}
    arms = [{name: part for name, part in arm.items() if name in known} for arm in told["arms"]]
    return decode(EvalRun, {**{one.name: told[one.name] for one in fields(EvalRun) if one.name in told}, "arms": arms})
