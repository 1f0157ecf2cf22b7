"""Skills that run others: what they may use up, what they may run, and what is told of what they were given in confidence."""

from __future__ import annotations

import json
from typing import Any

import pytest

from prowess.errors import Refused, RunFailed
from prowess.llm.model import Reply, Usage
from prowess.llm.scripted import ScriptedModel
from prowess.policy.actor import agent_of, local_person
from prowess.run.request import RunRequest
from prowess.skill.kinds import Function
from prowess.skill.model import Skill

pytestmark = pytest.mark.anyio
VALUE = "open-sesame-to-all"
RUNS_OTHER = "import prowess\ndef execute(args, ctx):\n    return prowess.run_skill('other', {})"
PERSON = local_person("pat")
AGENT = agent_of(PERSON, name="robin")


def skill(place: Any, slug: str, code: str, **manifest: Any) -> None:
    told = {"id": slug, "name": slug, "description": f"Does {slug}.", **manifest}
    place.write(slug, {"skill.json": json.dumps(told), "execute.py": code})


async def created(prowess: Any, slug: str, code: str, *allowed: str) -> None:
    """A skill that an agent has written."""
    artifact = Function(name="execute", path="execute.py", content=code)
    made = Skill(slug=slug, title=slug, description=f"Does {slug}.", artifacts=(artifact,), allowed_tools=allowed)
    await prowess.as_actor(AGENT).skills.create(made)


async def test_code_of_an_agent_runs_no_skill_that_it_does_not_name(sandboxed):
    skill(sandboxed, "other", "def execute(args, ctx):\n    return 'ran'")
    skill(sandboxed, "local", RUNS_OTHER)
    async with sandboxed.open(PERSON) as prowess:
        await created(prowess, "outer", RUNS_OTHER)
        with pytest.raises(Refused, match="its `allowed-tools` does not include it"):
            await prowess.as_actor(AGENT).run("outer")
        assert (await prowess.as_actor(AGENT).run("local")).data == "ran"


@pytest.mark.parametrize(("named", "runs"), [("run_skill", False), ("skill_other", True)])
async def test_code_of_an_agent_runs_what_reaches_outside_only_by_its_name(sandboxed, accept, named, runs):
    skill(sandboxed, "other", "def execute(args, ctx):\n    return 'ran'", hosts=["api.example.org"])
    async with sandboxed.open(PERSON) as prowess:
        await created(prowess, "outer", RUNS_OTHER, named)
        await accept(prowess, "other")
        result = await prowess.as_actor(AGENT).runs.attempt(RunRequest(slug="outer"))
    assert (result.data == "ran", isinstance(result.error, Refused)) == (runs, not runs)
    assert result.parts[0].receipt["refused"] == ({} if runs else {"skills": {"other": 1}})


async def test_questions_of_inner_runs_count_for_the_outer_one(sandboxed):
    asks = "import prowess\ndef execute(args, ctx):\n    return len(prowess.llm_query_batched(['q'] * 60))"
    skill(sandboxed, "other", asks)
    skill(sandboxed, "outer", "import prowess\ndef execute(args, ctx):\n    for _ in 'ab': prowess.run_skill('other')")
    model = ScriptedModel(["a"] * 200, unordered=True)
    async with sandboxed.open() as prowess:
        with pytest.raises(RunFailed, match="limit of 100 model requests"):
            await prowess.run("outer", model=model)
    assert len(model.requests) == 100


async def test_a_value_of_the_environment_is_in_no_trace_event_or_receipt_of_outer_and_inner_runs(sandboxed, traces):
    code = """
import prowess
def execute(args, ctx):
    login = ctx.env["EXAMPLE_LOGIN"]
    prowess.checkpoint({"at": login})
    for refused in (lambda: ctx.read_file("/" + login), lambda: prowess.run_skill(login)):
        try:
            refused()
        except Exception:
            pass
    prowess.run_skill("other", {"login": login})
"""
    skill(sandboxed, "outer", code, env=["EXAMPLE_LOGIN"])
    skill(sandboxed, "other", "def execute(args, ctx):\n    ctx.log(args['login'])\n    return len(args['login'])")
    sandboxed.environment["EXAMPLE_LOGIN"] = VALUE
    steps: list[Any] = []
    async with sandboxed.open() as prowess:
        await prowess.env.allow("outer", "EXAMPLE_LOGIN")
        result = await prowess.run("outer", on_step=steps.append)
        rows = await traces(prowess)
    assert {row.skill_slug for row in rows} == {"outer", "other"}
    assert [step.detail for step in steps if step.state == "CHECKPOINT"] == [{"value": {"at": "[redacted]"}}]
    told = repr([rows, steps, [part.receipt for part in result.parts]])
    assert "EXAMPLE_LOGIN" in told
    assert VALUE not in told


async def test_what_inner_runs_cost_counts_for_the_outer_one(sandboxed):
    asks = "import prowess\ndef execute(args, ctx):\n    return prowess.llm_query('q')"
    skill(sandboxed, "other", asks)
    twice = "import prowess\ndef execute(args, ctx):\n    return [prowess.run_skill('other') for _ in 'ab']"
    sidecar = "title: Outer\nversion: 1.0.0\npolicy: {max_cost_usd: 0.1}\n"
    sandboxed.skill("outer", files={"agents/prowess.yaml": sidecar, "execute.py": twice})
    usage = Usage(input_tokens=10, output_tokens=4_000, requests=1)
    model = ScriptedModel([Reply(text="Hi.", usage=usage)] * 2, name="openai:gpt-4o")
    async with sandboxed.open() as prowess:
        result = await prowess.runs.attempt(RunRequest(slug="outer", model=model))
    assert "may cost $0.1000 per run" in str(result.error)
    assert len(model.requests) == 1


async def test_inner_runs_of_an_evaluation_are_part_of_it_and_open_no_conversation(sandboxed):
    skill(sandboxed, "other", "def execute(args, ctx):\n    return 'ran'")
    skill(sandboxed, "outer", RUNS_OTHER)
    async with sandboxed.open() as prowess:
        run = await prowess.runs.attempt(RunRequest(slug="outer", evaluation="eval:7"))
        rows = await prowess.traces.list()
        sessions = await prowess.sessions.list()
    assert run.data == "ran"
    assert {row.skill_slug: row.session_id for row in rows} == {"outer": "eval:7", "other": "eval:7"}
    assert sessions == []
