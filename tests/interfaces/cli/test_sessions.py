"""Enable and disable skills in a conversation from the command line."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest


def test_there_is_nothing_yet_and_each_command_says_so(prowess, workspace):
    assert prowess("sessions").out.startswith("No open conversations.")
    assert prowess("sessions", "--json").json == []
    empty = prowess("prompt")
    assert (empty.code, empty.out) == (0, "")
    assert "No skills are enabled" in empty.err
    assert (prowess("index").out, prowess("index").err != "") == ("", True)


def test_a_skill_is_enabled_shown_printed_and_disabled(prowess, sample):
    assert prowess("enable", "commit-messages").out.startswith("Enabled commit-messages. default: 1 skill enabled")
    assert "commit-messages" in prowess("sessions").out
    shown = prowess("sessions", "show", "default", "--json").json
    assert [skill["slug"] for skill in shown["enabled_skills"]] == ["commit-messages"]
    prompt = prowess("prompt", "--policies", "Be kind.").out
    assert prompt.index("<policies>") < prompt.index('<skill name="Commit messages">')
    assert prowess("disable", "commit-messages").code == 0
    assert "<skill" not in prowess("prompt").out


def test_enabling_twice_says_that_it_was_enabled_already(prowess, sample):
    prowess("enable", "commit-messages")
    again = prowess("enable", "commit-messages")
    assert (again.code, again.out.startswith("commit-messages is already enabled.")) == (0, True)


def test_a_wrong_slug_begins_no_conversation(prowess, sample):
    assert prowess("enable", "nothing-like-it").code == 4
    assert prowess("sessions", "--json").json == []


def test_printing_the_prompt_begins_no_conversation(prowess, sample):
    asked = prowess("prompt", "--memory", "The user is Ann.", "--json").json
    assert "The user is Ann." in asked["prompt"]
    assert asked["session"] is None
    assert prowess("sessions", "--json").json == []


def test_a_skill_that_does_not_fit_is_refused_with_all_figures(prowess, sample):
    prowess("sessions", "open", "small", "--budget", "300")
    prowess("enable", "commit-messages", "--session", "small")
    refused = prowess("enable", "release-notes", "-s", "small", "--json")
    assert refused.code == 5
    assert '"code": "budget-exceeded"' in refused.err
    assert '"budget": {"limit": 300, "used": 265, "need": 369' in refused.err
    prowess("sessions", "open", "small", "--budget", "400")
    assert "Disable 'commit-messages' to make room" in prowess("enable", "release-notes", "-s", "small").err


def test_a_skill_that_no_prompt_can_hold_is_named_by_import_and_list_and_refused_with_what_to_do(
    prowess, write_skill, tmp_path
):
    text = "---\nname: {}\ndescription: Tells a long story.\n---\n\n" + "Once more. " * 1600
    write_skill("epic", text.format("epic"))
    listed = prowess("list").out
    assert "1 skill is longer than the prompt budget of 16,000 characters and cannot be enabled: epic (17," in listed
    assert "`prowess load SLUG`" in listed
    assert prowess("list", "--json").json[0]["chars"] > 16_000
    (tmp_path / "saga").mkdir()
    (tmp_path / "saga" / "SKILL.md").write_text(text.format("saga"))
    assert "cannot be enabled: saga (17," in prowess("import", tmp_path / "saga").out
    assert prowess("import", tmp_path / "saga", "--json").json[0]["chars"] > 16_000

    refused = prowess("enable", "epic")
    assert refused.code == 5
    hint = re.search(
        r"`prowess (load epic)`, or raise the budget: `prowess (sessions open default --budget \d+)`", refused.err
    )
    assert hint
    assert prowess(*hint[1].split()).code == 0
    assert prowess(*hint[2].split()).code == 0
    assert prowess("enable", "epic").code == 0


def test_a_changed_skill_is_in_the_prompt_as_it_is_now(prowess, sample):
    prowess("enable", "commit-messages")
    place = next(Path().glob("**/commit-messages/SKILL.md"))
    place.write_text(place.read_text() + "\nAnd sign it.\n")
    assert "And sign it." in prowess("prompt").out


def test_a_skill_that_is_gone_leaves_the_prompt_and_that_is_said(prowess, write_skill):
    folder = write_skill("greet")
    prowess("enable", "greet")
    (folder / "SKILL.md").unlink()
    after = prowess("prompt")
    assert "<skill" not in after.out
    assert "greet was removed from the prompt: it was deleted" in after.err


def test_a_prompt_is_mended_after_a_compaction(prowess, sample, tmp_path):
    prowess("enable", "commit-messages")
    file = tmp_path / "prompt.txt"
    file.write_text("You are helpful.\n\n" + prowess("prompt").out)
    once = prowess("prompt", "--into", file).out
    assert once.startswith("You are helpful.")
    assert once.count("<skill ") == 1
    file.write_text(once.rstrip("\n"))
    assert prowess("prompt", "--into", file).out == once


def test_a_printed_prompt_stays_itself_however_often_it_is_renewed(prowess, sample, tmp_path):
    prowess("enable", "commit-messages")
    first = prowess("prompt").out
    file = tmp_path / "prompt.txt"
    file.write_text(first)
    assert prowess("prompt", "--into", file).out == first


def test_a_prompt_that_is_no_text_is_refused(prowess, sample, tmp_path):
    (tmp_path / "prompt.bin").write_bytes(b"\xff\xfe\x00")
    assert prowess("prompt", "--into", tmp_path / "prompt.bin").code == 3
    assert prowess("prompt", "--into", tmp_path / "none").code == 7


def test_a_closed_conversation_holds_nothing_and_can_begin_anew(prowess, sample):
    prowess("enable", "commit-messages", "-s", "talk")
    assert prowess("sessions", "close", "talk").out == "Closed talk.\n"
    assert prowess("sessions", "--json").json == []
    assert "<skill" not in prowess("prompt", "-s", "talk").out
    again = prowess("enable", "release-notes", "-s", "talk", "--json")
    assert [skill["slug"] for skill in again.json["enabled_skills"]] == ["release-notes"]


def test_an_unknown_conversation_is_said_to_be_unknown(prowess, sample):
    for args in (["disable", "x", "-s", "none"], ["sessions", "show", "none"], ["sessions", "close", "none"]):
        assert prowess(*args).code == 4


def test_what_is_given_before_a_further_command_counts_for_it(prowess, sample, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    prowess("enable", "commit-messages", "-w", sample)
    assert prowess("sessions", "-w", sample, "--json", "show", "default").json["conversation"] == f"default:{sample}"


def test_the_default_conversation_of_a_folder_shows_in_no_other_folder(prowess, sample, tmp_path, monkeypatch):
    prowess("enable", "commit-messages")
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.chdir(other)
    empty = prowess("prompt")
    assert (empty.out, "No skills are enabled in 'default'" in empty.err) == ("", True)
    assert "Run `prowess enable SLUG --session 'my chat'` to add one." in prowess("prompt", "-s", "my chat").err
    assert prowess("sessions", "show", "default").code == 4
    assert "Commit messages" in prowess("prompt", "-w", sample).out
    (other / "link").symlink_to(sample)
    assert "Commit messages" in prowess("prompt", "-w", "link").out


def test_a_conversation_with_a_name_of_its_own_is_the_same_in_every_folder(prowess, sample, tmp_path, monkeypatch):
    prowess("enable", "commit-messages", "--session", "shared")
    prowess("enable", "release-notes")
    monkeypatch.chdir(tmp_path)
    assert "Commit messages" in prowess("prompt", "--session", "shared").out
    assert {session["conversation"] for session in prowess("sessions", "--json").json} == {
        "shared",
        f"default:{sample}",
    }
    assert "release notes" in prowess("prompt", "--session", f"default:{sample}").out


def test_the_folder_of_a_default_conversation_may_have_any_name(prowess, tmp_path, monkeypatch):
    deep = tmp_path / ("long" * 50) / "two\nlines"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    assert prowess("sessions", "open", "default").out.startswith("default: 0 skills enabled")
    assert prowess("sessions", "show", "default").code == 0


def test_two_commands_at_once_on_a_fresh_home_both_succeed(prowess, sample):
    command = [str(Path(sys.executable).parent / "prowess"), "enable"]
    both = [subprocess.Popen([*command, slug], stdout=subprocess.PIPE) for slug in ("commit-messages", "release-notes")]
    assert [(process.communicate(), process.returncode)[1] for process in both] == [0, 0]
    state = prowess("sessions", "show", "default", "--json").json
    assert {skill["slug"] for skill in state["enabled_skills"]} == {"commit-messages", "release-notes"}


@pytest.mark.parametrize("args", [["sessions"], ["enable", "commit-messages"], ["prompt"], ["approvals"], ["audit"]])
def test_a_home_that_cannot_be_written_is_named(prowess, sample, tmp_path, monkeypatch, args):
    (tmp_path / "file").touch()
    monkeypatch.setenv("PROWESS_HOME", str(tmp_path / "file" / "home"))
    ended = prowess(*args)
    assert ended.code == 7
    assert "Cannot create" in ended.err


def test_the_index_keeps_to_its_budget_and_counts_what_it_leaves_out(prowess, office):
    assert "sql-tuner: Explains" in prowess("index").out
    tight = prowess("index", "my", "query", "is", "slow", "--budget", "120", "--json").json
    assert tight["chars"] <= 120
    assert tight["entries"][0]["slug"] == "sql-tuner"
    assert "too small" in prowess("index", "--budget", "3").err


def test_a_skill_cannot_steer_the_terminal_from_its_title(prowess, write_skill):
    write_skill("loud", '---\nname: loud\ntitle: "\\e[2JLoud"\ndescription: Says it loudly to people.\n---\n\nShout.\n')
    prowess("enable", "loud")
    assert "\x1b" not in prowess("sessions", "show", "default").out
    assert "\x1b" not in prowess("sessions").out


@pytest.mark.parametrize("name", ["", " "])
def test_an_empty_name_opens_no_conversation(prowess, sample, name):
    assert prowess("enable", "commit-messages", "--session", name).code == 2
    assert prowess("sessions", "--json").json == []
