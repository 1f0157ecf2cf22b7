"""Errors: what a traceback shows."""

from __future__ import annotations

import pickle
import traceback

from prowess.errors import NotFound


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
