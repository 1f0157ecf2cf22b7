"""Read and verify the audit log from the command line."""

from __future__ import annotations

import sqlite3

import pytest

pytestmark = pytest.mark.usefixtures("approver")


def test_nothing_was_decided_at_first(prowess, workspace):
    assert prowess("audit").out == "No decisions yet.\n"
    assert prowess("audit", "verify").out == "The audit log is empty.\n"


def test_every_decision_is_a_row(prowess, sample):
    prowess("enable", "commit-messages")
    prowess("policy", "set", "approval_minutes", "15")
    prowess("disable", "commit-messages")
    rows = prowess("audit", "--json").json
    assert [(row["number"], row["action"]) for row in rows] == [(1, "enable"), (2, "configure"), (3, "disable")]
    assert "approval_minutes" in prowess("audit").out


def test_the_operator_reads_verifies_and_exports_the_log_of_an_organization(prowess, workspace):
    prowess("org", "create", "acme")
    prowess("user", "add", "ann", "--org", "acme", "--admin")
    assert "ann: admin, approvals.resolve" in prowess("audit", "--org", "acme").out
    assert prowess("audit").out == "No decisions yet.\n"
    verified = prowess("audit", "verify", "--org", "acme", "--json").json
    assert (verified["ok"], verified["rows"]) == (True, 2)
    assert len(prowess("audit", "export", "--org", "acme").out.splitlines()) == 2
    assert "No organization 'nope'" in prowess("audit", "verify", "--org", "nope").err


def test_a_row_about_a_token_names_it_and_what_it_allows(prowess, workspace):
    assert prowess("token", "create", "ci", "--scopes", "skills.read").code == 0
    assert "ci: skills.read" in prowess("audit").out


def test_the_rows_about_an_install_name_the_skill_or_where_it_is_from(prowess, workspace):
    for name in ("one", "two"):
        folder = workspace / "more" / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: Counts to {name}.\n---\n\nCount.\n")
    assert prowess("import", "more/one").code == 0
    rows = prowess("audit", "--json").json
    assert [(row["action"], row["slug"], row["outcome"]) for row in rows] == [
        ("install", "", "begun"),
        ("trust", "one", "imported"),
        ("install", "one", "done"),
    ]
    assert prowess("import", "more").code == 0
    shown = prowess("audit", "--after", "3").out
    assert [line.split()[-1] for line in shown.splitlines() if " install " in line] == ["more", "more"]


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
    assert prowess("audit", "--after", "11").out == "No later decisions.\n"


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


def test_the_account_of_a_skill_says_who_let_it_in_through_which_channel_and_what_they_saw(prowess, sample, terminal):
    prowess("policy", "set", "skill_enablement_policy", "prompt-user")
    terminal("enable", "release-notes", answers=["y\n"])
    told = prowess("audit", "release-notes")
    assert told.code == 0
    assert "through terminal (typed at a terminal): in force" in told.out
    assert f"in prompt   default in {sample}, enabled by " in told.out
    assert "| " in told.out.partition("shown       the text below")[2]
    account = prowess("audit", "release-notes", "--json").json
    (content,) = account["contents"]
    assert (content["current"], content["digest"]) == (True, account["digest"])
    (answer,) = content["answers"]
    assert (answer["how"], answer["channel"], answer["proof"]) == ("approved", "terminal", "typed at a terminal")
    assert "scripts/list-changes.sh" in answer["shown"]
    assert answer["shown_ok"] is True
    assert [row["outcome"] for row in account["decisions"]] == ["asked", "approved", "allowed"]


def test_the_account_keeps_what_was_let_in_before_a_change_a_revocation_and_a_deletion(prowess, sample):
    prowess("policy", "set", "skill_enablement_policy", "prompt-user")
    prowess("enable", "release-notes")
    (asked,) = prowess("approvals", "--json").json
    prowess("approvals", "approve", asked["id"], "--note", "read it")
    prowess("approvals", "revoke", asked["id"])
    place = next(sample.glob("**/release-notes/SKILL.md"))
    place.write_text(place.read_text() + "\nMore.\n")
    now, before = prowess("audit", "release-notes", "--json").json["contents"]
    assert (now["current"], now["answers"]) == (True, [])
    assert before["digest"] == asked["digest"]
    (answer,) = before["answers"]
    assert (answer["state"], answer["proof"], answer["by"] != "") == ("revoked", "approver token", True)
    prowess("delete", "release-notes")
    assert "approver token" in prowess("audit", "skill", "release-notes").out


def test_a_text_that_was_altered_after_it_was_shown_is_found(prowess, sample, terminal, home):
    prowess("policy", "set", "skill_enablement_policy", "prompt-user")
    terminal("enable", "release-notes", answers=["y\n"])
    with sqlite3.connect(home / ".prowess/agents.db") as database:
        database.execute("UPDATE approvals SET detail = replace(detail, 'scripts/list-changes.sh', 'nothing')")
    database.close()
    assert "WARNING: the stored text differs from the text that was shown" in prowess("audit", "release-notes").out


def test_a_skill_that_nobody_knows_has_no_account(prowess, sample):
    assert prowess("audit", "no-such-skill").code == 4
    assert prowess("audit", "commit-messages").out.endswith("No decisions about this skill yet.\n")


def test_nothing_that_a_row_holds_reaches_the_terminal_as_a_command(prowess, workspace, home):
    prowess("policy", "set", "approval_minutes", "15")
    with sqlite3.connect(home / ".prowess/agents.db") as database:
        database.execute("UPDATE audit SET at = char(27) || ']0;gone' || char(7)")
    shown = prowess("audit").out
    assert "gone" in shown
    assert "\x1b" not in shown
