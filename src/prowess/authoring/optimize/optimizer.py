"""Carry out one optimization, from the cases to a proposal or a refusal with its figures.

Everything that must survive a crash is in the row of the optimization: the best candidate so far, what was used of the
budget, and that the held-out cases were used. An optimization that is started again tests the best candidate it has,
and searches only if it has none.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Literal

from prowess.authoring.optimize.artifact_plan import ArtifactPlan
from prowess.authoring.optimize.bench import Bench
from prowess.authoring.optimize.change import Change, build_candidate, read_change
from prowess.authoring.optimize.decision import HeldOutTest, decide
from prowess.authoring.optimize.proposal import (
    TRIGGER_METHODS,
    Meter,
    OptimizationListener,
    OptimizationRequest,
    Progress,
    ignore_progress,
)
from prowess.authoring.optimize.records import Records
from prowess.authoring.optimize.search import Plan, read_cases
from prowess.authoring.optimize.trigger_plan import TriggerPlan, read_queries
from prowess.engine.engine import Engine
from prowess.errors import ApprovalRequired, Conflict, ProwessError, Unavailable
from prowess.run.request import RunRequest
from prowess.skill.model import Skill
from prowess.skill.package import Package
from prowess.storage.clock import now
from prowess.storage.proposals import ProposalRow, ProposalState
from prowess.threads import offload

STORE_SECONDS = 1.0
"""How often progress is stored, and a request to stop is noticed."""


class Optimizer:
    """Carries out one optimization. With `graceful`, a cancellation during the search ends the search only."""

    def __init__(
        self,
        engine: Engine,
        row: ProposalRow,
        request: OptimizationRequest,
        *,
        on_progress: OptimizationListener = ignore_progress,
        graceful: bool = False,
    ) -> None:
        self._engine = engine
        self._context = engine.context
        self._records = Records(engine.context)
        self._row = row
        self._request = request
        self._on_progress = on_progress
        self._graceful = graceful
        self._meter = Meter(request.budget, calls=row.calls, cost=row.cost)
        self._stop = asyncio.Event()
        self._phase: Literal["base", "search", "test"] = "base"
        self._base: float | None = None
        self._best: tuple[Change, float] | None = None
        self._unsaved = False

    async def run(self) -> ProposalRow:
        """Search, test, and store the result: a proposal, or a refusal with its figures.

        An error that ends it is stored as the reason of the refusal, and raised.
        """
        storing = asyncio.create_task(self._store_regularly())
        try:
            return await self._run()
        except ApprovalRequired:
            raise  # a job waits for the answer, then does it again
        except ProwessError as error:
            await self._finish("refused", f"{error.message} {error.hint}".strip())
            raise
        except asyncio.CancelledError:
            # A job is done again after an interruption; a command is not, and then there must be something to continue with.
            if self._graceful and self._best is None and self._row.change is None:
                await self._finish("refused", "It was interrupted before a candidate was found.")
            raise
        finally:
            storing.cancel()
            await asyncio.gather(storing, return_exceptions=True)
            with suppress(ProwessError):
                await self._store()

    async def _run(self) -> ProposalRow:
        skill, package = await offload(self._read_skill)
        plan = await self._plan(skill, package)
        if self._row.change is not None and self._row.score is not None:
            plan.restore(read_change(self._row), self._row.score)
        self._base = await plan.measure_base()
        ended = "it was interrupted"
        if plan.best is None:
            self._phase = "search"
            ended = await self._search(plan)
        if plan.best is None:
            why = f" The search ended early: {ended}." if ended else ""
            return await self._finish(
                "refused", f"No candidate was better than {self._base:.3f} on the validation cases.{why}"
            )
        return await self._test(plan, skill, package, plan.best[0])

    async def _search(self, plan: Plan) -> str:
        """Search until it is done, stopped or out of budget; return why it ended early, or ''."""
        work, stop = asyncio.create_task(plan.search()), asyncio.create_task(self._stop.wait())
        ended = ""
        try:
            await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                ended = "someone stopped it"
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if not self._graceful or current is None:
                raise
            # Only the search ends: the best so far is worth its test. Another Ctrl-C ends that, too.
            current.uncancel()
            ended = "someone stopped it"
        finally:
            for task in (work, stop):
                task.cancel()
            results = await asyncio.gather(work, stop, return_exceptions=True)
        error = results[0]
        if isinstance(error, ProwessError):
            # Keep what was found before the error, if anything.
            if plan.best is None:
                raise error
            ended = error.message.rstrip(".")
        elif isinstance(error, Exception):
            raise error
        return ended or self._meter.spent

    async def _test(self, plan: Plan, skill: Skill, package: Package, change: Change) -> ProposalRow:
        self._phase = "test"
        _, changed = build_candidate(skill, package, change, self._context.resources.limits)
        uses = await self._records.use_held_out(self._row, plan.held_out.digest)
        paired = await plan.test(change)
        test = decide(paired.base, paired.candidate, paired.clusters, uses=uses)
        values = {"candidate_digest": changed.digest, "test": test.as_json(), "change": change.model_dump()}
        return await self._finish("proposed" if test.accepted else "refused", _reason(test, plan), values)

    async def _plan(self, skill: Skill, package: Package) -> Plan:
        request, on_best, on_step = self._request, self._keep, self._step
        bench = Bench(
            self._context,
            label=self._row.id,
            meter=self._meter,
            model=request.model,
            evaluation_model=request.evaluation_model,
        )
        if request.method in TRIGGER_METHODS:
            queries = await read_queries(self._engine, skill)
            return TriggerPlan(self._context, request, skill, queries, bench, on_best=on_best, on_step=on_step)
        cases = await read_cases(
            self._engine,
            skill,
            request.artifact,
            metric=request.metric,
            file=request.cases,
            traces=request.traces,
            days=request.days,
        )
        plan = ArtifactPlan(self._context, request, skill, package, cases, bench, on_best=on_best, on_step=on_step)
        # The gate decides whether the actor may run the skill as it is.
        run_request = RunRequest(slug=skill.slug, artifacts=(request.artifact,), inputs=cases[0].inputs or {})
        await self._engine.runs.admit(run_request)
        if request.needs_sidecar:
            await self._install_sidecar()
        return plan

    async def _install_sidecar(self) -> None:
        """Install the sidecar if it is missing. It takes minutes, so all that can refuse an optimization is checked before."""
        try:
            await offload(self._context.resources.install_sidecar, lambda _: None)
        except Unavailable as error:
            error.hint = f"{error.hint} `--method rewrite` needs no sidecar.".strip()
            raise

    def _read_skill(self) -> tuple[Skill, Package]:
        store, skill = self._context.catalog.find(f"{self._row.scope}:{self._row.skill_slug}")
        package = store.get_package(skill.id)
        if package is None or skill.digest != self._row.base_digest or package.digest != skill.digest:
            raise Conflict(
                f"The skill {skill.slug!r} has changed since the optimization started.", hint="Start another one."
            )
        return skill, package

    def _keep(self, change: Change, score: float) -> None:
        self._best = (change, score)
        self._step()

    def _step(self) -> None:
        self._unsaved = True
        meter = self._meter
        self._on_progress(
            Progress(
                phase=self._phase,
                calls=meter.calls,
                limit=meter.budget.calls,
                cost=meter.cost,
                base=self._base,
                best=self._best[1] if self._best else None,
            )
        )

    async def _store_regularly(self) -> None:
        while True:
            began = time.monotonic()
            with suppress(ProwessError):  # the next time may succeed
                if await self._store():
                    self._stop.set()
            await asyncio.sleep(max(STORE_SECONDS - (time.monotonic() - began), 0.0))

    async def _store(self) -> bool:
        """Store how far it is; return True if someone asked to stop."""
        values: dict[str, Any] = {}
        if self._unsaved:
            self._unsaved = False
            values = {"calls": self._meter.calls, "cost": self._meter.cost}
            if self._best is not None:
                values |= {"change": self._best[0].model_dump(), "score": self._best[1]}
        stored = await self._records.store_progress(self._row.id, values)
        return stored is not None and stored.stopping

    async def _finish(self, state: ProposalState, reason: str, values: Mapping[str, Any] | None = None) -> ProposalRow:
        best = {} if self._best is None else {"change": self._best[0].model_dump(), "score": self._best[1]}
        used = {"calls": self._meter.calls, "cost": self._meter.cost, "finished_at": now()}
        values_json = {**best, **used, **(values or {}), "state": state, "reason": reason}
        return await self._records.change(self._row.id, values_json, states=("running",))


def _reason(test: HeldOutTest, plan: Plan) -> str:
    missing = plan.held_out.missing_labels
    return f"{test.verdict} No held-out case has the label {', '.join(missing)}." if missing else test.verdict
