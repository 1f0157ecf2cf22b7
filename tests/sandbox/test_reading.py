"""What comes out of the sandbox is read as if an enemy had written it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.sandbox.reading import plain_json, read_ran
from prowess.sandbox.script import script_of

SCRIPT = script_of("pass", {})
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["error", "result", "done", "line", "type"]) | st.text(), inner, max_size=3)
    ),
)


@given(st.sampled_from(["done", "fuel", "nonsense", "raised"]), JSON)
def test_whatever_a_guest_says_is_read_or_refused(word, said):
    payload = json.dumps({"word": word}).encode() + b"\n" + json.dumps(said).encode()
    try:
        ran = read_ran(payload, SCRIPT, 0)
    except ValueError:
        return
    json.dumps(ran.result, allow_nan=False, ensure_ascii=False).encode()
    assert ran.ended == "done" or not ran.submitted


@given(st.binary())
def test_nonsense_is_refused(payload):
    with pytest.raises(ValueError):
        read_ran(payload, SCRIPT, 0)


@pytest.mark.parametrize("text", ["NaN", "[-Infinity]", "[" * 100 + "]" * 100, "[" * 50_000, "9" * 5_000, "{", ""])
def test_what_cannot_be_kept_is_refused(text):
    with pytest.raises(ValueError):
        plain_json(text)
