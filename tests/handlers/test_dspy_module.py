"""dspy_module: a template with its state, whose calls are answered by models, tools, assertions and the sandbox."""

from __future__ import annotations

import json
from typing import Any

import pytest

from prowess.errors import AssertionFailed, Invalid, RunFailed, SidecarFailed, TryLater, Unavailable
from prowess.llm.scripted import ScriptedModel
from prowess.open import Prowess
from prowess.policy.actor import Actor
from prowess.run.request import RunRequest
from prowess.settings import read_settings
from prowess.sidecar.scripted import ScriptedSidecar
from prowess.skill.kinds import DspyModule, PromptTemplate
from prowess.skill.model import Skill

pytestmark = pytest.mark.anyio

ASSERTIONS = [
    {"type": "pattern", "check": "match", "pattern": "2", "description": "It has a 2."},
    {"type": "pattern", "check": "match", "pattern": "3", "description": "It has a 3.", "severity": "soft"},
]
PREDICTOR = {"demos": [], "signature": {"instructions": "Count.", "fields": []}}
STATE = {"predict": PREDICTOR, "metadata": {"dependency_versions": {"dspy": "3.3.0"}}}


@pytest.fixture
def write(place):
    """Write a skill with a dspy_module `count` and its fallback."""

    def make(content: dict[str, Any], *, state: Any = None, slug: str = "counter", assertions: Any = ()) -> None:
        module = {"path": "dspy/count.json", "kind": "dspy_module", "name": "count", "fallback": "ask"}
        listed = [
            {**module, "assertions": list(assertions)},
            {"path": "prompts/ask.j2", "kind": "prompt_template", "name": "ask", "ordinal": 5},
        ]
        files = {
            "agents/prowess.yaml": json.dumps({"title": slug, "artifacts": listed}),
            "dspy/count.json": json.dumps(content),
            "prompts/ask.j2": "Count the words.",
        }
        if state is not None:
            files["dspy/count.state.json"] = json.dumps(state)
        place.skill(slug, files=files)

    return make


@pytest.fixture
def run(place):
    """Run `count` of a skill with a scripted sidecar and model; return the result and the rows of its trace."""

    async def started(sidecar: ScriptedSidecar, *replies: Any, slug: str = "counter", **inputs: Any):
        async with Prowess.open(settings=read_settings(place.environment), sidecar=sidecar) as prowess:
            with sidecar, ScriptedModel(list(replies)) as model:
                request = RunRequest(slug=slug, artifacts=("count",), inputs=inputs, model=model)
                result = await prowess.runs.attempt(request)
            rows = [await prowess.traces.get(row.id) for row in await prowess.traces.list()]
            return result, rows, model

    return started


PROGRAM = {"template_id": "refine", "signature": "text, unit: str -> number: int", "n": 2}


async def test_the_template_gets_its_inputs_options_and_state_and_its_outputs_are_the_output(write, run) -> None:
    write(PROGRAM, state=STATE)

    async def work(program, params, callbacks):
        reply = await callbacks.llm({"messages": [{"role": "system", "text": "Count."}, {"role": "user", "text": "?"}]})
        return {"number": int(reply["text"])}

    sidecar = ScriptedSidecar([work])
    result, [row], model = await run(sidecar, "12", text="a b", unit="words", other="not an input")
    assert result.output.data == {"number": 12}
    [(program, params)] = sidecar.programs
    assert (program.template_id, program.signature, program.options) == ("refine", PROGRAM["signature"], {"n": 2})
    assert params == {"text": "a b", "unit": "words"}
    assert program.state["predict"]["signature"]["instructions"] == "Count."
    assert [message.role for message in model.requests[0].messages] == ["system", "user"]
    assert (row.status, row.raw_output, row.model_id) == ("ok", "12", "scripted:test")
    assert row.input_tokens > 0
    assert row.detail["dspy"] == {"template_id": "refine", "version": "3.4.1", "state_made_with": "3.3.0"}
    assert sidecar.is_closed


async def test_a_metric_is_the_share_of_the_assertions_that_pass_and_says_why_others_fail(write, run) -> None:
    write(PROGRAM, assertions=ASSERTIONS)
    scores: list[Any] = []

    async def work(program, params, callbacks):
        scores.extend([await callbacks.metric({"outputs": {"number": number}}) for number in (1, 2, 23)])
        return {"number": 2}

    result, [row], _ = await run(ScriptedSidecar([work]), text="a", unit="b")
    assert [score["score"] for score in scores] == [0.0, 0.5, 1.0]
    assert "It has a 3" in scores[1]["feedback"]
    assert result.ok
    assert (row.assertions_run, row.assertions_passed) == (2, 1)
    failing, _, _ = await run(ScriptedSidecar([{"number": 1}]), text="a", unit="b")
    assert isinstance(failing.error, AssertionFailed)


async def test_calls_of_another_shape_are_read_as_empty(write, run) -> None:
    write(PROGRAM, assertions=ASSERTIONS)
    scores: list[Any] = []

    async def work(program, params, callbacks):
        scores.extend([await callbacks.metric({"outputs": outputs}) for outputs in (None, "abc", [1])])
        await callbacks.llm({"messages": "abc"})
        await callbacks.llm({"messages": [1]})
        return {"number": 23}

    result, _, model = await run(ScriptedSidecar([work]), "a", "b", text="a", unit="b")
    assert result.ok
    assert [score["score"] for score in scores] == [0.0] * 3
    assert [len(request.messages) for request in model.requests] == [0, 1]


