"""Running skills through the engine: dispatch, order, fallbacks, time, cancellation, assertions, and a trace of every run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from typing import Any

import pytest

from prowess.errors import AssertionFailed, Invalid, NoHandler, NoModel, NotFound, TimedOut
from prowess.llm.model import Request
from prowess.llm.scripted import ScriptedModel
from prowess.run.request import RunRequest, Step

pytestmark = pytest.mark.anyio


async def test_a_prompt_is_rendered_sent_and_answered(each_place, greeter, traces):
    greeter(each_place)
    async with each_place.open() as prowess:
        with ScriptedModel(["Good morning, Ada!"]) as model:
            result = await prowess.run("greeter", {"name": "Ada"}, artifacts="greet", model=model)
        assert result.text == "Good morning, Ada!"
        assert model.requests[0].messages[-1].text == "Greet Ada."
        [trace] = await traces(prowess)
    assert (trace.status, trace.artifact_name, trace.artifact_kind) == ("ok", "greet", "prompt_template")
    assert (trace.rendered_input, trace.raw_output) == ("Greet Ada.", "Good morning, Ada!")
    assert (trace.model_id, trace.inputs) == ("scripted:test", {"name": "Ada"})
    assert trace.input_tokens
    assert trace.output_tokens
    assert trace.estimated_cost is None
    assert trace.duration_ms is not None
    assert trace.id == result.parts[0].trace


async def test_a_whole_skill_runs_in_ordinal_order_and_hands_on_what_came_out(place, greeter, traces):
    greeter(place)
    async with place.open() as prowess:
        with ScriptedModel(["Hello!", "And hello to you."]) as model:
            result = await prowess.run("greeter", {"name": "Ada"}, model=model)
        assert [part.artifact for part in result.parts] == ["greet", "Polite Answer"]
        assert model.requests[1].messages[-1].text == "Answer to: Hello! (before: Hello!)"
        rows = await traces(prowess)
    assert len({row.run_id for row in rows}) == 1
    assert [row.artifact_name for row in rows] == ["greet", "Polite Answer"]


async def test_artifacts_are_chosen_by_name_and_a_near_name_is_understood(place, greeter):
    greeter(place)
    async with place.open() as prowess:
        with ScriptedModel(["Yes."]) as model:
            result = await prowess.run(
                "greeter", {"greet": "Hi", "previous": "Hi"}, artifacts="polite answer", model=model
            )
        assert [part.artifact for part in result.parts] == ["Polite Answer"]
        with pytest.raises(NotFound, match="no artifact 'sing'") as missing:
            await prowess.run("greeter", artifacts="sing", model=model)
        assert "'greet'" in missing.value.hint


async def test_the_text_is_streamed_to_whoever_watches(place, greeter):
    greeter(place)
    steps: list[Step] = []
    async with place.open() as prowess:
        answer = "A long answer that comes in several pieces, one after the other."
        await prowess.run(
            "greeter", {"name": "Ada"}, artifacts="greet", model=ScriptedModel([answer]), on_step=steps.append
        )
    pieces = [step.text for step in steps if step.text]
    assert len(pieces) > 1
    assert "".join(pieces) == answer


class OwnModel:
    """A model of the application."""

    name, family, structured = "own:model", "own", False

    def __init__(self, answer: Callable[[], object]) -> None:
        self.answer = answer

    async def complete(self, _request: Request) -> Any:
        return self.answer()

    async def stream(self, _request: Request) -> AsyncGenerator[Any]:
        yield self.answer()


def fail() -> object:
    raise ValueError("the key is sk-123")


@pytest.mark.parametrize(
    ("answer", "watched", "fault"),
    [
        (fail, False, "raised ValueError"),
        (lambda: "Hello!", False, "returned str, not a Reply"),
        (lambda: "Hello!", True, "did not end its stream with a Reply"),
    ],
)
async def test_a_model_of_the_application_that_breaks_its_contract_is_named(place, greeter, answer, watched, fault):
    greeter(place)
    async with place.open() as prowess:
        request = RunRequest(slug="greeter", artifacts=("greet",), inputs={"name": "Ada"}, model=OwnModel(answer))
        steps: list[Step] = []
        result = await prowess.runs.attempt(replace(request, on_step=steps.append) if watched else request)
        assert str(result.error) == f"The model own:model {fault}."


async def test_a_turn_ends_as_failed_if_the_model_of_the_application_raises_anything(place):
    async with place.open() as prowess:
        conversation = await prowess.agent.start()
        updates = [update async for update in prowess.agent.send(conversation.id, "hello", model=OwnModel(fail))]
        assert updates[-1].state == "failed"
        assert updates[-1].error["message"] == "The model own:model raised ValueError."


async def test_a_class_is_not_a_model(place, greeter):
    greeter(place)
    async with place.open() as prowess:
        with pytest.raises(Invalid, match="Not a model"):
            await prowess.run("greeter", {"name": "Ada"}, artifacts="greet", model=ScriptedModel)


async def test_a_listener_that_fails_is_logged_and_the_run_goes_on(place, greeter, caplog):
    greeter(place)
    async with place.open() as prowess:
        model = ScriptedModel(["Hello!"])
        result = await prowess.run(
            "greeter", {"name": "Ada"}, artifacts="greet", model=model, on_step=lambda step: step.nothing
        )
    assert result.text == "Hello!"
    assert "The listener of a run failed" in caplog.text


async def test_a_dry_run_sends_nothing_leaves_no_trace_and_tells_all_that_would_be_sent(place, greeter, traces):
    greeter(place)
    async with place.open() as prowess:
        model = ScriptedModel([])
        result = await prowess.run("greeter", {"name": "Ada"}, model=model, dry_run=True)
        assert model.requests == []
        [sent] = result.parts[0].sent
        assert (sent.model, sent.request.messages[-1].text) == ("scripted:test", "Greet Ada.")
        assert result.waiting == ("Polite Answer",)
        assert await traces(prowess) == []
        assert json.loads(json.dumps(result.as_json()))["parts"][0]["would_send"]


async def test_without_a_model_the_answer_names_the_three_ways_to_configure_one(place, greeter, traces):
    greeter(place)
    async with place.open() as prowess:
        with pytest.raises(NoModel) as missing:
            await prowess.run("greeter", {"name": "Ada"}, artifacts="greet")
        [trace] = await traces(prowess)
    for way in ("--model", "PROWESS_MODEL", "local:smollm2"):
        assert way in missing.value.hint
    assert (trace.status, trace.error_code) == ("unavailable", "no-model")


async def test_missing_inputs_are_named_and_traced(place, greeter, traces):
    greeter(place)
    async with place.open() as prowess:
        with pytest.raises(Invalid, match="name"):
            await prowess.run("greeter", artifacts="greet", model=ScriptedModel([]))
        [trace] = await traces(prowess)
    assert (trace.status, trace.error_code) == ("failed", "invalid")


@pytest.mark.parametrize(
    "inputs", [{"name": float("nan")}, {"name": b"bytes"}, {"name": {1, 2}}], ids=["nan", "bytes", "set"]
)
async def test_inputs_that_are_no_json_are_refused_before_anything_runs(place, inputs, greeter, traces):
    greeter(place)
    async with place.open() as prowess:
        with pytest.raises(Invalid, match="not valid JSON"):
            await prowess.run("greeter", inputs, artifacts="greet", model=ScriptedModel([]))
        assert await traces(prowess) == []


FALLBACK = """
title: Greeter
version: 1.0.0
artifacts:
  - path: prompts/greet.j2
    kind: prompt_template
    name: greet
    ordinal: 2
  - path: dspy/greeter.json
    kind: dspy_module
    name: tuned
    ordinal: 1
    fallback: greet
