"""Approve and deny from the command line. An approval covers exactly the bytes that were shown."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def asked(prowess, sample) -> str:
    """Return the id of a pending approval."""
    prowess("policy", "set", "skill_enablement_policy", "prompt-user")
    refused = prowess("enable", "release-notes", "--reason", "a release", "--json")
    assert refused.code == 5
    return json.loads(refused.err)["error"]["approval_id"]


def test_nothing_waits_at_first(prowess, workspace):
    assert prowess("approvals").out == "Nothing waits for an answer.\n"
    assert prowess("approvals", "--all").out == "Nobody has been asked anything yet.\n"
    assert prowess("approvals", "--json").json == []


def test_a_refused_enable_names_the_command_that_answers(prowess, asked):
    again = prowess("enable", "release-notes")
    assert again.code == 5
    assert f"prowess approvals approve {asked[:8]}" in again.err
    assert len(prowess("approvals", "--json").json) == 1


def test_the_card_shows_what_is_needed_to_answer(prowess, asked):
    shown = prowess("approvals", "show", asked[:8]).out
    for words in (
        "a release",
        "release-notes",
        "scripts/list-changes.sh",
        "369",
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
    assert "changed: SKILL.md" in card


def test_a_question_is_answered_once(prowess, asked):
    assert prowess("approvals", "deny", asked, "--note", "not now").code == 0
    late = prowess("approvals", "approve", asked)
    assert late.code == 6
    assert "not now" in prowess("approvals", "show", asked).out
    assert prowess("approvals").out == "Nothing waits for an answer.\n"
    assert [row["state"] for row in prowess("approvals", "--all", "--json").json] == ["denied"]


@pytest.mark.parametrize("wrong", ["nope", "x", "00000000"])
def test_an_unknown_approval_is_said_to_be_unknown(prowess, asked, wrong):
    for verb in ("show", "approve", "deny"):
        assert prowess("approvals", verb, wrong).code == 4


def answered_on_a_terminal(answer: bytes) -> tuple[int, str]:
    """Run `prowess enable` on a terminal and answer the question it asks."""
    ours, theirs = pty.openpty()
    command = [str(Path(sys.executable).parent / "prowess"), "enable", "release-notes"]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True) as process:
        os.close(theirs)
        seen = b""
        try:
            while chunk := os.read(ours, 4096):
                seen += chunk
                if seen.endswith(b"[y/N]: "):
                    os.write(ours, answer)
        except OSError:
            pass  # the terminal is gone when the command ends
    os.close(ours)
    return process.returncode, seen.decode()


def test_a_person_at_a_terminal_is_asked_right_there(prowess, asked):
    code, seen = answered_on_a_terminal(b"y\n")
    assert code == 0
    assert "scripts/list-changes.sh" in seen
    assert "Enabled release-notes." in seen


@pytest.mark.parametrize("answer", [b"n\n", b"\n"])
def test_without_a_yes_at_the_terminal_nothing_is_enabled(prowess, asked, answer):
    code, seen = answered_on_a_terminal(answer)
    assert code == 5
    assert "You said no" in seen
    assert prowess("sessions", "show", "default", "--json").json["enabled_skills"] == []


def test_leaving_the_question_without_an_answer_leaves_it_waiting(prowess, asked):
    code, _ = answered_on_a_terminal(b"\x04")
    assert code == 130
    assert [row["id"] for row in prowess("approvals", "--json").json] == [asked]