async def test_tools_are_host_functions_and_other_skills_that_the_module_names(write, run, place) -> None:
    (place.workspace / "harbour.md").write_text("# Harbour\nBuilt in 1201.\n")
    place.skill("greet", body="x", files={"agents/prowess.yaml": "title: G", "prompts/p.j2": "Greet {{ name }}."})
    greet = {"skill": "greet", "description": "Greets.", "parameters": {"properties": {"name": {"type": "string"}}}}
    write({"template_id": "react", "signature": "text -> number", "tools": ["get_page", greet]})
    seen: list[Any] = []

    async def work(program, params, callbacks):
        assert [tool["name"] for tool in program.options["tools"]] == ["get_page", "skill_greet"]
        seen.append(await callbacks.tool({"name": "get_page", "arguments": {"slug": "harbour"}}))
        seen.append(await callbacks.tool({"name": "skill_greet", "arguments": {"name": "Ann"}}))
        for name, arguments in (("get_tags", {}), ("get_page", {"path": "/etc/passwd"})):
            with pytest.raises(Invalid):
                await callbacks.tool({"name": name, "arguments": arguments})
        return {"number": "1"}

    result, rows, model = await run(ScriptedSidecar([work]), "Hello Ann.", text="x")
    assert result.ok
    assert "1201" in json.dumps(seen[0])
    assert seen[1] == "Hello Ann."
    assert model.requests[0].messages[-1].text == "Greet Ann."
    assert {row.artifact_kind for row in rows} == {"dspy_module", "prompt_template"}


async def test_the_error_of_a_model_is_the_error_of_the_run(write, run) -> None:
    write(PROGRAM)

    async def work(program, params, callbacks):
        try:
            await callbacks.llm({"messages": []})
        except RunFailed:
            raise SidecarFailed("The program failed in the DSPy sidecar: run-failed") from None

    result, [row], _ = await run(ScriptedSidecar([work]), RunFailed("The model refuses."), text="a", unit="b")
    assert str(result.error) == "The model refuses."
    assert row.error_code == "run-failed"


@pytest.mark.parametrize("failure", [Unavailable("It does not start."), TryLater("The index is down.")])
async def test_where_the_sidecar_is_unavailable_the_fallback_runs_and_both_are_traced(write, run, failure) -> None:
    write(PROGRAM)
    result, rows, _ = await run(ScriptedSidecar([failure]), "Two.", text="a", unit="b")
    assert result.text == "Two."
    assert {row.artifact_kind: row.status for row in rows} == {"dspy_module": "unavailable", "prompt_template": "ok"}


async def test_a_state_that_is_not_one_never_reaches_the_sidecar(write, run) -> None:
    write(PROGRAM, state={"predict": {**PREDICTOR, "forward": "os.system"}})
    sidecar = ScriptedSidecar()
    result, rows, _ = await run(sidecar, "Two.", text="a", unit="b")
    assert (result.text, sidecar.programs) == ("Two.", [])
    assert any("cannot be used" in (row.error or "") for row in rows)


async def test_a_crash_is_a_failure_and_not_a_reason_for_the_fallback(write, run) -> None:
    write(PROGRAM)
    result, [row], _ = await run(ScriptedSidecar([SidecarFailed("It ended.")]), text="a", unit="b")
    assert isinstance(result.error, SidecarFailed)
    assert (row.status, row.error_code) == ("failed", "sidecar-failed")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"template_id": 3, "signature": "a -> b"}, "template_id"),
        ({"template_id": "predict", "signature": 3}, "signature"),
        ({"template_id": "predict", "signature": "text, missing -> b"}, "Missing inputs of 'count': missing"),
        ({"template_id": "react", "signature": "text -> b", "tools": "get_page"}, "must be a list"),
        ({"template_id": "react", "signature": "text -> b", "tools": [{"name": "x"}]}, "name of a host function"),
    ],
)
async def test_content_that_cannot_run_is_invalid(write, run, content, said) -> None:
    write(content)
    result, _, _ = await run(ScriptedSidecar(), text="a")
    assert isinstance(result.error, Invalid)
    assert said in result.error.message


async def test_a_dry_run_shows_what_the_sidecar_would_get_and_starts_nothing(write, place) -> None:
    write(PROGRAM)
    with ScriptedSidecar() as sidecar:
        async with Prowess.open(settings=read_settings(place.environment), sidecar=sidecar) as prowess:
            model = ScriptedModel([])
            result = await prowess.run(
                "counter", {"text": "a", "unit": "b"}, artifacts="count", model=model, dry_run=True
            )
    assert json.loads(result.parts[0].plan) == {**PROGRAM, "params": {"text": "a", "unit": "b"}}


async def test_each_organization_uses_its_own_process_of_the_sidecar(each_place) -> None:
    asked: list[str] = []

    class Noting(ScriptedSidecar):
        def for_organization(self, organization: str) -> ScriptedSidecar:
            asked.append(organization)
            return self

    module = DspyModule(
        name="count", content='{"template_id": "predict", "signature": "text -> number"}', fallback="ask"
    )
    parts = (module, PromptTemplate(name="ask", content="Count."))
    skill = Skill(slug="counter", title="Counter", description="Counts words.", artifacts=parts)
    settings = read_settings(each_place.environment)
    with Noting([{"number": 1}, {"number": 2}]) as sidecar:
        async with Prowess.open(settings=settings, sidecar=sidecar) as prowess:
            for organization in ("acme", "globex"):
                engine = prowess.as_actor(Actor(name="ann", organization=organization, user="ann"))
                await engine.skills.create(skill, scope="user")
                await engine.run("counter", {"text": "a"}, artifacts="count", model=ScriptedModel([]))
    assert asked == ["acme", "globex"]