"""
MODULE = {"dspy/greeter.json": '{"template_id": "predict", "signature": "name -> greeting"}'}


async def test_where_a_part_is_unavailable_its_fallback_runs_and_both_are_traced(each_place, greeter, traces):
    greeter(each_place, sidecar=FALLBACK, **MODULE)
    async with each_place.open() as prowess:
        with ScriptedModel(["Hello!"]) as model:
            result = await prowess.run("greeter", {"name": "Ada"}, artifacts="tuned", model=model)
        first, second = await traces(prowess)
    assert result.text == "Hello!"
    assert [(part.artifact, part.status, part.fallback_of) for part in result.parts] == [
        ("tuned", "unavailable", None),
        ("greet", "ok", "tuned"),
    ]
    assert (first.error_code, second.fallback_of) == ("no-handler", first.id)


async def test_a_fallback_that_stands_later_runs_once_in_a_run_of_the_whole(place, greeter):
    greeter(place, sidecar=FALLBACK, **MODULE)
    async with place.open() as prowess:
        with ScriptedModel(["Hello!"]) as model:
            result = await prowess.run("greeter", {"name": "Ada"}, model=model)
    assert [part.artifact for part in result.parts] == ["tuned", "greet"]


async def test_a_kind_without_a_handler_says_which_kinds_run(place, greeter):
    sidecar = "title: T\nartifacts:\n- {path: dspy/check.json, kind: dspy_module, name: check, fallback: greet}\n"
    greeter(place, sidecar=sidecar, **{"dspy/check.json": '{"template_id": "predict"}'})
    async with place.open() as prowess:
        with ScriptedModel(["Hello."]) as model:
            result = await prowess.run("greeter", {"name": "Ada"}, artifacts="check", model=model)
        missing = result.parts[0].error
        assert isinstance(missing, NoHandler)
        assert "DSPy" in missing.message
    assert "prompt_template" in missing.hint


async def test_a_run_that_takes_too_long_is_ended_and_traced(each_place, greeter, traces, waiting):
    greeter(each_place)
    async with each_place.open() as prowess:
        with pytest.raises(TimedOut, match=r"0\.05 seconds"):
            await prowess.run("greeter", {"name": "Ada"}, artifacts="greet", model=waiting, timeout=0.05)
        [trace] = await traces(prowess)
    assert (trace.status, trace.error_code) == ("timed_out", "timed-out")
    assert trace.completed_at


async def test_a_run_that_is_cancelled_ends_at_once_and_its_trace_says_so(each_place, greeter, traces, waiting):
    greeter(each_place)
    model = waiting
    async with each_place.open() as prowess:
        task = asyncio.create_task(prowess.run("greeter", {"name": "Ada"}, artifacts="greet", model=model))
        await model.asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    async with each_place.open() as prowess:
        [trace] = await traces(prowess)
    assert (trace.status, trace.rendered_input) == ("cancelled", "Greet Ada.")
    assert trace.completed_at


ASSERTED = """
title: Greeter
version: 1.0.0
artifacts:
  - path: prompts/greet.j2
    kind: prompt_template
    name: greet
    assertions:
      - {type: pattern, check: match, pattern: "Ada", severity: SEVERITY}
      - {type: length, check: char_range, min: 1, max: 100}
