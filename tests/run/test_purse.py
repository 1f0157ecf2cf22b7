"""What a run may use up counts for the run that started it."""

from __future__ import annotations

import pytest

from prowess.errors import Invalid
from prowess.run.purse import MOST_QUESTIONS, Purse, Questions


def test_what_an_inner_run_holds_its_outer_one_holds_too():
    outer = Purse(limit=1.0)
    inner = Purse(outer=outer)
    inner.hold(0.75)
    assert (outer.held, inner.full(0.5), inner.full(0.25)) == (0.75, outer, None)
    inner.hold(-0.5)
    assert (outer.held, inner.held) == (0.25, 0.25)


def test_an_inner_run_keeps_to_its_own_limit_as_well():
    inner = Purse(limit=0.5, outer=Purse(limit=1.0))
    assert inner.full(0.75) is inner


def test_questions_are_counted_together_and_too_many_are_not_counted():
    questions = Questions()
    questions.count(MOST_QUESTIONS - 1)
    with pytest.raises(Invalid):
        questions.count(2)
    questions.count(1)
    assert questions.asked == MOST_QUESTIONS
