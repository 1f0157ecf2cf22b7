"""State comes back as it went out, and hostile state neither loads nor redirects a request."""

import base64
import copy
import json
import pickle

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .driver import Driver, model

QUESTION = {"question": "Capital of France?"}
ANSWERS = {"llm": model(answer="Paris")}
STATE = {
    "predict": {
        "traces": [],
        "train": [],
        "demos": [{"augmented": True, "question": "Capital of Italy?", "reasoning": "It is known.", "answer": "Rome"}],
        "signature": {
            "instructions": "Name the city.",
            "fields": [
                {"prefix": "Question:", "description": "${question}"},
                {"prefix": "Reasoning:", "description": "${reasoning}"},
                {"prefix": "Answer:", "description": "${answer}"},
            ],
        },
        "lm": None,
    },
    "metadata": {"dependency_versions": {"python": "3.11", "dspy": "3.4.1", "cloudpickle": "3.1"}},
}


def changed(**predictor):
    state = copy.deepcopy(STATE)
    state["predict"].update(predictor)
    return state


def execute(sidecar, blob):
    return sidecar.request("execute", ANSWERS, template_id="chain_of_thought", state_blob=blob, params=QUESTION)


def optimized(sidecar, template_id, state=None):
    """The state after an optimization that changes nothing but demos."""
    rows = [{"question": "Capital of Italy?", "answer": "Paris"}]
    options = {"max_bootstrapped_demos": 1, "max_labeled_demos": 0}
    answers = {
        "llm": model(answer="Paris", next_tool_name="finish", next_tool_args="{}", generated_code="SUBMIT({})"),
        "metric": lambda _payload: {"score": 1},
        "code": lambda _payload: {"final": {}},
    }
    return sidecar.result(
        "optimize",
        answers,
        template_id=template_id,
        signature="question -> answer",
        training_data=rows,
        state_blob=state,
        optimizer_options=options,
    )["state_blob"]


@pytest.mark.parametrize(
    "encode", [lambda state: state, json.dumps, lambda s: base64.b64encode(json.dumps(s).encode()).decode()]
)
def test_state_may_be_an_object_its_text_or_base64(sidecar: Driver, encode):
    assert execute(sidecar, encode(STATE))["ok"]

    system, demo = sidecar.calls[0][1]["messages"][0], sidecar.calls[0][1]["messages"][1]
    assert "Name the city." in system["text"]
    assert "Capital of Italy?" in demo["text"]


@pytest.mark.parametrize(
    "template_id",
    [
        "predict",
        "chain_of_thought",
        "react",
        "program_of_thought",
        "best_of_n",
        "refine",
        "multi_chain_comparison",
        "extract_then_answer",
        "draft_critique_revise",
    ],
)
def test_state_that_left_the_sidecar_loads_again_and_leaves_the_same(sidecar: Driver, template_id):
    state = optimized(sidecar, template_id)
    assert state["metadata"]["dependency_versions"]["dspy"] == sidecar.hello["dspy"]

    assert optimized(sidecar, template_id, state) == state


def test_of_the_language_model_only_sampling_settings_are_kept(sidecar: Driver):
    model_state = {
        "_dspy_lm_class": "os.system",
        "class": "subprocess.Popen",
        "model": "openai/gpt-4o",
        "model_type": "responses",
        "api_base": "http://evil.example",
        "base_url": "http://evil.example",
        "api_key": "sk-stolen",
        "model_list": [{"api_base": "http://evil.example"}],
        "engine": {"class": "os:system", "state": {}},
        "headers": {"x": "y"},
        "n": 50,
        "temperature": 0.25,
        "max_tokens": 99,
    }
    assert execute(sidecar, changed(lm=model_state))["ok"]

    payload = sidecar.calls[0][1]
    assert payload == {"messages": payload["messages"], "temperature": 0.25, "max_tokens": 99}

    state = optimized(sidecar, "chain_of_thought", changed(lm=model_state))
    assert state["predict"]["lm"] == {"temperature": 0.25, "max_tokens": 99}


@pytest.mark.parametrize(
    "blob",
    [
        7,
        [],
        {},
        "not base64 at all!",
        "{broken",
        base64.b64encode(b"\xff\xfe").decode(),
        base64.b64encode(pickle.dumps({"predict": print})).decode(),
        base64.b64encode(b"[]").decode(),
        {"predict": []},
        {"metadata": STATE["metadata"]},
        STATE | {"metadata": "3.4.1"},
        STATE | {"metadata": {"dependency_versions": {"dspy": 3}}},
        STATE | {"forward": STATE["predict"]},
        {"other": STATE["predict"]},
        STATE["predict"],
        changed(forward="pwn"),
        changed(__class__="os.system"),
        changed(demos="x"),
        changed(demos=[["question"]]),
        changed(demos=[{}] * 201),
        changed(traces={}),
        changed(signature=None),
        changed(signature={"instructions": "x", "fields": []}),
        changed(signature={"instructions": 5, "fields": STATE["predict"]["signature"]["fields"]}),
        changed(signature={"instructions": "x" * 300_000, "fields": STATE["predict"]["signature"]["fields"]}),
        changed(signature=STATE["predict"]["signature"] | {"class": "x"}),
        changed(lm="openai/gpt-4o"),
        changed(lm={"temperature": "hot"}),
        changed(lm={"temperature": 99}),
        changed(lm={"max_tokens": True}),
        changed(lm={"stop": [5]}),
        changed(demos=[{"question": "x" * (5 << 20)}]),
    ],
)
def test_hostile_or_foreign_state_is_a_typed_error(sidecar: Driver, blob):
    answer = execute(sidecar, blob)

    assert answer["error"]["type"] in {"InvalidState", "InvalidSignature"}
    assert sidecar.calls == []


def test_state_that_is_nested_too_deep_is_a_typed_error(sidecar: Driver):
    deep = "x"
    for _ in range(200):
        deep = [deep]
    assert execute(sidecar, changed(demos=[{"question": deep}]))["error"]["type"] == "InvalidState"


def test_fields_of_demos_that_the_signature_does_not_have_are_dropped(sidecar: Driver):
    state = changed(
        demos=[{"question": "q", "reasoning": "r", "answer": "a", "password": "of a row", "dspy_uuid": "1"}]
    )

    assert execute(sidecar, state)["ok"]
    assert "of a row" not in json.dumps(sidecar.calls)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=10), children, max_size=3),
    max_leaves=8,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=JSON, key=st.sampled_from(["demos", "signature", "lm", "traces", "forward", "lm.temperature", "demos.0"]))
def test_any_value_at_any_place_of_a_state_loads_or_is_a_typed_error(sidecar: Driver, value, key):
    name, _, inner = key.partition(".")
    state = changed(**{name: {inner: value} if inner and inner != "0" else [{"question": value}] if inner else value})

    answer = execute(sidecar, state)

    assert answer["ok"] or answer["error"]["type"] in {"InvalidState", "InvalidSignature"}
