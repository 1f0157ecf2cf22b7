"""A run that was interrupted after a checkpoint goes on from there: nothing that was answered is asked again."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from typing import Any

import pytest

from prowess.errors import Conflict, Invalid, NotFound
from prowess.llm.scripted import ScriptedModel
from prowess.policy.actor import Actor
from prowess.run.request import RunRequest, Step

pytestmark = pytest.mark.anyio

SCRIPT = """
import random
import prowess

first = prowess.llm_query("What is first?")
number = random.random()
prowess.checkpoint(number)
second = prowess.llm_query(f"What follows {first}?")
prowess.submit({"answers": [first, second], "number": number, "entity": entity})
"""
FOLLOWS = "Tell about {{ script.answers.0 }} and {{ entity }}."
SIDECAR = """
title: Long
artifacts:
  - {path: code/script.py, kind: code_template, name: script, ordinal: 1}
  - {path: prompts/tell.j2, kind: prompt_template, name: tell, ordinal: 2}
"""
PROGRAM = """
import asyncio, os, sys
from prowess import Prowess, ScriptedModel
from prowess.llm.scripted import Answer

class Stops(ScriptedModel):
    async def complete(self, request):
        if "follows" in request.messages[-1].text:
            print("reached", flush=True)
            await asyncio.Event().wait()
        return await super().complete(request)

async def main():
    async with Prowess.open(workspace=sys.argv[1]) as prowess:
        await prowess.run("long", {"entity": "Mara"}, model=Stops(["alpha", "beta"]))

