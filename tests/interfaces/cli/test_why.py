"""`prowess why`: explain why a skill was, or was not, offered and enabled."""

from __future__ import annotations

import json

import pytest


def test_the_way_of_each_candidate_is_told(prowess, office):
    told = prowess("why", "my", "sql", "query", "is", "slow").out
    assert "sql-tuner: offered" in told
    for step in ("match", "fields", "signals", "index", "policy  allow", "budget"):
        assert f"  {step}" in told


def test_what_stands_in_the_way_is_the_choice(prowess, office):
    message = "please explain why this slow SQL query needs an index"
    assert prowess("why", message, "--json").json["steps"][0]["choice"] == "offered"
    prowess("policy", "set", "skill_enablement_policy", "prompt-user")
    assert prowess("why", message, "--json").json["steps"][0]["choice"] == "needs approval"
    prowess("policy", "reset", "skill_enablement_policy")
    prowess("enable", "sql-tuner")
    assert prowess("why", message, "-s", "default", "--json").json["steps"][0]["choice"] == "enabled"
    prowess("sessions", "open", "tiny", "--budget", "10")
    assert prowess("why", message, "-s", "tiny", "--json").json["steps"][0]["choice"] == "no room"


def test_an_account_is_made_again_and_compared(prowess, office, write_skill, tmp_path):
    file = tmp_path / "account.json"
    file.write_text(prowess("why", "a slow SQL query", "--json").out)
    same = prowess("why", "--replay", file)
    assert (same.code, same.out) == (0, "No differences.\n")
    write_skill("query-doctor", "---\nname: query-doctor\ndescription: Heals slow SQL queries.\n---\n\nDo it.\n")
    other = prowess("why", "--replay", file, "--json")
    assert other.code == 1
    assert other.json["same"] is False
    assert any("query-doctor" in words for words in other.json["differences"])


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"message": 1, "session": "", "steps": []}', "[" * 100_000])
def test_a_file_that_is_no_account_is_refused(prowess, office, tmp_path, text):
    (tmp_path / "account.json").write_text(text)
    assert prowess("why", "--replay", tmp_path / "account.json").code == 3


def test_wrong_input_is_refused(prowess, office, tmp_path, pipe):
    pipe(b"")
    assert prowess("why").code == 2
    assert prowess("why", "hello", "--session", "none").code == 4
    assert prowess("why", "--replay", tmp_path / "none").code == 7
    (tmp_path / "account.json").write_text(json.dumps({"message": "x", "session": "", "steps": []}))
    assert prowess("why", "hello", "--replay", tmp_path / "account.json").code == 2


def test_a_message_can_be_piped_in(prowess, office, pipe):
    pipe(b"a slow SQL query")
    assert "sql-tuner" in prowess("why").out


def test_a_workspace_without_skills_says_so(prowess, workspace):
    assert "No matching skill." in prowess("why", "hello").out


def test_one_skill_is_explained_for_a_message(prowess, office):
    told = prowess("why", "sql-tuner", "my query is slow", "--json").json
    assert (told["message"], told["skill"]) == ("my query is slow", "sql-tuner")
    assert [step["slug"] for step in told["steps"]] == ["sql-tuner"]
    assert told["steps"][0]["score"] == prowess("why", "my query is slow", "--json").json["steps"][0]["score"]
    assert prowess("why", "my query is slow", "--skill", "sql-tuner", "--json").json == told


def test_a_skill_that_is_no_candidate_is_explained_with_every_step(prowess, office):
    told = prowess("why", "sql-tuner", "?!")
    assert told.code == 0
    assert "sql-tuner: not offered" in told.out
    assert "  match   0.00, no: no evidence" in told.out
    assert "  policy" in told.out


@pytest.mark.parametrize(
    ("slug", "reason"),
    [("plain", "it has no description, so it is not ranked"), ("reviewer", "built-in role packs are not matched")],
)
def test_a_skill_that_no_message_can_find_says_why(prowess, office, write_skill, monkeypatch, slug, reason):
    monkeypatch.setenv("PROWESS_SYSTEM_SKILLS", "on")
    write_skill("plain", "# Plain\n\nTune the SQL query.\n")
    assert f"  match   0.00, no: {reason}\n" in prowess("why", slug, "tune the plain SQL query").out


def test_words_that_begin_with_no_skill_are_a_message(prowess, office):
    told = prowess("why", "sql", "query", "is", "slow", "--json").json
    assert (told["message"], told["skill"]) == ("sql query is slow", "")
    assert prowess("why", "slow", "--skill", "none").code == 4


def test_a_slug_that_does_not_exist_is_reported_before_a_message_in_quotes(prowess, office):
    assert prowess("why", "sql-tunr", "my query is slow").err == (
        "No skill is named 'sql-tunr', so the word counts as part of the message.\n"
    )
    assert prowess("why", "sql", "query", "is", "slow").err == ""


def test_an_explanation_of_one_skill_is_made_again(prowess, office, tmp_path):
    (tmp_path / "account.json").write_text(prowess("why", "sql-tuner", "the weather", "--json").out)
    assert prowess("why", "--replay", tmp_path / "account.json").out == "No differences.\n"
