"""How far a run may go: what cannot be read is refused, or counts as the strictest."""

from __future__ import annotations

from typing import Any

import pytest

from prowess.errors import Invalid
from prowess.run.allowance import read_allowance
from prowess.skill.model import Skill


def skill(**more: Any) -> Skill:
    return Skill(slug="greeter", title="Greeter", description="Greets people.", **more)


@pytest.mark.parametrize("asked", [0, -1, float("nan"), float("inf")])
def test_a_time_that_is_no_number_above_0_is_refused(asked: float):
    with pytest.raises(Invalid, match="seconds"):
        read_allowance(skill(), requested=asked)


@pytest.mark.parametrize("observed", ["everything", [], 3, False])
def test_a_wish_about_traces_that_cannot_be_read_keeps_texts_out_of_them(observed: object):
    allowance = read_allowance(skill(extra={"observability": observed}))
    assert (allowance.log_input, allowance.log_output) == (False, False)


def test_without_a_wish_about_traces_they_hold_everything():
    allowance = read_allowance(skill(extra={"observability": None}))
    assert (allowance.log_input, allowance.log_output) == (True, True)
