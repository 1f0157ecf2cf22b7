"""Results of generations and reviews: their rules hold for every result that can be made."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.handlers.results import VERDICTS, CriterionResult, GenerationResult, ReviewResult, undecided_result
from prowess.prompts.prompt import Criterion, Rubric
from prowess.skill.schema import SchemaError

WORDS = st.text(max_size=12) | st.sampled_from(["x", "Not met: x", "Undecided: x", "x: Undecided: x"])
WEIGHTS = st.floats(min_value=0, exclude_min=True, allow_infinity=False) | st.sampled_from([1.0, 1e-300, 1e300])


@st.composite
def reviews(draw):
    ids = draw(st.lists(WORDS.filter(bool), min_size=1, max_size=6, unique=True))
    criteria = tuple(
        Criterion(
            id=one, name=draw(WORDS), description="d", pass_condition="p", fail_condition="f", weight=draw(WEIGHTS)
        )
        for one in ids
    )
    mode = draw(st.sampled_from(["binary", "weighted"]))
    threshold = draw(st.none() | st.floats(min_value=0.01, max_value=2))
    results = tuple(
        CriterionResult(
            criterion_id=one.id,
            criterion_name=one.name,
            verdict=draw(st.sampled_from(VERDICTS)),
            reasoning=draw(WORDS),
            confidence=draw(st.floats(min_value=0, max_value=1)),
            suggested_fix=draw(WORDS),
        )
        for one in criteria
    )
    rubric = Rubric(id="r", scoring_mode=mode, pass_threshold=threshold, criteria=criteria)
    return ReviewResult(rubric=rubric, criteria_results=results)


@given(reviews())
def test_a_review_that_did_not_pass_has_issues_unless_it_is_only_undecided(review):
    told = review.as_json()

    assert told["pass"] or told["issues"] or told["indeterminate"]
    if not told["pass"] and not told["issues"]:
        assert {result["verdict"] for result in told["criteria_results"]} <= {"pass", "indeterminate"}


@given(reviews())
def test_nothing_is_both_an_issue_and_undecided(review):
    assert not set(review.issues) & set(review.indeterminate)


@given(reviews())
def test_a_review_has_one_result_for_each_criterion(review):
    told = review.as_json()

    assert [one["criterion_id"] for one in told["criteria_results"]] == [one.id for one in review.rubric.criteria]
    assert "criteria_results" not in review.as_json(details=False)


@given(reviews())
def test_a_criterion_that_did_not_pass_never_counts_as_passed(review):
    verdicts = [result.verdict for result in review.criteria_results]

    assert 0 <= review.score <= 1
    assert (review.score == 1) == (set(verdicts) == {"pass"})
    if review.threshold == 1:
        assert review.passed == (set(verdicts) == {"pass"})
    if "pass" not in verdicts:
        assert not review.passed


@given(
    data=st.none() | st.integers(),
    errors=st.lists(st.just(SchemaError(path="", message="m", rule="r")), max_size=2),
    attempts=st.integers(min_value=-2, max_value=3),
)
def test_a_generation_has_data_or_errors_and_at_least_one_attempt(data, errors, attempts):
    try:
        told = GenerationResult(data=data, validation_errors=tuple(errors), attempts=attempts).as_json()
    except ValueError:
        assert attempts < 1 or (errors and data is not None)
    else:
        assert told["success"] == ("data" in told) == ("validationErrors" not in told)
        assert told["success"] or told["validationErrors"]
        assert told["attempts"] >= 1


ONE = Criterion(id="a", name="A", description="d", pass_condition="p", fail_condition="f")


@pytest.mark.parametrize("results", [(), (undecided_result(ONE, "w"), undecided_result(ONE, "w")), ("b",)])
def test_results_for_other_criteria_than_those_of_the_rubric_are_refused(results):
    other = CriterionResult(criterion_id="b", criterion_name="B", verdict="pass", reasoning="r")
    rubric = Rubric(id="r", scoring_mode="binary", criteria=(ONE,))

    with pytest.raises(ValueError, match="one result for each criterion"):
        ReviewResult(rubric=rubric, criteria_results=tuple(other if one == "b" else one for one in results))


@pytest.mark.parametrize("wrong", [{"confidence": 1.1}, {"confidence": float("nan")}, {"verdict": "maybe"}])
def test_a_criterion_result_has_a_known_verdict_and_a_confidence_from_0_to_1(wrong):
    with pytest.raises(ValueError, match=r"verdict|confidence"):
        CriterionResult(**{"criterion_id": "a", "criterion_name": "A", "verdict": "pass", "reasoning": "r", **wrong})
