"""Whatever a model answers, a review has one result for each criterion, and only a well-formed verdict decides one."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from prowess.handlers.results import ReviewResult
from prowess.handlers.review import find_asset, read_verdicts
from prowess.prompts.prompt import Criterion, Rubric

CRITERIA = tuple(
    Criterion(id=one, name=one.title(), description="d", pass_condition="p", fail_condition="f")
    for one in ("brief", "kind")
)
RUBRIC = Rubric(id="tone", scoring_mode="binary", criteria=CRITERIA)
ASSET = find_asset({"asset": "Dear Ann, thank you."})

GOOD = {
    "criterion_id": st.sampled_from(["brief", "kind"]),
    "reasoning": st.sampled_from(["It is so.", "It is not so."]),
    "evidence": st.lists(st.sampled_from(["Dear Ann", "Dear Bo"]), max_size=2),
    "verdict": st.sampled_from(["pass", "fail", "indeterminate"]),
    "confidence": st.floats(min_value=0, max_value=1) | st.integers(0, 1),
    "suggested_fix": st.just(""),
}
ODD = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just([]) | st.just({})
ENTRIES = st.fixed_dictionaries(GOOD) | st.fixed_dictionaries(GOOD, optional={"pass": ODD}) | st.dictionaries(
    st.sampled_from(list(GOOD)), ODD, max_size=6
) | ODD  # fmt: skip


def is_good(entry):
    return (
        isinstance(entry, dict)
        and set(entry) == set(GOOD)
        and entry["verdict"] in ("pass", "fail", "indeterminate")
        and isinstance(entry["reasoning"], str)
        and bool(entry["reasoning"].strip())
        and isinstance(entry["suggested_fix"], str)
        and isinstance(entry["evidence"], list)
        and all(isinstance(quote, str) for quote in entry["evidence"])
        and type(entry["confidence"]) in (int, float)
        and 0 <= entry["confidence"] <= 1
    )


@given(st.lists(ENTRIES, max_size=5))
def test_a_criterion_is_decided_by_its_one_well_formed_entry_and_by_nothing_else(entries):
    results = read_verdicts(json.dumps({"results": entries}), CRITERIA, ASSET)
    review = ReviewResult(rubric=RUBRIC, criteria_results=tuple(results))

    for criterion, result in zip(CRITERIA, results, strict=True):
        about = [one for one in entries if isinstance(one, dict) and one.get("criterion_id") == criterion.id]
        expected = about[0]["verdict"] if len(about) == 1 and is_good(about[0]) else "indeterminate"
        assert result.verdict == expected
        assert set(result.evidence) <= {"Dear Ann"}
    assert review.passed == all(result.verdict == "pass" for result in results)


@given(st.text() | st.recursive(ODD, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)).map(json.dumps))
def test_any_other_answer_leaves_every_criterion_undecided(text):
    results = read_verdicts(text, CRITERIA, ASSET)

    assert [result.verdict for result in results] == ["indeterminate", "indeterminate"]