"""


async def test_a_hard_assertion_fails_the_run_after_the_trace_is_written(each_place, greeter, traces):
    greeter(each_place, sidecar=ASSERTED.replace("SEVERITY", "hard"))
    async with each_place.open() as prowess:
        with pytest.raises(AssertionFailed) as failed:
            await prowess.run("greeter", {"name": "Ada"}, artifacts="greet", model=ScriptedModel(["Hello, Bob."]))
        [trace] = await traces(prowess)
    assert (trace.status, trace.error_code) == ("failed", "assertion-failed")
    assert (trace.assertions_run, trace.assertions_passed, trace.raw_output) == (2, 1, "Hello, Bob.")
    assert [verdict["passed"] for verdict in trace.verdicts] == [False, True]
    assert trace.id in failed.value.hint


async def test_a_soft_assertion_is_reported_and_the_run_goes_on(place, greeter):
    greeter(place, sidecar=ASSERTED.replace("SEVERITY", "soft"))
    async with place.open() as prowess:
        result = await prowess.run("greeter", {"name": "Ada"}, artifacts="greet", model=ScriptedModel(["Hello, Bob."]))
    assert result.ok
    assert [verdict.passed for verdict in result.verdicts] == [False, True]


async def test_a_failed_attempt_is_a_result_that_has_what_came_out(place, greeter):
    greeter(place, sidecar=ASSERTED.replace("SEVERITY", "hard"))
    async with place.open() as prowess:
        result = await prowess.runs.attempt(
            RunRequest(
                slug="greeter", inputs={"name": "Ada"}, artifacts=("greet",), model=ScriptedModel(["Hello, Bob."])
            )
        )
    assert isinstance(result.error, AssertionFailed)
    assert result.parts[0].output is not None
    assert result.as_json()["error"]["code"] == "assertion-failed"


async def test_the_events_of_a_run_tell_its_beginning_and_its_end(each_place, greeter):
    greeter(each_place)
    async with each_place.open() as prowess:
        result = await prowess.run("greeter", {"name": "Ada"}, artifacts="greet", model=ScriptedModel(["Hi."]))
        # Also those that are still to be written.
        events = await prowess.events.list(names=("run_started", "run_finished"))
    async with each_place.open() as prowess:
        assert await prowess.events.list(names=("run_started", "run_finished")) == events
    assert [event.name for event in events] == ["run_started", "run_finished"]
    assert {event.data["run"] for event in events} == {result.run_id}
    assert events[1].data["status"] == "ok"
