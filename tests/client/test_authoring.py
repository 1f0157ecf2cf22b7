"""Skills are evaluated, optimized and composed through a client of a server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from prowess.authoring.evals.plan import EvalPlan
from prowess.authoring.optimize.proposal import OptimizationRequest
from prowess.authoring.task import TaskProgress
from prowess.errors import Invalid, NotFound, Refused
from prowess.policy.actor import agent_of

from .conftest import ME, Place

pytestmark = pytest.mark.anyio

EXAMPLES = Path(__file__).resolve().parents[2] / "examples/compose"


def script(place: Place, steps: list[object]) -> None:
    """Let the server use a model that answers with these steps."""
    file = place.workspace / "model.json"
    file.write_text(json.dumps(steps))
    place.environment |= {"PROWESS_MODEL": f"scripted:{file}", "PROWESS_EMBEDDER": "none"}


def parrot(place: Place) -> None:
    """Write a skill with two cases."""
    folder = place.skill("parrot", "Repeat a word.")
    cases = [{"id": word, "prompt": f"Say {word}.", "checks": [{"type": "contains", "value": word}]} for word in "ab"]
    (folder / "evals").mkdir()
    (folder / "evals" / "cases.json").write_text(json.dumps({"cases": cases}))


async def test_an_evaluation_runs_on_the_server_and_its_results_come_back(place):
    parrot(place)
    script(place, [{"text": "It is a."}, {"text": "It is a."}])
    seen: list[TaskProgress] = []
    async with place.client() as client:
        run = await client.evals.run(EvalPlan(target="parrot", concurrency=1), on_progress=seen.append)
        assert [(one.case, one.passed) for one in run.results] == [("a", True), ("b", False)]
        assert (run.state, run.ok, run.arms[0].kind) == ("done", False, "skill")
        assert seen[-1].done + seen[-1].failed == 2
        [listed] = await client.evals.list(skill="parrot")
        assert (listed.id, listed.results) == (run.id, ())
        assert await client.evals.get(run.id[:8]) == run
        with pytest.raises(NotFound, match="triage"):
            await client.evals.run(EvalPlan(target="triage"))


@pytest.mark.long
async def test_an_optimisation_is_started_and_shown(place):
    async with place.client() as client:
        with pytest.raises(NotFound):
            await client.optimize.start(OptimizationRequest(skill="nothing"))
        with pytest.raises(Invalid, match="eval file on this machine"):
            await client.optimize.start(OptimizationRequest(skill="triage", cases="cases.json"))
        started = await client.optimize.start(OptimizationRequest(skill="triage", method="phrases"))
        shown = await client.optimize.get(started.id[:8])
        assert (shown.id, shown.method) == (started.id, "phrases")
        assert [one.id for one in await client.optimize.list(skill="triage")] == [started.id]
        await client.jobs.wait(f"optimize-{started.id[:8]}")
        [refused] = await client.optimize.list(states=["refused"])
        assert "quer" in refused.reason


async def test_a_skill_is_composed_refined_gone_back_to_and_approved(place):
    drafts = [json.loads((EXAMPLES / name).read_text())[0] for name in ("first-draft.json", "second-draft.json")]
    script(place, drafts)
    async with place.client() as client:
        first = await client.compose.start("check timeline consistency")
        assert first.round is not None
        second = await client.compose.refine(first.id, "add a dspy_module for optimized execution")
        assert second.round is not None
        assert "dspy_module" in second.round.kinds
        assert await client.compose.rounds(first.id) == [first.round, second.round]
        assert "chain_of_thought" in await client.compose.diff(first.id)
        assert (await client.compose.back(first.id, 1)).number == 1
        saved = await client.compose.approve(first.id, digest=first.round.digest)
        assert saved.digest == first.round.digest
        [listed] = await client.compose.list(state="saved")
        assert (listed.id, listed.round) == (first.id, None)


async def test_an_agent_sees_no_draft(place):
    place.tokens["the-token-of-an-agent-of-the-tests"] = agent_of(ME)
    script(place, [json.loads((EXAMPLES / "first-draft.json").read_text())[0]])
    async with place.client("the-token-of-an-agent-of-the-tests") as client:
        with pytest.raises(Refused, match="Only a person"):
            await client.compose.start("check timeline consistency")
