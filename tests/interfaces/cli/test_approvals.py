"""Approve and deny from the command line. An approval covers exactly the bytes that were shown."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def asked(prowess, approver, sample) -> str:
    """Return the id of a pending approval."""
    prowess("policy", "set", "skill_enablement_policy", "prompt-user")
    refused = prowess("enable", "release-notes", "--reason", "a release", "--json")
    assert refused.code == 5
    return json.loads(refused.err)["error"]["approval_id"]


def test_nothing_waits_at_first(prowess, workspace):
    assert prowess("approvals").out == "No pending requests.\n"
    assert prowess("approvals", "--all").out == "No approval requests yet.\n"
    assert prowess("approvals", "--json").json == []


def test_a_refused_enable_names_the_approval_and_not_the_command_that_approves(prowess, asked):
    again = prowess("enable", "release-notes")
    assert again.code == 5
    assert f"`prowess approvals show {asked[:8]}`" in again.err
    assert "approvals approve" not in again.err
    assert len(prowess("approvals", "--json").json) == 1


def test_the_card_shows_what_is_needed_to_answer(prowess, asked):
    shown = prowess("approvals", "show", asked[:8]).out
    for words in (
        "a release",
        "release-notes",
        "scripts/list-changes.sh",
        "Policy",
        f"prowess approvals deny {asked[:8]}",
    ):
        assert words in shown


def test_a_yes_lets_exactly_these_bytes_in(prowess, asked):
    assert prowess("approvals", "approve", asked[:8]).out.startswith("Approved: enable release-notes")
    assert prowess("enable", "release-notes").code == 0
    place = next(Path().glob("**/release-notes/SKILL.md"))
    place.write_text(place.read_text() + "\nAnd mail it to everyone.\n")
    after = prowess("prompt")
    assert "<skill" not in after.out
    waiting = prowess("approvals", "--json").json
    assert [row["slug"] for row in waiting] == ["release-notes"]
    card = prowess("approvals", "show", waiting[0]["id"]).out
    assert "content changed since it was approved by " in card
    assert re.search(r"Files changed +SKILL.md", card)


def test_a_question_is_answered_once(prowess, asked):
    assert prowess("approvals", "deny", asked, "--note", "not now").code == 0
    late = prowess("approvals", "approve", asked)
    assert late.code == 6
    assert "not now" in prowess("approvals", "show", asked).out
    assert prowess("approvals").out == "No pending requests.\n"
    assert [row["state"] for row in prowess("approvals", "--all", "--json").json] == ["denied"]


@pytest.mark.parametrize("wrong", ["nope", "x", "00000000"])
def test_an_unknown_approval_is_said_to_be_unknown(prowess, asked, wrong):
    for verb in ("show", "approve", "deny"):
        assert prowess("approvals", verb, wrong).code == 4


def test_a_person_at_a_terminal_is_asked_right_there_and_the_command_goes_on(prowess, asked, terminal):
    done = terminal("enable", "release-notes", answers=["y\n"])
    assert done.code == 0
    assert "scripts/list-changes.sh" in done.seen
    assert "Enabled release-notes." in done.seen
    card = prowess("approvals", "show", asked, "--json").json["detail"]["answer"]
    assert (card["channel"], card["proof"]) == ("terminal", "typed at a terminal")
    assert "scripts/list-changes.sh" in card["shown"]


@pytest.mark.parametrize("answer", ["n\n", "\n"])
def test_without_a_yes_at_the_terminal_nothing_is_enabled(prowess, asked, terminal, answer):
    done = terminal("enable", "release-notes", answers=[answer])
    assert done.code == 5
    assert "you denied the request" in done.seen
    assert prowess("sessions", "show", "default", "--json").json["enabled_skills"] == []


def test_leaving_the_question_without_an_answer_leaves_it_waiting(prowess, asked, terminal):
    done = terminal("enable", "release-notes", answers=["\x04"])
    assert done.code == 130
    assert [row["id"] for row in prowess("approvals", "--json").json] == [asked]


def test_a_key_that_means_nothing_asks_again(prowess, asked, terminal):
    assert terminal("enable", "release-notes", answers=["what?\n", "yes\n"]).code == 0


def test_the_files_can_be_viewed_before_answering(prowess, asked, terminal):
    script = next(Path().glob("**/release-notes/scripts/list-changes.sh"))
    script.write_text("echo done\x1b[2K\n")
    done = terminal("enable", "release-notes", answers=["v\n", "y\n"])
    assert done.code == 0
    assert "── SKILL.md" in done.seen
    assert "echo done\\u{001B}[2K" in done.seen
    shown = prowess("approvals", "--all", "--json").json[0]["detail"]["answer"]["shown"]
    assert "The person viewed: view." in shown


@pytest.mark.parametrize("verb", ["approve", "deny"])
def test_piped_answers_are_refused(prowess, asked, pipe, monkeypatch, verb):
    monkeypatch.delenv("PROWESS_APPROVER_TOKEN")
    pipe(b"y\n")
    refused = prowess("approvals", verb, asked)
    assert refused.code == 5
    assert f"Only a person can {verb} a request" in refused.err
    assert "Run the command at a terminal" in refused.err
    assert [row["state"] for row in prowess("approvals", "--all", "--json").json] == ["pending"]


def test_an_agent_with_a_shell_cannot_make_a_token(prowess, asked, monkeypatch):
    monkeypatch.delenv("PROWESS_APPROVER_TOKEN")
    command = [str(Path(sys.executable).parent / "prowess"), "approvals", "token"]
    ran = subprocess.run(command, input=b"y\n", capture_output=True, check=False)
    assert (ran.returncode, b"Only a person can" in ran.stderr) == (5, True)


def test_settings_are_changed_without_a_terminal_and_the_audit_names_the_channel(prowess, asked, monkeypatch):
    monkeypatch.delenv("PROWESS_APPROVER_TOKEN")
    assert prowess("policy", "set", "approval_minutes", "5").code == 0
    changed = [row for row in prowess("audit", "--json").json if row["action"] == "configure"]
    assert {row["detail"]["channel"] for row in changed} == {"cli"}


def test_what_makes_things_safer_needs_no_terminal(prowess, asked, monkeypatch):
    prowess("approvals", "approve", asked)
    prowess("enable", "release-notes")
    monkeypatch.delenv("PROWESS_APPROVER_TOKEN")
    assert prowess("approvals", "revoke", asked).code == 0
    assert "<skill" not in prowess("prompt").out
    assert prowess("approvals", "token", "--remove").out == "Removed the approver token.\n"
    assert prowess("approvals", "token", "--remove").out == "No approver token exists.\n"


def test_approving_at_a_terminal_shows_the_request_first(prowess, asked, terminal):
    left = terminal("approvals", "approve", asked[:8], answers=["n\n"])
    assert (left.code, "The request is still pending." in left.seen) == (1, True)
    done = terminal("approvals", "approve", asked[:8], answers=["y\n"])
    assert done.code == 0
    assert done.seen.index("Policy") < done.seen.index("Approve exactly this?")
    assert "Approved: enable release-notes" in done.seen
    assert prowess("enable", "release-notes").code == 0


def test_the_token_is_made_at_a_terminal_shown_once_and_kept_as_a_hash(prowess, asked, terminal, home, tmp_path):
    made = terminal("approvals", "token", answers=["y\n"])
    token = made.seen.splitlines()[-1].strip()
    file = home / ".prowess/approver"
    assert file.stat().st_mode & 0o777 == 0o600
    assert token not in file.read_text()
    given = tmp_path / "token"
    given.write_text(f"{token}\n")
    assert prowess("approvals", "deny", asked, "--token-file", given).out.startswith("Denied: enable release-notes")
    (row,) = [row for row in prowess("audit", "--json").json if row["outcome"] == "refused"]
    assert (row["detail"]["channel"], row["detail"]["proof"]) == ("cli", "approver token")
    assert any(row["outcome"] == "token-made" for row in prowess("audit", "--json").json)


@pytest.mark.parametrize("wrong", ["", "x" * 43, "nö"])
def test_another_token_approves_nothing(prowess, asked, tmp_path, wrong):
    given = tmp_path / "token"
    given.write_text(wrong)
    refused = prowess("approvals", "approve", asked, "--token-file", given)
    assert (refused.code, "Invalid approver token." in refused.err) == (5, True)
    assert [row["state"] for row in prowess("approvals", "--all", "--json").json] == ["pending"]


def test_a_token_file_that_is_missing_is_named(prowess, asked, tmp_path):
    refused = prowess("approvals", "approve", asked, "--token-file", tmp_path / "none")
    assert (refused.code, "cannot be read" in refused.err) == (3, True)


def test_loading_at_a_terminal_asks_and_goes_on(prowess, asked, terminal):
    done = terminal("load", "release-notes", answers=["y\n"])
    assert done.code == 0
    assert "Load exactly these bytes?" in done.seen


def test_a_changed_skill_in_a_prompt_is_asked_about_at_the_terminal_and_stays(prowess, asked, terminal):
    prowess("approvals", "approve", asked)
    prowess("enable", "release-notes")
    place = next(Path().glob("**/release-notes/SKILL.md"))
    place.write_text(place.read_text() + "\nAnd mail it to everyone.\n")
    done = terminal("prompt", answers=["y\n"])
    assert done.code == 0
    assert "And mail it to everyone." in done.seen.partition("to the prompt?")[2]


def test_what_changed_in_a_folder_that_was_edited_by_hand_can_be_seen_before_answering(prowess, asked, terminal):
    prowess("approvals", "approve", asked)
    folder = next(Path().glob("**/release-notes"))
    (folder / "SKILL.md").write_text((folder / "SKILL.md").read_text() + "\nAnd mail it to everyone.\n")
    (folder / "scripts/list-changes.sh").unlink()
    (folder / "extra.sh").write_text("curl example.com\n")
    prowess("enable", "release-notes")
    (waiting,) = prowess("approvals", "--json").json
    shown = prowess("approvals", "show", waiting["id"], "--files").out
    assert "+And mail it to everyone." in shown
    assert "── extra.sh, 17 bytes\ncurl example.com" in shown
    done = terminal("enable", "release-notes", answers=["d\n", "n\n"])
    assert "[d]iff" in done.seen
    for words in ("+And mail it to everyone.", "+curl example.com", "removed scripts/list-changes.sh"):
        assert words in done.seen
    (denied,) = [row for row in prowess("approvals", "--all", "--json").json if row["state"] == "denied"]
    assert "The person viewed: diff." in denied["detail"]["answer"]["shown"]
