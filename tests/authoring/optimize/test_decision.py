"""A candidate is accepted only beyond noise, and a live version is rolled back only beyond noise."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.authoring.optimize.decision import LOOKS, MIN_HELD_OUT, decide, judge_live


@pytest.fixture(autouse=True)
def few() -> None:
    """Decide as in earnest."""


def names(count: int, repeats: int = 1) -> list[str]:
    return [f"case-{number}" for number in range(count) for _ in range(repeats)]


def test_a_clear_gain_is_accepted_with_its_figures():
    test = decide([0.0] * 30 + [1.0] * 10, [1.0] * 40, names(40))
    assert test.accepted
    assert (test.cases, test.repeats, test.base, test.candidate) == (40, 1, 0.25, 1.0)
    assert test.difference.low > 0
    assert test.verdict.startswith("Significantly better: 1.000 against 0.250 on 40 held-out cases")
    assert "p < 0.001." in test.verdict


def test_a_gain_within_noise_is_refused():
    before = [0.0, 1.0] * 20
    after = [1.0, *before[1:]]
    test = decide(before, after, names(40))
    assert not test.accepted
    assert test.verdict.startswith("Not significantly better")


def test_a_loss_is_called_a_loss():
    test = decide([1.0] * 40, [0.0] * 40, names(40))
    assert not test.accepted
    assert test.verdict.startswith("Worse")


def test_few_cases_are_never_enough_however_often_they_are_repeated():
    few = MIN_HELD_OUT - 1
    test = decide([0.0] * few * 5, [1.0] * few * 5, names(few, 5))
    assert (test.cases, test.repeats, test.accepted) == (few, 5, False)


def test_repeats_of_a_case_are_not_more_cases():
    # Four of 25 cases got better in all four repeats. Counted as 100 independent runs, that would look certain.
    before = [0.0] * 100
    after = ([1.0] * 4) * 4 + [0.0] * 84
    assert decide(before, after, names(100)).accepted
    assert not decide(before, after, names(25, 4)).accepted


def test_a_set_that_was_used_before_weakens_the_claim():
    assert "used for 3 candidates" in decide([0.0] * 40, [1.0] * 40, names(40), uses=3).verdict


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=60))
def test_nothing_is_accepted_whose_interval_has_zero_in_it(pairs):
    test = decide([one for one, _ in pairs], [other for _, other in pairs], names(len(pairs)))
    if test.accepted:
        assert test.difference.low > 0
        assert test.candidate > test.base


def test_nothing_is_said_before_the_first_look_or_without_runs_of_the_old_version():
    assert judge_live([True] * 100, [False] * (LOOKS[0] - 1)).verdict == "waiting"
    assert judge_live([True] * 5, [False] * 100).verdict == "waiting"


def test_a_drop_beyond_noise_is_a_regression():
    test = judge_live([True] * 95 + [False] * 5, [False, True] * 20)
    assert test.verdict == "regressed"
    assert test.difference is not None
    assert test.difference.high < 0
    assert (test.old_runs, test.new_runs, test.looked_at) == (100, 40, 40)


def test_a_small_drop_among_few_runs_is_noise():
    assert judge_live([True] * 95 + [False] * 5, [True] * 17 + [False] * 3).verdict == "waiting"


def test_a_version_stays_after_the_last_look():
    assert judge_live([True, False] * 50, [True, False] * (LOOKS[-1] // 2)).verdict == "fine"
    assert judge_live([], [True] * LOOKS[-1]).verdict == "fine"


def test_runs_between_two_looks_change_nothing():
    new = [True] * 20 + [False] * 19
    assert judge_live([True] * 100, new).verdict == "waiting"
    assert judge_live([True] * 100, [*new, False]).verdict == "regressed"


@pytest.mark.parametrize("rate", [0.5, 0.9])
def test_a_version_that_is_no_worse_is_seldom_rolled_back(rate):
    chance = random.Random(7)

    def draw(count: int) -> list[bool]:
        return [chance.random() < rate for _ in range(count)]

    worlds = 300
    lost = 0
    for _ in range(worlds):
        old, new = draw(200), draw(LOOKS[-1])
        lost += any(judge_live(old, new[:look]).verdict == "regressed" for look in LOOKS)
    # All looks together may err in 5 of 100 worlds; the bound leaves room for the chance in this test.
    assert lost / worlds < 0.08
