"""Suggestions for names that somebody mistyped: near ones, and none rather than a silly one."""

from __future__ import annotations

import pytest

from prowess.suggestions import did_you_mean, near_names

SKILLS = ("commit-messages", "index", "list", "pdf", "pet", "postgres.health-triage", "release-notes", "sql-tuner")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("comit-messages", ["commit-messages"]),
        ("commit-mesages", ["commit-messages"]),
        ("idnex", ["index"]),
        ("lst", ["list"]),
        ("pdff", ["pdf"]),
        ("SQL-Tuner", ["sql-tuner"]),
        ("release", ["release-notes"]),
        ("health-triage", ["postgres.health-triage"]),
        ("helth-triage", ["postgres.health-triage"]),
    ],
)
def test_typing_errors_and_beginnings_find_the_name_that_was_meant(typed: str, meant: list[str]) -> None:
    assert near_names(typed, SKILLS) == meant


@pytest.mark.parametrize("typed", ["nope", "get", "petition", "x", "", "zzz", "notes-of-something-else"])
def test_other_words_find_nothing(typed: str) -> None:
    assert near_names(typed, SKILLS) == []
    assert did_you_mean(typed, SKILLS) == ""


def test_the_nearest_come_first_and_few_are_named() -> None:
    known = ["notes", "note", "notes-long", "notes-longer", "noted"]
    assert near_names("note", known) == ["note", "noted", "notes"]
    assert did_you_mean("notess", known, count=1) == "Did you mean 'notes'?"
