"""Optimizing the text of a prompt: from the cases to a proposal that is proven, or a refusal with its figures."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest

from prowess.authoring.evals.case import EvalCase
from prowess.authoring.evals.splits import assign_splits
from prowess.authoring.optimize import optimizer
from prowess.authoring.optimize.proposal import Budget, Meter
from prowess.authoring.optimize.search import SHARES
from prowess.errors import ApprovalRequired, Conflict, Invalid, NotFound, Refused, RunFailed
from prowess.llm.scripted import ScriptedModel
from prowess.policy.actor import agent_of

from .conftest import BETTER, PROMPT, SIDECAR, WORSE, SortingModel, make_cases

pytestmark = pytest.mark.anyio


async def test_a_better_prompt_is_found_tested_and_proposed(place, triage, ask, model):
    triage(place)
    seen = []
    async with place.open() as prowess:
        done = await prowess.optimize.run(ask(model=model), on_progress=seen.append)
        shown = await prowess.optimize.diff(done.id)
        events = [event async for event in _newest(prowess)]
    assert done.state == "proposed", done.reason
    assert done.test["accepted"]
    assert (done.test["base"], done.test["candidate"]) == (0.0, 1.0)
    assert done.test["cases"] >= 6
    assert done.calls == len(model.requests)
    assert shown.parts == {"text": {"before": PROMPT, "after": BETTER}}
    assert "+Sort this message. Answer with one word" in shown.files
    assert {step.phase for step in seen} == {"base", "search", "test"}
    assert (seen[-1].base, seen[-1].best) == (0.0, 1.0)
    assert [event.data["state"] for event in events] == ["running", "proposed"]


async def _newest(prowess):
    for event in await prowess.events.list(names=["optimization_changed"]):
        yield event


async def test_the_search_never_sees_a_held_out_case(place, triage, ask):
    triage(place)
    model = SortingModel(rewrites=(WORSE,))
    async with place.open() as prowess:
        done = await prowess.optimize.run(ask(model=model))
    assert done.state == "refused"
    asked = {text for request in model.requests for text in [request.messages[-1].text]}
    messages = {case["inputs"]["message"] for case in make_cases()}
    seen = {message for message in messages if any(message in text for text in asked)}
    # Without a candidate there is no test, so the held-out cases were sent nowhere.
    assert len(messages - seen) >= 6
    assert "No candidate was better than 0.000 on the validation cases." in done.reason


async def test_a_gain_within_noise_is_refused_with_its_figures(place, triage, ask):
    class Lucky(SortingModel):
        """Does better on two validation cases only."""

        def answer(self, text: str) -> str:
            found = super().answer(text)
            return found if not text.startswith("Sort") or "luckily" not in text else self._lucky(text, found)

        def _lucky(self, text: str, found: str) -> str:
            return found.rpartition(" ")[2].rstrip(".") if text.endswith(self.lucky) else found

        lucky: tuple[str, ...] = ()

    triage(place)
    model = Lucky(rewrites=("Sort this message luckily: {{ message }}",))
    cases = [EvalCase(id=one["id"], inputs=one["inputs"], artifact="sort") for one in make_cases()]
    splits = assign_splits(cases, SHARES)
    model.lucky = tuple(
        case.inputs["message"] for case, split in zip(cases, splits, strict=True) if split == "validation"
    )
    async with place.open() as prowess:
        done = await prowess.optimize.run(ask(model=model))
    assert done.state == "refused"
    assert done.test["accepted"] is False
    assert done.reason.startswith("Not significantly better: 0.000 against 0.000 on")
    assert done.score == 1.0  # on the validation cases, which prove nothing


async def test_too_few_cases_are_refused_with_what_is_needed(place, triage, ask, model):
    triage(place, cases=make_cases(8))
    async with place.open() as prowess:
        with pytest.raises(Refused, match=r"Too few cases to optimize 'sort': .*held out \(6 needed\)") as refused:
            await prowess.optimize.run(ask(model=model))
        [kept] = await prowess.optimize.list()
    assert "Add about " in refused.value.hint
    assert (kept.state, model.requests) == ("refused", [])
    assert kept.reason.startswith("Too few cases")


async def test_an_optimization_of_a_skill_that_nobody_accepted_is_over(place, triage, ask, model):
    triage(place)
    place.environment["PROWESS_TRUSTED_FOLDERS"] = ""
    async with place.open() as prowess:
        with pytest.raises(ApprovalRequired):
            await prowess.optimize.run(ask(model=model))
        [kept] = await prowess.optimize.list()
    assert (kept.state, model.requests) == ("refused", [])
    assert "Approval required" in kept.reason


async def test_cases_that_nothing_can_judge_are_refused(place, triage, ask, model):
    cases = [{key: one[key] for key in ("id", "inputs")} for one in make_cases()]
    triage(place, cases=cases, sidecar=SIDECAR.partition("    assertions")[0])
    async with place.open() as prowess:
        for metric in ("assertions", "exact"):
            with pytest.raises(Refused, match="cannot be scored"):
                await prowess.optimize.run(ask(model=model, metric=metric))
    assert model.requests == []


async def test_without_checks_the_assertions_of_the_artifact_are_the_metric(place, triage, ask, model):
    triage(place, cases=[{key: one[key] for key in ("id", "inputs")} for one in make_cases()])
    async with place.open() as prowess:
        done = await prowess.optimize.run(ask(model=model))
    assert (done.state, done.test["base"], done.test["candidate"]) == ("proposed", 0.0, 1.0)


@pytest.mark.long
async def test_a_rubric_can_be_the_metric(place, triage, ask):
    class Judge(SortingModel):
        def answer(self, text: str) -> str:
            if "criteri" not in text:
                return super().answer(text)
            return '{"results": [{"criterion_id": "short", "verdict": "pass", "reasoning": "It is short indeed.", "confidence": 0.9, "evidence": [], "suggested_fix": ""}]}'

    triage(place)
    (place.workspace / "rubrics").mkdir()
    (place.workspace / "rubrics" / "brevity.json").write_text(
        '{"id": "brevity", "version": "1.0.0", "scoring_mode": "binary", "criteria": [{"id": "short", "name": "Short", '
        '"description": "It is short.", "pass_condition": "short", "fail_condition": "long"}]}'
    )
    async with place.open() as prowess:
        done = await prowess.optimize.run(ask(model=Judge(), metric="rubric:brevity"))
    # Everything passes already, so nothing can be better.
    assert done.state == "refused"
    assert "No candidate was better than 1.000" in done.reason


async def test_live_runs_are_data_but_measurements_are_not(place, triage, ask, model):
    triage(place, cases=[])
    async with place.open() as prowess:
        for number in range(30):
            await prowess.run("triage", {"message": f"Live {number} about billing"}, model=model)
        before = len(model.requests)
        done = await prowess.optimize.run(ask(model=model))
        assert done.state == "proposed"
        assert len(model.requests) > before
        again = await prowess.optimize.run(ask(model=model))
        texts = [request.messages[-1].text for request in model.requests]
        # The second optimization has the same 30 cases: the runs of the first are not among them.
        assert again.test["cases"] == done.test["cases"]
        assert again.test["uses"] == 2
        assert "used for 2 candidates" in again.reason
    assert any("Live 3 " in text for text in texts)


async def test_the_budget_must_leave_room_for_the_test(place, triage, ask, model):
    triage(place)
    async with place.open() as prowess:
        with pytest.raises(Refused, match="The budget of 15 calls is too small") as refused:
            await prowess.optimize.run(ask(model=model, calls=15))
    assert "--max-calls" in refused.value.hint


@pytest.mark.long
async def test_a_search_that_uses_up_its_budget_tests_the_best_so_far(place, triage, ask):
    triage(place)
    model = SortingModel(rewrites=(BETTER, "Sort. {{ message }}", "Tell. {{ message }}"))
    model.answer = _never_perfect(model)
    async with place.open() as prowess:
        done = await prowess.optimize.run(ask(model=model, calls=90))
    assert done.state == "proposed"
    assert done.calls <= 90 + 20


def _never_perfect(model):
    plain = SortingModel.answer

    def answer(text: str) -> str:
        return "unknown" if "Message 1 " in text else plain(model, text)

    return answer


def test_dollars_and_minutes_end_a_search_in_time():
    clock = iter([0.0, 10.0, 400.0])
    meter = Meter(Budget(usd=1.0, calls=100, minutes=5), clock=lambda: next(clock))
    meter.keep_back(10, calls_per_run=1.0, cost_per_run=0.02)
    assert meter.spent == ""
    assert "5 minutes" in meter.spent
    meter.count(1, 0.8)
    assert "$1" in meter.spent
    with pytest.raises(Refused, match=r"budget of \$1 is too small"):
        meter.keep_back(10, calls_per_run=1.0, cost_per_run=0.1)


async def test_rewrites_that_lose_a_variable_or_cannot_be_parsed_are_not_tried(place, triage, ask):
    triage(place)
    model = SortingModel(rewrites=("One word, please.", "{{ message", "one word {{ message }} {{ secret }}"))
    async with place.open() as prowess:
        done = await prowess.optimize.run(ask(model=model))
    assert done.state == "refused"
    assert not any("please" in request.messages[-1].text[:20] for request in model.requests)


@pytest.mark.long
async def test_an_answer_that_is_not_rewrites_is_none(place, triage, ask):
    triage(place)
    async with place.open() as prowess:
        done = await prowess.optimize.run(ask(model=SortingModel(rewrites="I would rather not.")))
    assert done.state == "refused"


async def test_a_model_that_fails_ends_it_and_the_reason_is_kept(place, triage, ask):
    triage(place)
    model = ScriptedModel([RunFailed("boom")] * 500)
    async with place.open() as prowess:
        with pytest.raises(RunFailed, match="outputs could not be judged: boom"):
            await prowess.optimize.run(ask(model=model))
        [kept] = await prowess.optimize.list()
        assert kept.state == "refused"
        assert "boom" in kept.reason
        await prowess.policy.set("spend_per_day_usd", 0)
        with pytest.raises(Refused, match="Spending limit"):
            await prowess.optimize.run(ask(model=_priced()))


def _priced():
    model = SortingModel()
    model.name = "openai:gpt-4o-mini"
    return model


@pytest.mark.long
async def test_stopping_tests_the_best_so_far(place, triage, ask, monkeypatch):
    monkeypatch.setattr(optimizer, "STORE_SECONDS", 0.01)
    triage(place)
    found = asyncio.Event()

    class Slow(SortingModel):
        async def complete(self, request):
            if "Tell" in request.messages[-1].text:
                found.set()
                await asyncio.Event().wait()
            return await super().complete(request)

    model = Slow(rewrites=(BETTER, "Tell. {{ message }}"))
    model.answer = _never_perfect(model)
    async with place.open() as prowess:
        work = asyncio.create_task(prowess.optimize.run(ask(model=model)))
        await found.wait()
        [running] = await prowess.optimize.list(states=["running"])
        await prowess.optimize.cancel(running.id)
        done = await work
    assert done.state == "proposed"


async def test_an_interruption_ends_only_the_search_if_it_is_graceful(place, triage, ask):
    triage(place)
    found = asyncio.Event()

    class Slow(SortingModel):
        async def complete(self, request):
            if "Tell" in request.messages[-1].text:
                found.set()
                await asyncio.Event().wait()
            return await super().complete(request)

    model = Slow(rewrites=(BETTER, "Tell. {{ message }}"))
    model.answer = _never_perfect(model)
    async with place.open() as prowess:
        work = asyncio.create_task(prowess.optimize.run(ask(model=model), graceful=True))
        await found.wait()
        work.cancel()
        assert (await work).state == "proposed"

        found.clear()
        work = asyncio.create_task(prowess.optimize.run(ask(model=model)))
        await found.wait()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        [interrupted] = await prowess.optimize.list(states=["running"])
        assert interrupted.score is not None


async def test_an_interruption_before_there_is_a_candidate_leaves_nothing_running(place, triage, ask):
    asked = asyncio.Event()

    class Stuck(SortingModel):
        async def complete(self, _):
            asked.set()
            await asyncio.Event().wait()

    triage(place)
    async with place.open() as prowess:
        work = asyncio.create_task(prowess.optimize.run(ask(model=Stuck()), graceful=True))
        await asked.wait()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        [kept] = await prowess.optimize.list()
    assert (kept.state, kept.reason) == ("refused", "It was interrupted before a candidate was found.")


async def test_an_interrupted_optimisation_tests_what_it_has(place, triage, ask, model, monkeypatch):
    triage(place)
    async with place.open() as prowess:
        first = await prowess.optimize.run(ask(model=model))
        row = await prowess.optimize.prepare(ask())
        records = prowess.optimize._records
        stored = await records.find(first.id)
        await records.store_progress(row.id, {"change": stored.change, "score": 1.0, "calls": 10})
        optimizations = prowess.optimize
        resumed = await optimizations._do(await records.find(row.id), ask(model=model), lambda _: None, graceful=False)
        assert resumed.state == "proposed"
        busy = await prowess.optimize.prepare(ask())
        await records.store_progress(busy.id, {"calls": 1})
        with pytest.raises(Conflict, match="is running in another process"):
            await optimizations.resume(busy.id)
        # It was killed, and then the clock was set back by a day.
        with monkeypatch.context() as patch:
            tomorrow = time.time_ns() + 86_400 * 10**9
            patch.setattr(time, "time_ns", lambda: tomorrow)
            await records.store_progress(busy.id, {"calls": 2})
        assert (await optimizations.cancel(busy.id)).state == "refused"
        assert await optimizations.resume(resumed.id) == resumed
    assert sum(one.messages[-1].text.startswith("You improve") for one in model.requests) == 1


async def test_an_interrupted_optimization_that_used_its_budget_tests_what_it_has(place, triage, ask, model):
    triage(place)
    async with place.open() as prowess:
        first = await prowess.optimize.run(ask(model=model))
        row = await prowess.optimize.prepare(ask(calls=100))
        records = prowess.optimize._records
        change = (await records.find(first.id)).change
        await records.store_progress(row.id, {"change": change, "score": 1.0, "calls": 80})
        spent = await records.find(row.id)
        resumed = await prowess.optimize._do(spent, ask(model=model, calls=100), lambda _: None, graceful=False)
    assert resumed.state == "proposed", resumed.reason


async def test_a_skill_that_changed_before_it_was_done_is_a_conflict(place, triage, ask):
    triage(place)
    async with place.open() as prowess:
        row = await prowess.optimize.prepare(ask())
        triage(place, prompt="Another prompt: {{ message }}")
        with pytest.raises(Conflict, match="has changed since the optimization started"):
            await prowess.optimize.resume(row.id)


async def test_wrong_requests_are_told_apart(place, triage, ask):
    triage(place)
    place.skill("plain")
    async with place.open() as prowess:
        with pytest.raises(NotFound):
            await prowess.optimize.run(ask(skill="nothing"))
        with pytest.raises(NotFound):
            await prowess.optimize.run(ask(artifact="nothing"))
        with pytest.raises(Invalid, match="has nothing to run"):
            await prowess.optimize.run(ask(skill="plain"))
        triage(
            place,
            sidecar=SIDECAR + "  - {path: prompts/b.j2, kind: prompt_template, name: sort, variant: b}\n",
            **{"prompts/b.j2": PROMPT},
        )
        with pytest.raises(Invalid, match="has several variants"):
            await prowess.optimize.run(ask(artifact="sort"))
        with pytest.raises(Invalid, match="does not change artifacts"):
            await prowess.optimize.run(ask(method="phrases", artifact="sort"))
        remote = prowess.as_actor(replace(prowess.actor, channel="http"))
        with pytest.raises(Refused, match="cannot name files"):
            await remote.optimize.prepare(ask(cases="/etc/passwd"))
        with pytest.raises(NotFound):
            await prowess.optimize.get("12345678")
        agent = prowess.as_actor(agent_of(prowess.actor))
        assert await agent.optimize.list() == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"method": "magic"},
        {"metric": "luck"},
        {"repeats": 0},
        {"budget": Budget(calls=0)},
        {"budget": Budget(usd=-1.0)},
    ],
)
def test_a_request_that_makes_no_sense_is_invalid(ask, wrong):
    with pytest.raises(Invalid):
        ask(**wrong)
