"""Read and verify the audit log from the command line."""

from __future__ import annotations

import sqlite3


def test_nothing_was_decided_at_first(prowess, workspace):
    assert prowess("audit").out == "Nothing has been decided yet.\n"
    assert prowess("audit", "verify").out == "There are no rows yet.\n"


def test_every_decision_is_a_row(prowess, sample):
    prowess("enable", "commit-messages")
    prowess("policy", "set", "approval_minutes", "15")
    prowess("disable", "commit-messages")
    rows = prowess("audit", "--json").json
    assert [(row["number"], row["action"]) for row in rows] == [(1, "enable"), (2, "configure"), (3, "disable")]
    assert "approval_minutes" in prowess("audit").out


def test_a_deleted_skill_leaves_a_row_before_and_a_row_after(prowess, sample):
    prowess("delete", "release-notes")
    rows = prowess("audit", "--json").json
    assert [(row["action"], row["slug"], row["outcome"]) for row in rows] == [
        ("delete", "release-notes", "allowed"),
        ("delete", "release-notes", "done"),
    ]


def test_the_latest_rows_are_shown_or_the_first_after_a_number(prowess, workspace):
    for minutes in range(1, 12):
        prowess("policy", "set", "approval_minutes", str(minutes))
    assert [row["number"] for row in prowess("audit", "--limit", "3", "--json").json] == [9, 10, 11]
    assert [row["number"] for row in prowess("audit", "--after", "2", "--limit", "3", "--json").json] == [3, 4, 5]
    assert prowess("audit", "--after", "11").out == "Nothing has been decided since.\n"


def test_a_row_that_was_altered_or_cut_off_is_found(prowess, workspace, home):
    for minutes in ("1", "2", "3"):
        prowess("policy", "set", "approval_minutes", minutes)
    whole = prowess("audit", "verify", "--json").json
    assert (whole["ok"], whole["rows"]) == (True, 3)
    with sqlite3.connect(home / ".prowess/agents.db") as database:
        database.execute("DELETE FROM audit WHERE number = 3")
    database.close()
    assert prowess("audit", "verify").code == 0
    assert prowess("audit", "verify", "--head", whole["head"]).code == 1
    with sqlite3.connect(home / ".prowess/agents.db") as database:
        database.execute("UPDATE audit SET actor = 'somebody' WHERE number = 1")
    database.close()
    altered = prowess("audit", "verify")
    assert altered.code == 1
    assert "at row 1" in altered.out
