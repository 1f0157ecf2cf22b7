"""Intervals and paired verdicts: exact edge cases, determinism, and no claims from noise."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prowess.authoring.evals.statistics import compare_paired, mean_interval, paired_interval, rate_interval

SCORES = st.lists(st.floats(0, 1), min_size=2, max_size=12)


def test_no_values_have_no_mean_and_an_infinite_interval() -> None:
    interval = mean_interval([])
    assert math.isnan(interval.mean)
    assert (interval.low, interval.high) == (-math.inf, math.inf)
    assert interval.as_json() == {"mean": None, "low": None, "high": None}


def test_one_case_has_a_mean_and_an_infinite_interval_however_often_it_was_repeated() -> None:
    interval = mean_interval([0.2, 0.4], clusters=["a", "a"])
    assert interval.mean == pytest.approx(0.3)
    assert (interval.low, interval.high) == (-math.inf, math.inf)


def test_equal_values_have_an_interval_without_width() -> None:
    interval = mean_interval([0.1] * 7)
    assert (interval.mean, interval.low, interval.high) == (0.1, 0.1, 0.1)


@settings(max_examples=30, deadline=None)
@given(SCORES)
def test_the_interval_contains_the_mean_lies_within_the_values_and_repeats_exactly(values: list[float]) -> None:
    first, second = (mean_interval(values, resamples=500) for _ in range(2))
    assert first == second
    slack = 1e-9
    assert min(values) - slack <= first.low <= first.mean + slack
    assert first.mean - slack <= first.high <= max(values) + slack


def test_repeats_of_the_same_cases_do_not_narrow_the_interval() -> None:
    values = [0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 1.0, 1.0]
    once = mean_interval(values)
    clustered = mean_interval(
        [value for value in values for _ in range(5)], clusters=[n for n in range(8) for _ in range(5)]
    )
    assert clustered == once
    assert mean_interval(values * 5).low > once.low


def test_a_paired_difference_is_after_minus_before() -> None:
    interval = paired_interval([0.0, 0.5, 1.0], [0.5, 1.0, 1.0])
    assert interval.mean == pytest.approx(1 / 3)
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        paired_interval([0.0, 1.0], [0.0])


def test_five_gains_and_no_loss_show_nothing_and_six_do() -> None:
    assert compare_paired([0.0] * 5, [1.0] * 5).verdict == "no difference shown"
    six = compare_paired([0.0] * 6, [1.0] * 6)
    assert six.verdict == "better"
    assert six.p == pytest.approx(2 / 64)
    assert compare_paired([1.0] * 6, [0.0] * 6).verdict == "worse"


def test_a_few_gains_among_ties_show_nothing_although_the_bootstrap_interval_excludes_zero() -> None:
    found = compare_paired([0.0] * 10, [1.0] * 5 + [0.0] * 5)
    assert found.interval.low > 0
    assert found.verdict == "no difference shown"


@pytest.mark.parametrize("before", [[], [0.5], [0.5] * 40])
def test_nothing_is_shown_without_cases_or_without_changes(before: list[float]) -> None:
    found = compare_paired(before, before)
    assert (found.verdict, found.p, found.cases) == ("no difference shown", 1.0, len(before))


def test_noise_is_called_a_difference_no_more_often_than_promised() -> None:
    chance = random.Random(7)
    claims = sum(
        compare_paired(
            [float(chance.random() < 0.6) for _ in range(20)],
            [float(chance.random() < 0.6) for _ in range(20)],
            resamples=400,
        ).verdict
        != "no difference shown"
        for _ in range(200)
    )
    assert claims <= 16  # 10 are expected at most; 16 or more of 200 would come up one time in twenty


def test_a_clear_gain_on_many_cases_is_shown() -> None:
    before = [float(n % 2) for n in range(40)]
    found = compare_paired(before, [max(value, float(n % 3 != 0)) for n, value in enumerate(before)])
    assert (found.verdict, found.cases) == ("better", 40)
    assert found.p < 0.01


def test_a_rate_of_all_passes_keeps_an_interval_and_none_has_an_infinite_one() -> None:
    interval = rate_interval([True] * 20)
    assert interval.mean == 1.0
    assert interval.low == pytest.approx(0.8389, abs=1e-4)
    assert interval.high == 1.0
    assert math.isnan(rate_interval([]).mean)
    assert rate_interval([False]).high == pytest.approx(0.7935, abs=1e-4)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=60))
def test_a_rate_lies_in_its_interval_between_zero_and_one(passed: list[bool]) -> None:
    interval = rate_interval(passed)
    assert 0 <= interval.low <= interval.mean <= interval.high <= 1


def test_repeats_of_a_case_do_not_narrow_the_interval_of_a_rate() -> None:
    assert rate_interval([True] * 12, clusters=[n // 4 for n in range(12)]) == rate_interval([True] * 3)
