"""What a run may use up counts for the run that started it."""

from __future__ import annotations

import pytest

from prowess.errors import Invalid
from prowess.run.allowance import MAX_QUESTIONS, QuestionLimit, SpendLimit


def test_what_an_inner_run_holds_its_outer_one_holds_too():
    outer = SpendLimit(limit=1.0)
    inner = SpendLimit(outer=outer)
    inner.hold(0.75)
    assert (outer.held, inner.full(0.5), inner.full(0.25)) == (0.75, outer, None)
    inner.hold(-0.5)
    assert (outer.held, inner.held) == (0.25, 0.25)


def test_an_inner_run_keeps_to_its_own_limit_as_well():
    inner = SpendLimit(limit=0.5, outer=SpendLimit(limit=1.0))
    assert inner.full(0.75) is inner


def test_questions_are_counted_together_and_too_many_are_not_counted():
    questions = QuestionLimit()
    questions.count(MAX_QUESTIONS - 1)
    with pytest.raises(Invalid):
        questions.count(2)
    questions.count(1)
    assert questions.asked == MAX_QUESTIONS