asyncio.run(main())
"""


@pytest.fixture
def long(each_sandboxed: Any) -> Any:
    """A place with a skill of a script and a prompt after it."""
    each_sandboxed.skill(
        "long", files={"agents/prowess.yaml": SIDECAR, "code/script.py": SCRIPT, "prompts/tell.j2": FOLLOWS}
    )
    return each_sandboxed


async def interrupted(prowess: Any, answers: list[Any], watch: Any = None) -> str:
    """The trace of a run that failed for want of an answer."""
    model = ScriptedModel(answers)
    result = await prowess.runs.attempt(RunRequest(slug="long", inputs={"entity": "Mara"}, model=model, on_step=watch))
    assert not result.ok
    assert [part.resumable for part in result.parts] == [True]
    return result.parts[-1].trace


async def test_it_asks_only_what_was_not_answered_and_goes_on_with_what_follows(long):
    async with long.open() as prowess:
        trace = await interrupted(prowess, ["alpha"])
        with ScriptedModel(["beta", "Told."]) as model:
            result = await prowess.run("long", resume=trace[:8], model=model)
        asked = [request.messages[-1].text for request in model.requests]
        rows = {row.id: await prowess.traces.get(row.id) for row in await prowess.traces.list()}
    assert asked == ["What follows alpha?", "Tell about alpha and Mara."]
    assert result.text == "Told."
    assert result.parts[0].output.data["answers"] == ["alpha", "beta"]
    assert rows[result.parts[0].trace].detail["resumed"] == {"trace": trace, "calls": 2}


async def test_random_numbers_are_those_of_the_first_run(long):
    steps: list[Step] = []
    resumed: list[float] = []
    async with long.open() as prowess:
        for _ in range(2):
            trace = await interrupted(prowess, ["alpha"], steps.append)
            result = await prowess.runs.attempt(RunRequest(slug="long", resume=trace, model=ScriptedModel(["beta"])))
            resumed.append(result.parts[0].output.data["number"])
    assert resumed == [step.detail["value"] for step in steps if step.state == "CHECKPOINT"]
    assert len(set(resumed)) == 2  # each run has its own


async def test_what_has_come_to_its_end_cannot_be_resumed(long):
    async with long.open() as prowess:
        trace = await interrupted(prowess, ["alpha"])
        await prowess.run("long", resume=trace, model=ScriptedModel(["beta", "Told."]))
        for one in [row.id for row in await prowess.traces.list()]:
            with pytest.raises(NotFound, match="No checkpoint found"):
                await prowess.run("long", resume=one)


async def test_a_run_that_ends_before_its_checkpoint_cannot_be_resumed(long):
    async with long.open() as prowess:
        result = await prowess.runs.attempt(RunRequest(slug="long", inputs={"entity": "Mara"}, model=ScriptedModel([])))
        assert not result.parts[0].resumable
        with pytest.raises(NotFound, match="No checkpoint found"):
            await prowess.run("long", resume=result.parts[0].trace)


async def test_a_skill_that_has_changed_is_not_resumed(long):
    async with long.open() as prowess:
        trace = await interrupted(prowess, ["alpha"])
    long.skill("long", files={"agents/prowess.yaml": SIDECAR, "code/script.py": "1", "prompts/tell.j2": FOLLOWS})
    async with long.open() as prowess:
        with pytest.raises(Conflict, match="has changed since"):
            await prowess.run("long", resume=trace)


async def test_nobody_resumes_the_run_of_another_user(long):
    async with long.open() as prowess:
        trace = await interrupted(prowess, ["alpha"])
        with pytest.raises(NotFound, match="No checkpoint found"):
            await prowess.as_actor(Actor(name="eve", user="eve")).run("long", resume=trace)


@pytest.mark.parametrize("given", [{"inputs": {"entity": "x"}}, {"artifacts": "script"}])
async def test_inputs_and_artifacts_are_those_of_the_first_run(long, given):
    async with long.open() as prowess:
        with pytest.raises(Invalid, match="its original artifact and inputs"):
            await prowess.run("long", resume="0000", **given)


@pytest.mark.parametrize("trace", ["abc", "%%%%", "no-such-trace", "\x00\x00\x00\x00", "____"])
async def test_what_names_no_run_is_not_found(long, trace):
    async with long.open() as prowess:
        with pytest.raises(NotFound, match="No checkpoint found"):
            await prowess.run("long", resume=trace)


@pytest.mark.parametrize("said", ["log_input: false", "log_output: false", "redact_fields: [entity]"])
async def test_a_skill_that_has_nothing_kept_has_no_checkpoint_kept_either(long, said):
    sidecar = f"{SIDECAR}observability: {{{said}}}\n"
    long.skill("long", files={"agents/prowess.yaml": sidecar, "code/script.py": SCRIPT, "prompts/tell.j2": FOLLOWS})
    async with long.open() as prowess:
        result = await prowess.runs.attempt(
            RunRequest(slug="long", inputs={"entity": "Mara"}, model=ScriptedModel(["alpha"]))
        )
        assert not result.parts[0].resumable


def killed_after_its_checkpoint(place: Any) -> None:
    environment = {**os.environ, **place.environment, "PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(place.workspace)], env=environment, stdout=subprocess.PIPE
    ) as program:
        assert program.stdout is not None
        try:
            assert program.stdout.readline() == b"reached\n"
        finally:
            program.kill()


async def test_a_run_whose_process_was_killed_goes_on_in_another(long):
    await asyncio.to_thread(killed_after_its_checkpoint, long)
    async with long.open() as prowess:
        [row] = await prowess.traces.list()
        with ScriptedModel(["beta", "Told."]) as model:
            result = await prowess.run("long", resume=row.id, model=model)
    assert result.parts[0].output.data["answers"] == ["alpha", "beta"]
    assert json.loads(json.dumps(result.as_json()))["ok"]


async def test_no_checkpoint_is_kept_that_has_something_secret_in_it(long, traces):
    async with long.open() as prowess:
        secret = "api_key=sk-proj-0123456789abcdefghijklmn"
        result = await prowess.runs.attempt(
            RunRequest(slug="long", inputs={"entity": secret}, model=ScriptedModel(["alpha"]))
        )
        assert [part.resumable for part in result.parts] == [False]
        [row] = await traces(prowess)
        assert "secret" in row.detail["checkpoint"]["why"]
        with pytest.raises(NotFound):
            await prowess.run("long", resume=row.id, model=ScriptedModel([]))
