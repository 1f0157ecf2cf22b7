"""Running skills through the engine: dispatch, order, fallbacks, time, cancellation, the gate, and a trace of every run."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from prowess import Actor, Plugin, ScriptedModel
from prowess.errors import (
    ApprovalRequired,
    AssertionFailed,
    Invalid,
    NoHandler,
    NoModel,
    NotFound,
    SpendExceeded,
    TimedOut,
    Unavailable,
)
from prowess.llm.model import Reply, Request, Usage
from prowess.policy.actor import agent_of, local_person
from prowess.run.call import Call, Output, Step

pytestmark = pytest.mark.anyio

SIDECAR = """
title: Greeter
version: 1.0.0
artifacts:
  - path: prompts/greet.j2
    kind: prompt_template
    name: greet
    ordinal: 1
  - path: prompts/answer.j2
    kind: prompt_template
    name: Polite Answer
    ordinal: 2
"""


ANSWER = "Answer to: {{ greet }} (before: {{ previous }})"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def greeter(place, *, sidecar: str = SIDECAR, **files: str) -> None:
    place.skill(
        "greeter",
        files={
            "agents/prowess.yaml": sidecar,
            "prompts/greet.j2": "Greet {{ name }}.",
            **({"prompts/answer.j2": ANSWER} if "answer.j2" in sidecar else {}),
            **files,
        },
    )


async def traces(prowess) -> list[Any]:
    """Every trace whole, the first first."""
    return [await prowess.trace(row.id) for row in reversed(await prowess.traces())]


class Waiting:
    """A model that never answers, and says when it was asked."""

    name = "test:waiting"
    family = "test"
    structured = True

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def complete(self, _request: Request) -> Reply:
        self.asked.set()
        await asyncio.Event().wait()
        return Reply()

    async def stream(self, request: Request):
        yield "Good"
        await self.complete(request)


async def test_a_prompt_is_rendered_sent_and_answered(each_place):
    greeter(each_place)
    async with each_place.open() as prowess:
        with ScriptedModel(["Good morning, Ada!"]) as model:
            result = await prowess.run("", "greeter", "greet", inputs={"name": "Ada"}, model=model)
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


async def test_a_whole_skill_runs_in_ordinal_order_and_hands_on_what_came_out(place):
    greeter(place)
    async with place.open() as prowess:
        with ScriptedModel(["Hello!", "And hello to you."]) as model:
            result = await prowess.run("", "greeter", inputs={"name": "Ada"}, model=model)
        assert [part.artifact for part in result.parts] == ["greet", "Polite Answer"]
        assert model.requests[1].messages[-1].text == "Answer to: Hello! (before: Hello!)"
        rows = await traces(prowess)
    assert len({row.run_id for row in rows}) == 1
    assert [row.artifact_name for row in rows] == ["greet", "Polite Answer"]


async def test_artifacts_are_chosen_by_name_and_a_near_name_is_understood(place):
    greeter(place)
    async with place.open() as prowess:
        with ScriptedModel(["Yes."]) as model:
            result = await prowess.run(
                "", "greeter", "polite answer", inputs={"greet": "Hi", "previous": "Hi"}, model=model
            )
        assert [part.artifact for part in result.parts] == ["Polite Answer"]
        with pytest.raises(NotFound, match="no artifact 'sing'") as missing:
            await prowess.run("", "greeter", "sing", model=model)
        assert "'greet'" in missing.value.hint


async def test_the_text_is_streamed_to_whoever_watches(place):
    greeter(place)
    steps: list[Step] = []
    async with place.open() as prowess:
        answer = "A long answer that comes in several pieces, one after the other."
        await prowess.run(
            "", "greeter", "greet", inputs={"name": "Ada"}, model=ScriptedModel([answer]), watch=steps.append
        )
    pieces = [step.text for step in steps if step.text]
    assert len(pieces) > 1
    assert "".join(pieces) == answer


async def test_a_dry_run_sends_nothing_leaves_no_trace_and_tells_all_that_would_be_sent(place):
    greeter(place)
    async with place.open() as prowess:
        model = ScriptedModel([])
        result = await prowess.run("", "greeter", inputs={"name": "Ada"}, model=model, dry_run=True)
        assert model.requests == []
        [sent] = result.parts[0].sent
        assert (sent.model, sent.request.messages[-1].text) == ("scripted:test", "Greet Ada.")
        assert result.waiting == ("Polite Answer",)
        assert await traces(prowess) == []
        assert json.loads(json.dumps(result.as_json()))["parts"][0]["would_send"]


async def test_without_a_model_the_answer_names_the_three_ways_to_configure_one(place):
    greeter(place)
    async with place.open() as prowess:
        with pytest.raises(NoModel) as missing:
            await prowess.run("", "greeter", "greet", inputs={"name": "Ada"})
        [trace] = await traces(prowess)
    for way in ("--model", "PROWESS_MODEL", "local:smollm2"):
        assert way in missing.value.hint
    assert (trace.status, trace.error_code) == ("unavailable", "no-model")


async def test_missing_inputs_are_named_and_traced(place):
    greeter(place)
    async with place.open() as prowess:
        with pytest.raises(Invalid, match="name"):
            await prowess.run("", "greeter", "greet", model=ScriptedModel([]))
        [trace] = await traces(prowess)
    assert (trace.status, trace.error_code) == ("failed", "invalid")


@pytest.mark.parametrize(
    "inputs", [{"name": float("nan")}, {"name": b"bytes"}, {"name": {1, 2}}], ids=["nan", "bytes", "set"]
)
async def test_inputs_that_are_no_json_are_refused_before_anything_runs(place, inputs):
    greeter(place)
    async with place.open() as prowess:
        with pytest.raises(Invalid, match="no JSON"):
            await prowess.run("", "greeter", "greet", inputs=inputs, model=ScriptedModel([]))
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


async def test_where_a_part_is_unavailable_its_fallback_runs_and_both_are_traced(each_place):
    greeter(each_place, sidecar=FALLBACK, **MODULE)
    async with each_place.open() as prowess:
        with ScriptedModel(["Hello!"]) as model:
            result = await prowess.run("", "greeter", "tuned", inputs={"name": "Ada"}, model=model)
        first, second = await traces(prowess)
    assert result.text == "Hello!"
    assert [(part.artifact, part.status, part.fallback_of) for part in result.parts] == [
        ("tuned", "unavailable", None),
        ("greet", "ok", "tuned"),
    ]
    assert (first.error_code, second.fallback_of) == ("no-handler", first.id)


async def test_a_fallback_that_stands_later_runs_once_in_a_run_of_the_whole(place):
    greeter(place, sidecar=FALLBACK, **MODULE)
    async with place.open() as prowess:
        with ScriptedModel(["Hello!"]) as model:
            result = await prowess.run("", "greeter", inputs={"name": "Ada"}, model=model)
    assert [part.artifact for part in result.parts] == ["tuned", "greet"]


async def test_a_kind_without_a_handler_says_which_kinds_run(place):
    greeter(place, **{"code/count.py": "print(1)"}, sidecar="title: T\nversion: 1.0.0\n")
    async with place.open() as prowess:
        with pytest.raises(NoHandler, match="code_template") as missing:
            await prowess.run("", "greeter", "count")
    assert "prompt_template" in missing.value.hint


async def test_a_run_that_takes_too_long_is_ended_and_traced(each_place):
    greeter(each_place)
    async with each_place.open() as prowess:
        with pytest.raises(TimedOut, match=r"0\.05 seconds"):
            await prowess.run("", "greeter", "greet", inputs={"name": "Ada"}, model=Waiting(), timeout=0.05)
        [trace] = await traces(prowess)
    assert (trace.status, trace.error_code) == ("timed_out", "timed-out")
    assert trace.completed_at


async def test_a_run_that_is_cancelled_ends_at_once_and_its_trace_says_so(each_place):
    greeter(each_place)
    model = Waiting()
    async with each_place.open() as prowess:
        task = asyncio.create_task(prowess.run("", "greeter", "greet", inputs={"name": "Ada"}, model=model))
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


async def test_a_hard_assertion_fails_the_run_after_the_trace_is_written(each_place):
    greeter(each_place, sidecar=ASSERTED.replace("SEVERITY", "hard"))
    async with each_place.open() as prowess:
        with pytest.raises(AssertionFailed) as failed:
            await prowess.run("", "greeter", "greet", inputs={"name": "Ada"}, model=ScriptedModel(["Hello, Bob."]))
        [trace] = await traces(prowess)
    assert (trace.status, trace.error_code) == ("failed", "assertion-failed")
    assert (trace.assertions_run, trace.assertions_passed, trace.raw_output) == (2, 1, "Hello, Bob.")
    assert [verdict["passed"] for verdict in trace.verdicts] == [False, True]
    assert trace.id in failed.value.hint


async def test_a_soft_assertion_is_reported_and_the_run_goes_on(place):
    greeter(place, sidecar=ASSERTED.replace("SEVERITY", "soft"))
    async with place.open() as prowess:
        result = await prowess.run("", "greeter", "greet", inputs={"name": "Ada"}, model=ScriptedModel(["Hello, Bob."]))
    assert result.ok
    assert [verdict.passed for verdict in result.verdicts] == [False, True]


async def test_a_failed_attempt_is_a_result_that_has_what_came_out(place):
    greeter(place, sidecar=ASSERTED.replace("SEVERITY", "hard"))
    async with place.open() as prowess:
        result = await prowess.attempt(
            "", "greeter", "greet", inputs={"name": "Ada"}, model=ScriptedModel(["Hello, Bob."])
        )
    assert isinstance(result.error, AssertionFailed)
    assert result.parts[0].output is not None
    assert result.as_json()["error"]["code"] == "assertion-failed"


async def test_the_events_of_a_run_tell_its_beginning_and_its_end(each_place):
    greeter(each_place)
    async with each_place.open() as prowess:
        result = await prowess.run("", "greeter", "greet", inputs={"name": "Ada"}, model=ScriptedModel(["Hi."]))
    async with each_place.open() as prowess:
        events = await prowess.events(names=("run_started", "run_finished"))
    assert [event.name for event in events] == ["run_started", "run_finished"]
    assert {event.data["run"] for event in events} == {result.run_id}
    assert events[1].data["status"] == "ok"


async def test_an_agent_runs_its_own_persons_skills_at_once_and_asks_where_the_policy_says_so(place):
    greeter(place)
    person = local_person("ann")
    agent = agent_of(person, name="helper")
    async with place.open(person) as prowess:
        model = ScriptedModel(["One.", "Two.", "Three."])
        await prowess.run("", "greeter", "greet", inputs={"name": "A"}, model=model, actor=agent)
        await prowess.set_policy("skill_enablement_policy", "prompt-user")
        with pytest.raises(ApprovalRequired) as asked:
            await prowess.run("", "greeter", "greet", inputs={"name": "A"}, model=model, actor=agent)
        await prowess.resolve(asked.value.approval_id, approved=True)
        for _ in range(2):  # the yes lasts as long as the bytes do
            await prowess.run("", "greeter", "greet", inputs={"name": "A"}, model=model, actor=agent)
        greeter(place, **{"prompts/greet.j2": "Insult {{ name }}."})
        await prowess.reload()
        with pytest.raises(ApprovalRequired):
            await prowess.run("", "greeter", "greet", inputs={"name": "A"}, model=model, actor=agent)


async def test_a_skill_can_have_a_person_asked_before_an_agent_runs_it(place):
    greeter(place, sidecar=SIDECAR + "policy:\n  requires_approval: true\n")
    person = local_person("ann")
    async with place.open(person) as prowess:
        with pytest.raises(ApprovalRequired):
            await prowess.run("", "greeter", "greet", actor=agent_of(person), model=ScriptedModel([]))
        result = await prowess.run("", "greeter", "greet", inputs={"name": "A"}, model=ScriptedModel(["Hi."]))
    assert result.ok


async def test_a_role_that_does_not_run_is_refused(place):
    from prowess.errors import Refused

    greeter(place)
    person = local_person("ann")
    async with place.open(person) as prowess:
        with pytest.raises(Refused, match="scout"):
            await prowess.run("", "greeter", "greet", actor=agent_of(person, role="scout"), model=ScriptedModel([]))


async def test_a_skill_can_shorten_its_time_and_never_lengthen_it(place):
    greeter(place, sidecar=SIDECAR + "policy: {timeout_seconds: 0.05}\n")
    async with place.open() as prowess:
        with pytest.raises(TimedOut, match=r"0\.05 seconds"):
            await prowess.run("", "greeter", "greet", inputs={"name": "Ada"}, model=Waiting(), timeout=60)


async def test_a_skill_says_what_its_traces_may_hold_and_what_it_produces(place):
    said = "observability: {redact_fields: [name], log_output: false}\nproduces_artifacts: [{name: greeting.txt}]\n"
    greeter(place, sidecar=SIDECAR + said)
    async with place.open() as prowess:
        result = await prowess.run("", "greeter", "greet", inputs={"name": "Ada"}, model=ScriptedModel(["Hello."]))
        [trace] = await traces(prowess)
    assert (trace.inputs, trace.rendered_input, trace.raw_output) == ({"name": "[withheld]"}, None, None)
    [produced] = result.produced
    assert (produced.name, produced.media_type, produced.content) == ("greeting.txt", "text/plain", "Hello.")


async def test_what_is_withheld_is_nowhere_in_the_trace(place):
    greeter(place, sidecar=SIDECAR + "observability: {redact_fields: [name]}\n")
    async with place.open() as prowess:
        model = ScriptedModel(["Hello, Ada Lovelace!"])
        result = await prowess.run("", "greeter", "greet", inputs={"name": "Ada Lovelace"}, model=model)
        [trace] = await traces(prowess)
    assert result.text == "Hello, Ada Lovelace!"
    assert trace.rendered_input == "Greet [redacted]."
    assert "Lovelace" not in str(trace)


async def test_a_session_lends_its_model_and_the_trace_names_the_session(place, tmp_path):
    greeter(place)
    script = tmp_path / "answers.json"
    script.write_text(json.dumps(["Hi."]))
    async with place.open() as prowess:
        session = await prowess.session("talk", model=f"scripted:{script}")
        result = await prowess.run(session, "greeter", "greet", inputs={"name": "Ada"})
        [trace] = await traces(prowess)
    assert result.text == "Hi."
    assert trace.session_id == session.id


async def test_no_secret_of_the_environment_reaches_a_trace_or_an_error(each_place):
    secret = "tangerine-9f8e7d6c5b4a"
    greeter(each_place)
    place = replace(each_place, environment={**each_place.environment, "ACME_API_KEY": secret})
    async with place.open() as prowess:
        await prowess.run("", "greeter", "greet", inputs={"name": secret}, model=ScriptedModel([f"It is {secret}."]))
        with pytest.raises(Unavailable) as failed:
            await prowess.run(
                "",
                "greeter",
                "greet",
                inputs={"name": "x"},
                model=ScriptedModel([Unavailable(f"key {secret} refused")]),
            )
        assert secret not in str(failed.value)
        rows = await traces(prowess)
    assert len(rows) == 2
    assert secret not in "".join(map(str, rows))


class Shouting:
    """A handler that a plugin could bring."""

    kind = "code_template"

    async def run(self, call: Call) -> Output:
        return Output(kind="code_template", text=call.artifact.content.upper(), data={"loud": call.inputs["word"]})


async def test_a_plugin_can_bring_a_handler_and_the_fields_of_its_output_are_inputs_of_the_next(place, monkeypatch):
    monkeypatch.setattr("prowess.plugins.plugins", lambda: [Plugin(name="loud", handlers=(Shouting(),))])
    chain = SIDECAR.replace("prompts/greet.j2", "code/shout.py").replace(
        "prompt_template\n    name: greet", "code_template\n    name: shout"
    )
    greeter(place, sidecar=chain, **{"code/shout.py": "print(1)", "prompts/answer.j2": "{{ loud }} {{ shout.loud }}"})
    async with place.open() as prowess:
        with ScriptedModel(["Fine."]) as model:
            await prowess.run("", "greeter", ["shout", "Polite Answer"], inputs={"word": "hey"}, model=model)
    assert model.requests[0].messages[-1].text == "hey hey"


async def test_a_handler_that_breaks_is_a_failed_run_and_nothing_else(place, monkeypatch):
    class Broken:
        kind = "code_template"

        async def run(self, _call: Call) -> Output:
            raise ZeroDivisionError("secret detail")

    monkeypatch.setattr("prowess.plugins.plugins", lambda: [Plugin(name="broken", handlers=(Broken(),))])
    greeter(place, sidecar="title: T\nversion: 1.0.0\n", **{"code/count.py": "print(1)"})
    async with place.open() as prowess:
        result = await prowess.attempt("", "greeter", "count")
        assert result.error is not None
        assert "ZeroDivisionError" in result.error.message
        assert "secret detail" not in result.error.message
        [trace] = await traces(prowess)
    assert trace.status == "failed"


async def test_another_users_run_is_not_seen(each_place):
    greeter(each_place)
    ann = Actor(name="ann", organization="acme", user="ann", permissions=frozenset({"skills.read"}))
    bob = Actor(name="bob", organization="acme", user="bob", permissions=frozenset({"skills.read"}))
    async with each_place.open(ann) as prowess:
        result = await prowess.run("", "greeter", "greet", inputs={"name": "A"}, model=ScriptedModel(["Hi."]))
        trace = result.parts[0].trace
        assert [row.id for row in await prowess.traces()] == [trace]
        assert await prowess.traces(actor=bob) == []
        with pytest.raises(NotFound) as foreign:
            await prowess.trace(trace, actor=bob)
        with pytest.raises(NotFound) as unknown:
            await prowess.trace("00000000-0000-0000-0000-000000000000", actor=bob)
    assert foreign.value.message.replace(trace, "ID") == unknown.value.message.replace(
        "00000000-0000-0000-0000-000000000000", "ID"
    )


class Acting:
    """A handler that does something in the world."""

    kind = "function"

    def __init__(self) -> None:
        self.runs = 0

    async def run(self, _call: Call) -> Output:
        self.runs += 1
        return Output(kind="function", data={"done": True})


async def test_a_dry_run_ends_before_anything_acts(place, monkeypatch):
    handler = Acting()
    monkeypatch.setattr("prowess.plugins.plugins", lambda: [Plugin(name="acting", handlers=(handler,))])
    place.skill(
        "worker", files={"agents/prowess.yaml": "title: W\nversion: 1.0.0\n", "execute.py": "def execute(): ..."}
    )
    async with place.open() as prowess:
        result = await prowess.run("", "worker", dry_run=True)
        assert (handler.runs, [part.output for part in result.parts]) == (0, [None])
        await prowess.run("", "worker")
    assert handler.runs == 1


async def test_where_outputs_are_not_kept_they_are_not_kept_as_inputs_or_reasons_either(place):
    said = "observability: {log_output: false}\n"
    asserted = '    assertions: [{type: pattern, check: match, pattern: "nowhere"}]\n'
    greeter(place, sidecar=SIDECAR + asserted + said)
    async with place.open() as prowess:
        model = ScriptedModel(["The secret word is marzipan.", "Marzipan indeed."])
        result = await prowess.attempt("", "greeter", inputs={"name": "Ada"}, model=model)
        assert isinstance(result.error, AssertionFailed)
        rows = await traces(prowess)
    assert len(rows) == 2
    assert "arzipan" not in "".join(map(str, rows))


@pytest.mark.parametrize("said", ["{redact_fields: name}", "{redact_fields: {name: true}}"], ids=["a name", "no names"])
async def test_fields_to_redact_that_are_no_list_keep_as_much_out(place, said):
    greeter(place, sidecar=SIDECAR + f"observability: {said}\n")
    async with place.open() as prowess:
        await prowess.run("", "greeter", "greet", inputs={"name": "Ada Lovelace"}, model=ScriptedModel(["Hello."]))
        [trace] = await traces(prowess)
    assert "Lovelace" not in str(trace)


@pytest.mark.parametrize("name", ["timeout_seconds", "max_cost_usd"])
async def test_a_limit_that_is_no_number_keeps_the_skill_from_running(place, name):
    greeter(place, sidecar=SIDECAR + f"policy: {{{name}: soon}}\n")
    async with place.open() as prowess:
        with pytest.raises(Invalid, match=name):
            await prowess.run("", "greeter", "greet", inputs={"name": "Ada"}, model=ScriptedModel([]))


async def test_what_a_skill_may_cost_is_counted_over_all_its_artifacts(place):
    greeter(place, sidecar=SIDECAR + "policy: {max_cost_usd: 0.05}\n")
    async with place.open() as prowess:
        usage = Usage(input_tokens=10, output_tokens=2_000, requests=1)
        model = ScriptedModel([Reply(text="Hi.", usage=usage)] * 2, name="openai:gpt-4o")
        result = await prowess.attempt("", "greeter", inputs={"name": "Ada"}, model=model)
    assert [part.status for part in result.parts] == ["ok", "refused"]
    assert isinstance(result.error, SpendExceeded)


async def test_a_time_out_of_the_handlers_own_is_not_taken_for_the_end_of_its_time(place, monkeypatch):
    class Impatient:
        kind = "function"

        async def run(self, _call: Call) -> Output:
            raise TimeoutError("the socket")

    monkeypatch.setattr("prowess.plugins.plugins", lambda: [Plugin(name="impatient", handlers=(Impatient(),))])
    place.skill(
        "worker", files={"agents/prowess.yaml": "title: W\nversion: 1.0.0\n", "execute.py": "def execute(): ..."}
    )
    async with place.open() as prowess:
        result = await prowess.attempt("", "worker")
    assert result.parts[0].status == "failed"
    assert result.error is not None
    assert "TimeoutError" in result.error.message
