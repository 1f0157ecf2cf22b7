"""Errors: what a traceback shows, and how they travel."""

from __future__ import annotations

import copy
import pickle
import traceback

from prowess.errors import ApprovalRequired, BudgetExceeded, NotFound


def test_a_traceback_shows_the_hint_and_added_notes_below_the_message():
    error = NotFound("Skill 'x' not found.", hint="Run `prowess list`.")
    error.add_note("While reading the plan.")

    shown = "".join(traceback.format_exception(error))

    assert shown.splitlines()[-3:] == [
        "prowess.errors.NotFound: Skill 'x' not found.",
        "Run `prowess list`.",
        "While reading the plan.",
    ]
    assert str(error) == "Skill 'x' not found."


def test_a_hint_that_is_replaced_leaves_no_trace():
    error = NotFound("It failed.", hint="The key is sk-123.")
    error.hint = "The key is [redacted]."

    assert "sk-123" not in "".join(traceback.format_exception(error))
    assert "sk-123" not in repr(pickle.dumps(error))


def test_an_error_without_a_hint_shows_only_its_message():
    assert traceback.format_exception(NotFound("It failed."))[-1] == "prowess.errors.NotFound: It failed.\n"


def test_an_error_with_figures_comes_back_whole_from_another_process():
    error = BudgetExceeded("It does not fit.", limit=100, used=90, need=20, room=["notes"], hint="Disable one.")

    came = pickle.loads(pickle.dumps(error))

    assert (str(came), came.limit, came.used, came.need, came.room) == ("It does not fit.", 100, 90, 20, ("notes",))
    assert came.__notes__ == ["Disable one."]


def test_an_error_can_be_copied():
    assert copy.copy(ApprovalRequired("Approval required.", approval_id="1f2a")).approval_id == "1f2a"
