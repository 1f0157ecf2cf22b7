"""The saved state of a dspy_module: nothing passes but what a run may use."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from prowess.skill.dspy_state import clean_state, dspy_version, find_outdated_states, read_state
from prowess.skill.forms.inklings import decode_state
from prowess.skill.kinds import DspyModule
from prowess.skill.model import Skill

PREDICTOR: dict[str, Any] = {
    "traces": [],
    "train": [{"claims": "x"}],
    "demos": [{"claims": "a", "contradictions": "b", "augmented": True}],
    "signature": {"instructions": "Find them.", "fields": [{"prefix": "Claims:", "description": "${claims}"}]},
    "lm": {
        "_dspy_lm_class": "dspy.clients.lm.LM",
        "model": "openai/x",
        "temperature": 0.3,
        "max_tokens": 500,
        "api_base": "https://evil.example",
        "api_key": "sk-1",
        "launch_kwargs": {},
    },
}
METADATA = {"dependency_versions": {"python": "3.11", "dspy": "3.4.1", "cloudpickle": "3.1"}}
STATE = {"predict": PREDICTOR, "metadata": METADATA}


def test_a_state_keeps_demos_instructions_and_how_to_sample_and_loses_addresses_and_keys() -> None:
    state = read_state(json.dumps(STATE))
    assert state["predict"]["demos"] == PREDICTOR["demos"]
    assert state["predict"]["signature"] == PREDICTOR["signature"]
    assert state["predict"]["lm"] == {"temperature": 0.3, "max_tokens": 500}
    assert state["predict"]["train"] == []
    assert dspy_version(state) == "3.4.1"
    assert clean_state(state) == state


def test_the_state_of_a_bare_predict_is_flat() -> None:
    state = clean_state({**PREDICTOR, "metadata": METADATA})
    assert state["signature"]["instructions"] == "Find them."
    assert set(state) == {*PREDICTOR, "metadata"}


def test_a_state_arrives_as_base64_in_a_package_of_inklings() -> None:
    text = decode_state(base64.b64encode(json.dumps(STATE).encode()).decode())
    assert text is not None
    assert read_state(text)["predict"]["lm"] == {"temperature": 0.3, "max_tokens": 500}


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ([], "not an object"),
        ({}, "predictors"),
        ({"metadata": METADATA}, "predictors"),
        ({"__class__": PREDICTOR}, "not the name of a predictor"),
        ({"a b": PREDICTOR}, "not the name of a predictor"),
        ({"predict": {**PREDICTOR, "forward": "x"}}, "Extra inputs"),
        ({"predict": {**PREDICTOR, "demos": [{"__init__": 1}]}}, "names of fields"),
        ({"predict": {**PREDICTOR, "demos": "x"}}, "demos"),
        ({"predict": {**PREDICTOR, "signature": {"instructions": 1, "fields": []}}}, "instructions"),
        ({"predict": {**PREDICTOR, "lm": "openai/x"}}, "lm"),
        ({"predict": PREDICTOR, "metadata": {"dependency_versions": {"dspy": 3}}}, "dspy"),
        ({f"p{n}": PREDICTOR for n in range(65)}, "predictors"),
    ],
)
def test_what_dspy_does_not_save_is_refused(state: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        clean_state(state)


@pytest.mark.parametrize("text", ["", "{", "NaN", '{"predict": NaN}', "[" * 100_000, "x" * (3 << 20)])
def test_a_text_that_is_not_such_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"JSON|limit"):
        read_state(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(list(PREDICTOR)), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), JSON) | JSON, JSON, JSON)
def test_any_json_is_cleaned_or_refused_and_never_names_an_address(state: Any, lm: Any, extra: Any) -> None:
    for one in (state, {"predict": {**PREDICTOR, "lm": lm}}, {"predict": {**PREDICTOR, "demos": [extra]}}):
        try:
            cleaned = clean_state(one)
        except ValueError:
            continue
        assert clean_state(json.loads(json.dumps(cleaned))) == cleaned
        predictors = [cleaned] if "signature" in cleaned else [v for k, v in cleaned.items() if k != "metadata"]
        for predictor in predictors:
            assert set(predictor) - {"metadata"} == set(PREDICTOR)
            assert not set(predictor["lm"] or {}) & {"model", "api_base", "api_key", "base_url"}


def test_states_of_another_version_of_dspy_are_found() -> None:
    def skill(slug: str, state: str | None) -> Skill:
        module = DspyModule(name="m", content="{}", state=state, fallback="p")
        return Skill(slug=slug, title=slug, description="d", artifacts=(module,))

    current, old = json.dumps(STATE), json.dumps({"predict": PREDICTOR})
    skills = [skill("current", current), skill("old", old), skill("none", None), skill("broken", "{}")]
    found = find_outdated_states(skills, "3.4.1")
    assert [(one.skill.slug, one.made_with) for one in found] == [("old", ""), ("broken", "")]
    assert [one.made_with for one in find_outdated_states(skills, "3.5.0")] == ["3.4.1", "", ""]


def test_of_many_wrong_fields_only_the_first_is_looked_at():
    state: dict[str, Any] = {"demos": [], "signature": {"instructions": "", "fields": [1] * 1000}}
    with pytest.raises(ValueError, match=r"signature\.fields\.0") as caught:
        read_state(json.dumps(state))
    assert isinstance(caught.value.__context__, ValidationError)
    assert caught.value.__context__.error_count() == 1
