"""Evaluate, optimize and draft skills on a server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, cast

from prowess.authoring.task import ProgressListener, TaskProgress
from prowess.client.part import Part, decode
from prowess.client.runs import Jobs
from prowess.client.skills import Skills
from prowess.client.transport import segment
from prowess.errors import Invalid, ProwessError, Refused

if TYPE_CHECKING:
    from prowess.authoring.compose.composition import Composition, Round
    from prowess.authoring.evals.plan import EvalPlan
    from prowess.authoring.evals.results import EvalRun
    from prowess.authoring.optimize.optimizations import ProposalDiff
    from prowess.authoring.optimize.proposal import OptimizationRequest, Proposal
    from prowess.jobs.job import Job
    from prowess.skill.model import Scope, Skill
    from prowess.storage.compositions import CompositionState


class Evals(Part):
    """The evaluations of the caller; an administrator sees those of the whole organization."""

    async def start(self, plan: EvalPlan, *, name: str = "") -> Job:
        """Start an evaluation as a job, and return the job at once. When it has ended, its `result` has the id as `run`."""
        from prowess.jobs.job import Job

        options = plan.model_dump(mode="json", exclude={"target", "skill"})
        body = {**options, "skill_slug": plan.target, "name": name}
        return decode(Job, await self._transport.post("/evals", body))

    async def run(self, plan: EvalPlan, *, on_progress: ProgressListener | None = None) -> EvalRun:
        """Run all cases of a plan, and return the results. If this is cancelled, the server continues.

        Raise errors that prevent the evaluation, such as `SpendExceeded`. Results up to then are kept.
        """

        def show(job: Job) -> None:
            if on_progress is not None:
                on_progress(TaskProgress(total=job.total, done=job.done, failed=job.failed, cost=job.cost_usd))

        started = await self.start(plan)
        ended = await Jobs(self._transport).wait(started.id, on_change=show)
        return await self.get(_result(ended)["run"])

    async def list(self, *, skill: str = "", limit: int = 50) -> list[EvalRun]:
        """Return runs without their results, newest first."""
        filters = {"skill": skill} if skill else {}
        return [_decode_run(row) async for row in self._transport.pages("/evals", most=limit, **filters)]

    async def get(self, run: str) -> EvalRun:
        """Return a run with its results, by its id or at least its first four characters."""
        return _decode_run(await self._transport.get(f"/evals/{segment(run)}"))

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


def _decode_run(value: Any) -> EvalRun:
    from prowess.authoring.evals.results import Arm, EvalRun

    payload = cast("dict[str, Any]", value)
    # `name` and `label` of an arm follow from the rest, and so does `ok` of a run.
    known = {item.name for item in fields(Arm)}
    arms = [{name: part for name, part in arm.items() if name in known} for arm in payload["arms"]]
    return decode(
        EvalRun,
        {
            **{item.name: payload[item.name] for item in fields(EvalRun) if item.name in payload},
            "arms": arms,
        },
    )


class Optimizations(Part):
    """The optimizations of the caller; an administrator sees those of the whole organization. The server runs them."""

    async def start(self, request: OptimizationRequest) -> Proposal:
        """Start an optimization as a durable job, and return at once. Nothing changes before a person approves the result."""
        if not isinstance(request.model, str) or not isinstance(request.evaluation_model, str):
            raise Invalid("A server cannot use a model object.", hint="Pass the name of a model.")
        if request.cases:
            raise Invalid("A server cannot read an eval file on this machine.", hint="Put the cases into the skill.")
        shared = ("artifact", "method", "metric", "repeats", "model", "evaluation_model", "template", "traces")
        body = {
            **{name: getattr(request, name) for name in shared},
            "skill_slug": request.skill,
            "budget_usd": request.budget.usd,
            "max_calls": request.budget.calls,
            "minutes": request.budget.minutes,
        }
        return _decode_proposal(await self._transport.post("/optimizations", body))

    async def list(self, *, skill: str = "", states: Sequence[str] = (), limit: int = 50) -> list[Proposal]:
        """Return optimizations, newest first."""
        filters = {"skill": skill} if skill else {}
        filters |= {"state": states[0]} if len(states) == 1 else {}
        most = None if len(states) > 1 else limit
        found = [_decode_proposal(row) async for row in self._transport.pages("/optimizations", most=most, **filters)]
        return [row for row in found if not states or row.state in states][:limit]

    async def get(self, proposal_id: str) -> Proposal:
        """Return an optimization by its id or at least its first four characters, or raise `NotFound`."""
        return _decode_proposal(await self._transport.get(_proposal_path(proposal_id)))

    async def diff(self, proposal_id: str) -> ProposalDiff:
        """Return what a candidate changes. Raise `Refused` for an agent, and `Conflict` if the skill has changed since."""
        from prowess.authoring.optimize.optimizations import ProposalDiff

        return decode(ProposalDiff, await self._transport.get(f"{_proposal_path(proposal_id)}/diff"))

    async def approve(self, proposal_id: str, *, digest: str, note: str = "") -> Proposal:
        """Make the candidate with this digest a new version of the skill. Raise `Refused` for an agent."""
        return _decode_proposal(
            await self._transport.post(f"{_proposal_path(proposal_id)}/approve", {"digest": digest, "note": note})
        )

    async def reject(self, proposal_id: str, *, note: str = "") -> Proposal:
        """Reject a proposal. Raise `Refused` for an agent."""
        return _decode_proposal(await self._transport.post(f"{_proposal_path(proposal_id)}/reject", {"note": note}))

    async def cancel(self, proposal_id: str) -> Proposal:
        """End the search of a running optimization. The server tests the best candidate so far."""
        return _decode_proposal(await self._transport.post(f"{_proposal_path(proposal_id)}/cancel", {}))


def _proposal_path(proposal_id: str) -> str:
    return f"/optimizations/{segment(proposal_id)}"


def _decode_proposal(value: Any) -> Proposal:
    from prowess.authoring.optimize.proposal import Proposal

    return decode(Proposal, value)


class Composer(Part):
    """Drafts skills, refines them after feedback, and saves those that a person approves. Models are those of the server.

    For people only: an agent may not see a draft, and uses the tools of the server.
    """

    async def start(self, request: str, *, skill: str = "", model: str = "") -> Composition:
        """Draft a skill, or a change of one.

        Raise `OutputInvalid` if the model did not write a usable draft. The composition is kept, and `refine` without feedback tries
        again.
        """
        body = {"request": request, "skill": skill, "model": model}
        return _decode_composition(await self._transport.post("/compositions", body))

    async def refine(self, composition: str, feedback: str = "", *, model: str = "") -> Composition:
        """Write the next round after feedback. Raise `Conflict` if someone else wrote a round in the meantime."""
        return _decode_composition(
            await self._transport.post(
                f"{_composition_path(composition)}/refine", {"feedback": feedback, "model": model}
            )
        )

    async def show(self, composition: str, *, round: int | None = None) -> Composition:
        """Return a composition with its current round, or another one."""
        return _decode_composition(await self._transport.get(_composition_path(composition), round=round))

    async def list(self, *, state: CompositionState | None = None, limit: int = 100) -> list[Composition]:
        """Return compositions without their rounds, the last changed first."""
        filters = {"state": state} if state else {}
        return [_decode_composition(row) async for row in self._transport.pages("/compositions", most=limit, **filters)]

    async def rounds(self, composition: str) -> list[Round]:
        """Return all rounds, oldest first."""
        return [_decode_round(one) for one in await self._transport.get(f"{_composition_path(composition)}/rounds")]

    async def diff(self, composition: str, *, round: int | None = None) -> str:
        """Return what a round changed, as a unified diff."""
        return (await self._transport.get(f"{_composition_path(composition)}/files", round=round))["diff"]

    async def back(self, composition: str, round: int) -> Composition:
        """Make an earlier round the current one. Later rounds are kept."""
        return _decode_composition(
            await self._transport.post(f"{_composition_path(composition)}/back", {"round": round})
        )

    async def approve(
        self, composition: str, *, digest: str, scope: Scope | None = None, allow_collision: bool = False
    ) -> Skill:
        """Save the current round as a skill if it has exactly the files with this digest.

        Raise `Refused` for an agent, `Invalid` if the round has errors, and `Conflict` if the round or the changed skill is
        another one now.
        """
        body = {"digest": digest, "scope": scope, "allow_collision": allow_collision}
        saved = await self._transport.post(f"{_composition_path(composition)}/approve", body)
        return await Skills(self._transport).get(f"{saved['scope']}:{saved['slug']}")

    async def discard(self, composition: str) -> Composition:
        """End a composition without saving anything."""
        return _decode_composition(await self._transport.post(f"{_composition_path(composition)}/discard", {}))


def _composition_path(composition: str) -> str:
    return f"/compositions/{segment(composition)}"


def _decode_composition(value: Any) -> Composition:
    from prowess.authoring.compose.composition import Composition

    payload: dict[str, Any] = dict(value)
    if "request" not in payload:
        # The server leaves out every text that a model wrote; an agent that speaks HTTP itself can use the rest.
        raise Refused("Only a person can see a draft.", hint="Use the token of a person, or the tools for agents.")
    current, number = payload.pop("round"), payload.pop("current_round")
    composition = decode(Composition, {**payload, "number": number})
    return composition if current is None else replace(composition, round=_decode_round(current))


def _decode_round(value: Any) -> Round:
    from prowess.authoring.compose.checks import Checks
    from prowess.authoring.compose.composition import Round
    from prowess.authoring.compose.draft import Draft

    payload: dict[str, Any] = dict(value)
    return Round(
        number=payload["number"],
        previous=payload["previous"],
        feedback=payload["feedback"],
        actor=payload["actor"],
        model=payload["model"],
        cost_usd=payload["cost_usd"],
        digest=payload["digest"],
        draft=decode(Draft, payload["draft"]),
        files=tuple((file["path"], file["size"]) for file in payload["files"]),
        checks=Checks.from_json(payload),
        created_at=payload["created_at"],
    )
