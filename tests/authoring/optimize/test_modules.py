"""Optimizing through the sidecar: a module around a prompt, the state of a module, and what happens at a new version."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest
from tests.cpu import cpu_limit

from prowess.authoring.evals.case import EvalCase
from prowess.authoring.evals.splits import held_out_cases, optimizer_cases
from prowess.authoring.optimize.artifact_plan import make_signature
from prowess.authoring.optimize.search import SHARES
from prowess.engine import runtime
from prowess.errors import Invalid, Refused, SidecarFailed, Unavailable
from prowess.jobs.tasks import TASKS
from prowess.sidecar.environment import SidecarEnvironment
from prowess.sidecar.protocol import Optimized
from prowess.sidecar.scripted import ScriptedSidecar
from prowess.skill.kinds import PromptTemplate

from .conftest import PROMPT, SIDECAR, SortingModel, make_cases

pytestmark = pytest.mark.anyio

SIGNATURE = {"instructions": "Answer with one word.", "fields": [{"prefix": "Message:", "description": "${message}"}]}
DEMO = {"message": "Where is my parcel?", "output": "shipping"}


def make_state(*, dspy: str = "3.4.1", demos: tuple = (DEMO,)) -> dict:
    return {
        "traces": [],
        "train": [],
        "demos": list(demos),
        "signature": SIGNATURE,
        "lm": None,
        "metadata": {"dependency_versions": {"dspy": dspy}},
    }


def count_held_out(artifact: str = "sort") -> int:
    return len(held_out_cases(list_cases(artifact), SHARES).cases)


def list_cases(artifact: str) -> list[EvalCase]:
    return [EvalCase(id=one["id"], inputs=one["inputs"], artifact=artifact) for one in make_cases()]


async def answer(_, params, __):
    """Answer right: what a good module does."""
    return {"output": params["message"].rpartition(" ")[2]}


async def guess(_, __, ___):
    """Answer wrong."""
    return {"output": "unknown"}


async def find_state(request, callbacks, on_progress):
    """Ask the model and the metric once each, as an optimizer does, and return a state."""
    row = request.training[0]
    inputs = {"message": row["message"]}
    reply = await callbacks.llm({"messages": [{"role": "user", "text": f"one word: {row['message']}"}]})
    right = await callbacks.metric({"inputs": inputs, "expected": {}, "outputs": {"output": reply["text"]}})
    wrong = await callbacks.metric({"inputs": inputs, "expected": {}, "outputs": {"output": "Well, billing."}})
    assert (right["score"], wrong["score"]) == (1.0, 0.0)
    assert "expected" in wrong["feedback"]
    on_progress({"llm_calls": 1, "metric_calls": 2, "best_score": 0.5})
    return Optimized(state=make_state(), dspy="3.4.1", score=0.9)


@pytest.fixture
def with_sidecar(place, monkeypatch):
    """Return the place with a sidecar that follows a script."""

    def use(*steps, dspy: str = "3.4.1"):
        sidecar = ScriptedSidecar(steps=steps, dspy=dspy)
        monkeypatch.setattr(runtime.RunComponents, "sidecar", sidecar)
        monkeypatch.setattr(SidecarEnvironment, "ensure", lambda *_, **__: None)
        return replace(place, environment={**place.environment, "PROWESS_SIDECAR": "/bin/true"}), sidecar

    return use


async def test_a_prompt_becomes_a_module_with_the_prompt_as_its_fallback(with_sidecar, triage, ask, model):
    place, sidecar = with_sidecar(find_state, *[answer] * count_held_out(), answer)
    triage(place)
    async with place.open() as prowess:
        with sidecar:
            done = await prowess.optimize.run(ask(model=model, method="bootstrap_few_shot"))
            assert done.state == "proposed", done.reason
            shown = await prowess.optimize.diff(done.id)
            await prowess.optimize.approve(done.id)
            ran = await prowess.run("triage", {"message": "Hello about account"}, model=model)
        skill = await prowess.skills.get("triage")
    [request] = sidecar.optimizations
    assert (request.program.template_id, request.optimizer) == ("predict", "bootstrap_few_shot")
    assert request.program.signature["instructions"] == "Sort this message: `message`"
    assert set(request.training[0]) == {"message", "output"}
    assert 0 < request.options["max_llm_calls"] < 2_000
    held = {one["message"] for one in (*request.training, *request.validation)}
    assert len(held) == 30 - count_held_out()
    assert shown.parts == {
        "module": {
            "instructions": {"before": PROMPT, "after": "Answer with one word."},
            "demos": {"before": [], "after": [DEMO]},
        }
    }
    module = skill.find_artifact("sort-optimized")
    assert (module.fallback, module.assertions) == ("sort", skill.find_artifact("sort").assertions)
    assert json.loads(module.state)["demos"] == [DEMO]
    # It takes the place of the prompt, with the same kind of output, so live runs stay comparable.
    assert [part.artifact for part in ran.parts] == ["sort-optimized"]
    assert ran.output.value == "account"
    assert ran.parts[0].verdicts[0].passed


async def test_an_optimiser_that_is_stopped_keeps_the_best_it_reported(with_sidecar, triage, ask, model):
    started = asyncio.Event()

    async def endless(_, callbacks, on_progress):
        on_progress({"best_state": make_state(), "best_score": 0.9})
        started.set()
        while True:
            await callbacks.llm({"messages": [{"role": "user", "text": "one word about billing"}]})

    place, sidecar = with_sidecar(endless, *[answer] * count_held_out())
    triage(place)
    async with place.open() as prowess:
        with sidecar:
            done = await prowess.optimize.run(ask(model=model, method="gepa", calls=60))
    assert done.state == "proposed", done.reason
    assert done.calls <= 60


async def test_a_worse_module_is_refused(with_sidecar, triage, ask, model):
    place, sidecar = with_sidecar(Optimized(state=make_state(), dspy="3.4.1"), *[guess] * count_held_out())
    triage(place)
    model.answer = lambda text: SortingModel.answer(model, f"one word {text}")
    async with place.open() as prowess:
        with sidecar:
            done = await prowess.optimize.run(ask(model=model, method="mipro_v2"))
    assert done.state == "refused"
    assert done.reason.startswith("Worse: 0.000 against")


async def test_tools_and_code_do_not_run_for_candidates(with_sidecar, triage, ask, model):
    async def reach_out(_, callbacks, __):
        for refused in (callbacks.tool, callbacks.code):
            with pytest.raises(Refused):
                await refused({})
        with pytest.raises(Invalid, match="not among its cases"):
            await callbacks.metric({"inputs": {"message": "held out?"}, "outputs": {}})
        return Optimized(state=None, dspy="3.4.1")

    place, sidecar = with_sidecar(reach_out)
    triage(place)
    async with place.open() as prowess:
        with sidecar:
            done = await prowess.optimize.run(ask(model=model, method="simba"))
    assert (done.state, done.candidate_digest) == ("refused", "")


async def test_a_state_with_anything_else_in_it_is_not_kept(with_sidecar, triage, ask, model):
    async def poisoned(*_):
        return Optimized(state={**make_state(), "api_base": "http://evil"}, dspy="3.4.1", score=1.0)

    place, _ = with_sidecar(poisoned)
    triage(place)
    async with place.open() as prowess:
        with pytest.raises(Invalid, match="state that cannot be used"):
            await prowess.optimize.run(ask(model=model, method="simba"))


async def test_a_sidecar_that_crashes_ends_the_optimisation_with_the_reason(with_sidecar, triage, ask, model):
    place, _ = with_sidecar(SidecarFailed("It ended while it worked."))
    triage(place)
    async with place.open() as prowess:
        with pytest.raises(SidecarFailed):
            await prowess.optimize.run(ask(model=model, method="simba"))
        [kept] = await prowess.optimize.list()
    assert (kept.state, kept.reason) == ("refused", "It ended while it worked.")


async def test_without_the_sidecar_the_way_without_it_is_named(place, triage, ask, model):
    triage(place)
    async with place.open() as prowess:
        with pytest.raises(Unavailable) as missing:
            await prowess.optimize.run(ask(model=model, method="gepa"))
        [kept] = await prowess.optimize.list()
    assert "--method rewrite" in missing.value.hint
    assert (kept.state, model.requests) == ("refused", [])


async def test_too_few_cases_are_refused_before_the_sidecar_is_installed(place, triage, ask, model):
    triage(place, cases=make_cases()[:5])
    async with place.open() as prowess:
        with pytest.raises(Refused, match="Too few cases"):  # the sidecar is missing here, too
            await prowess.optimize.run(ask(model=model, method="gepa"))


async def test_states_of_another_version_are_optimised_again_and_offered(with_sidecar, triage, ask, tmp_path):
    async def find_better(request, *_):
        assert request.program.state["metadata"]["dependency_versions"] == {"dspy": "3.3.0"}
        return Optimized(state=make_state(demos=(DEMO, DEMO)), dspy="3.4.1", score=0.9)

    async def execute(program, *rest):
        return await (answer if len(program.state["demos"]) == 2 else guess)(program, *rest)

    validation = len(optimizer_cases(list_cases("sort-fast"), SHARES).validation)
    place, sidecar = with_sidecar(
        *[execute] * validation, find_better, *[execute] * 2 * count_held_out("sort-fast"), dspy="3.4.1"
    )
    (tmp_path / "script.json").write_text("[]")  # a module needs a model, though this sidecar asks none
    place = replace(place, environment={**place.environment, "PROWESS_MODEL": f"scripted:{tmp_path}/script.json"})
    content = json.dumps({"template_id": "predict", "signature": "message -> output", "returns": "output"})
    module = "  - {path: dspy/sort-fast.json, kind: dspy_module, name: sort-fast, fallback: sort}\n"
    triage(
        place,
        sidecar=SIDECAR + module,
        **{"dspy/sort-fast.json": content, "dspy/sort-fast.state.json": json.dumps(make_state(dspy="3.3.0"))},
    )
    async with place.open() as prowess:
        # An optimization of something else from the same files does not count.
        with pytest.raises(Refused, match="Too few queries"):
            await prowess.optimize.run(ask(method="phrases"))
        with sidecar:
            told = await TASKS["reoptimize"](prowess, "job", {}, lambda _: None)
        [offered] = told["proposals"]
        assert offered["state"] == "proposed", offered["reason"]
        assert offered["artifact"] == "sort-fast"
        # Tried once for these files; until someone approves it, the old state is used.
        assert await TASKS["reoptimize"](prowess, "job", {}, lambda _: None) == {"proposals": []}
        assert "3.3.0" in (await prowess.skills.get("triage")).find_artifact("sort-fast").state


def test_a_signature_comes_from_the_schemas_of_the_prompt():
    prompt = PromptTemplate(
        name="p",
        content="Judge {{ text | upper }} by {{ rule.name }}.{% if strict %} Be strict.{% endif %}{# note #}",
        vars_schema={"properties": {"text": {"type": "string", "description": "What to judge."}}},
        output_schema={"properties": {"verdict": {"type": "string", "enum": ["good", "bad"]}, "why": {}}},
    )
    assert make_signature(prompt) == {
        "instructions": "Judge `text` by `rule`. Be strict.",
        "inputs": [
            {"name": "text", "type": "string", "description": "What to judge."},
            {"name": "rule"},
            {"name": "strict"},
        ],
        "outputs": [{"name": "verdict", "type": "string", "enum": ["good", "bad"]}, {"name": "why"}],
    }
    assert make_signature(PromptTemplate(name="p", content="Sing.")) == {
        "instructions": "Sing.",
        "inputs": [{"name": "input"}],
        "outputs": [{"name": "output"}],
    }


@pytest.mark.parametrize(
    ("schema", "declared"),
    [
        ({"type": ["string", "null"]}, {"type": "string"}),
        ({"type": ["string", "integer"]}, {}),
        ({"type": "array"}, {"type": "array"}),
        ({"type": "array", "items": {"type": "string"}}, {"type": "array"}),
        ({"type": "array", "items": {"type": "number"}}, {"type": "list[float]"}),
        ({"type": "array", "items": {"type": "object"}}, {"type": "list[dict]"}),
        ({"type": "integer", "enum": [1, 2]}, {"type": "integer"}),
        ({"enum": ["low", None]}, {}),
    ],
)
def test_a_signature_has_only_types_and_enums_that_dspy_knows(schema, declared):
    prompt = PromptTemplate(name="p", content="Judge.", output_schema={"properties": {"found": schema}})
    [field] = make_signature(prompt)["outputs"]
    assert field == {"name": "found", **declared}


async def test_a_prompt_whose_output_others_use_by_name_is_not_wrapped(with_sidecar, triage, ask, model):
    place, _ = with_sidecar()
    follower = "  - {path: prompts/after.j2, kind: prompt_template, name: after, ordinal: 2}\n"
    triage(place, sidecar=SIDECAR + follower, **{"prompts/after.j2": "More about {{ sort }}."})
    async with place.open() as prowess:
        with pytest.raises(Invalid, match="'after' uses the output of 'sort' by its name"):
            await prowess.optimize.run(ask(model=model, method="gepa", artifact="sort"))


@pytest.mark.parametrize("text", ["{%" * 40_000, "{# a" * 20_000])
def test_a_template_whose_tags_are_not_closed_takes_no_time(text: str):
    prompt = PromptTemplate(name="p", content=text, syntax="mustache")
    with cpu_limit(10):
        assert make_signature(prompt)["instructions"] == text.strip()


@pytest.mark.parametrize("text", ["{{" + " " * 40_000, "{{" + "a" * 40_000])
def test_a_value_that_is_not_closed_takes_no_time(text: str):
    with cpu_limit(10):
        made = make_signature(PromptTemplate(name="p", content=f"{{% raw %}}{text}{{% endraw %}}"))
    assert made["instructions"] == text.strip()
