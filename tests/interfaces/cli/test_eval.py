"""`prowess eval triggers`: precision and recall, confusions, advice, and an exit code for CI."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

GOOD = [
    {"query": "extract the totals from this invoice pdf", "should_trigger": True},
    {"query": "when is this bill due, here is the invoice", "should_trigger": True},
    {"query": "who won the chess olympiad", "should_trigger": False},
]
BAD = [
    {"query": "teach the parrot some astronomy", "should_trigger": True},
    {"query": "astronomy lessons with a parrot", "should_trigger": True},
    {"query": "explain why this slow SQL query needs indexes", "should_trigger": True},
    {"query": "extract totals and VAT from this invoice PDF", "should_trigger": False},
]


@pytest.fixture
def evals(office):
    def write(cases: object, name: str = "evals/triggers.json", skill: str = "invoice-reader") -> Path:
        file = office / ".agents/skills" / skill / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(cases if isinstance(cases, str) else json.dumps(cases))
        return file

    return write


def test_a_skill_that_triggers_as_it_should_passes(prowess, evals):
    evals(GOOD)
    ran = prowess("eval", "triggers", "invoice-reader")
    assert ran.code == 0, ran.out
    assert "precision 1.00  recall 1.00  F1 1.00" in ran.out
    assert "2 of 2 matched, 0 of 1 matched by mistake" in ran.out
    assert "100 of 100 (trigger F1 1.00)" in prowess("show", "invoice-reader").out


@pytest.mark.parametrize("queries", [GOOD, BAD])
def test_no_line_is_wider_than_the_terminal(prowess, evals, monkeypatch, queries):
    monkeypatch.setenv("COLUMNS", "80")
    evals(queries)
    ran = prowess("eval", "triggers", "invoice-reader")
    assert [line for line in ran.out.splitlines() if len(line) > 80] == []


def test_only_the_skills_own_queries_give_it_a_score(prowess, evals, office):
    (office / "queries.json").write_text(json.dumps(GOOD))
    evals(GOOD)
    prowess("eval", "triggers", str(office / "queries.json"), "--skill", "invoice-reader")
    prowess("eval", "triggers", "invoice-reader", "--limit", "1")
    assert "of 100" not in prowess("show", "invoice-reader").out


def test_a_skill_that_does_not_fails_with_what_came_instead_and_what_to_add(prowess, evals):
    evals(BAD)
    ran = prowess("eval", "triggers", "invoice-reader")
    assert ran.code == 1
    assert "teach the parrot some astronomy" in ran.out
    assert "Confused with: sql-tuner (1)" in ran.out
    assert "trigger phrases would help" in ran.out
    assert "- parrot some astronomy" in ran.out
    assert "Not for …" in ran.out
    assert "1 below precision 0.80 and recall 0.80" in ran.out


def test_json_tells_all_of_it(prowess, evals):
    evals(BAD)
    told = prowess("eval", "triggers", "invoice-reader", "--json").json
    assert told["ok"] is False
    [skill] = told["skills"]
    assert skill["counts"] == {
        "queries": 4, "should_trigger": 3, "should_not_trigger": 1, "hits": 0, "missed": 3, "false_triggers": 1,
    }  # fmt: skip
    assert (skill["precision"], skill["recall"], skill["f1"]) == (0, 0, 0)
    assert skill["confusions"] == {"sql-tuner": 1}
    assert skill["add_words"][:2] == ["astronomy", "parrot"]
    assert "invoice" in skill["drop_words"]
    assert skill["queries"][2]["instead"][0] == "sql-tuner"


def test_the_thresholds_decide_the_exit_code(prowess, evals):
    evals(BAD)
    assert prowess("eval", "triggers", "invoice-reader", "--min-precision", "0", "--min-recall", "0").code == 0
    for share in ("1.5", "-1", "nan", "x"):
        assert prowess("eval", "triggers", "invoice-reader", "--min-recall", share).code == 2


def test_prompts_of_evals_json_and_waza_tests_are_run(prowess, evals):
    evals({"skill_name": "invoice-reader", "evals": [{"id": 1, "prompt": "read this invoice PDF"}]}, "evals/evals.json")
    evals("skill: invoice-reader\nshould_not_trigger_prompts:\n  - prompt: tell a joke\n", "evals/trigger_tests.yaml")
    [skill] = prowess("eval", "triggers", "invoice-reader", "--json").json["skills"]
    assert skill["counts"]["should_trigger"] == 1
    assert skill["counts"]["should_not_trigger"] == 1


def test_a_skill_without_queries_is_an_error_that_shows_the_format(prowess, office):
    ran = prowess("eval", "triggers", "sql-tuner")
    assert ran.code == 4
    assert '"should_trigger": true' in ran.err
    assert "evals/triggers.json" in ran.err


def test_an_unknown_skill_is_answered_with_near_ones(prowess, office):
    ran = prowess("eval", "triggers", "invoice-raeder")
    assert ran.code == 4
    assert "invoice-reader" in ran.err
    assert prowess("eval", "triggers", "./nowhere").code == 4


def test_a_skill_outside_the_catalog_is_matched_together_with_those_in_reach(prowess, office, tmp_path):
    folder = tmp_path / "parrot-teacher"
    (folder / "evals").mkdir(parents=True)
    (folder / "SKILL.md").write_text(
        "---\nname: parrot-teacher\ndescription: Teaches parrots astronomy, with lessons on stars and planets.\n---\nx\n"
    )
    (folder / "evals/triggers.json").write_text(json.dumps([*BAD[:2], {**BAD[2], "should_trigger": False}]))
    for target in (folder, folder / "SKILL.md", folder / "evals/triggers.json", tmp_path):
        if target == tmp_path:
            (tmp_path / "workspace/.agents").rename(tmp_path / "workspace/elsewhere")
        told = prowess("eval", "triggers", target, "--json").json
        assert [skill["slug"] for skill in told["skills"]] == ["parrot-teacher"]
        assert told["ok"] is True
    assert "parrot-teacher" not in prowess("search", "--json").out


def test_an_eval_file_says_or_is_told_which_skill_it_is_about(prowess, office, tmp_path):
    file = tmp_path / "queries.json"
    file.write_text(json.dumps(GOOD))
    ran = prowess("eval", "triggers", file)
    assert ran.code == 3
    assert "--skill" in ran.err
    assert prowess("eval", "triggers", file, "--skill", "invoice-reader").code == 0
    assert prowess("eval", "triggers", file, "--skill", "nothing-like-it").code == 4
    file.write_text(json.dumps({"skill_name": "invoice-reader", "queries": GOOD}))
    assert prowess("eval", "triggers", file).code == 0
    file.write_text("{")
    ran = prowess("eval", "triggers", file)
    assert ran.code == 3
    assert "eval-unreadable" in ran.err


def test_one_of_many_skills_can_be_chosen(prowess, evals, office):
    evals(GOOD)
    evals([{"query": "this SQL query is slow", "should_trigger": True}], skill="sql-tuner")
    told = prowess("eval", "triggers", ".agents/skills", "--json").json
    assert [skill["slug"] for skill in told["skills"]] == ["invoice-reader", "sql-tuner"]
    told = prowess("eval", "triggers", ".agents/skills", "--skill", "sql-tuner", "--json").json
    assert [skill["slug"] for skill in told["skills"]] == ["sql-tuner"]


def test_what_is_wrong_with_an_eval_file_is_told(prowess, evals):
    evals([*GOOD, {"query": 7}])
    assert "[eval-case]" in prowess("eval", "triggers", "invoice-reader").out
    evals("nonsense")
    ran = prowess("eval", "triggers", "invoice-reader")
    assert ran.code == 3
    assert "eval-unreadable" in ran.err


def test_evals_that_cannot_be_read_never_pass(prowess, evals, office):
    evals(GOOD)
    evals("nonsense", skill="sql-tuner")
    ran = prowess("eval", "triggers", ".agents/skills", "--junit", "report.xml", "--json")
    assert ran.code == 1
    assert [(skill["slug"], skill["ok"]) for skill in ran.json["skills"]] == [
        ("invoice-reader", True),
        ("sql-tuner", False),
    ]
    [error] = ET.fromstring((office / "report.xml").read_text()).findall("testsuite/testcase/error")
    assert error.get("type") == "eval-unreadable"


def test_junit_has_one_case_a_query(prowess, evals, office):
    evals([*BAD, {"query": "odd \x00\x1b\ud800 <&> text", "should_trigger": True}])
    ran = prowess("eval", "triggers", "invoice-reader", "--junit", "report.xml")
    assert ran.code == 1
    root = ET.fromstring((office / "report.xml").read_text())
    [suite] = root.findall("testsuite")
    assert suite.get("name") == "invoice-reader"
    assert (suite.get("tests"), suite.get("failures")) == ("5", "5")
    assert [case.get("classname") for case in suite.findall("testcase")] == ["invoice-reader"] * 5
    assert "sql-tuner" in suite.findall("testcase/failure")[2].get("message", "")
    assert "<&> text" in suite.findall("testcase")[4].get("name", "")
    assert prowess("eval", "triggers", "invoice-reader", "--junit", "no/such/folder.xml").code == 7


def test_no_query_can_write_to_the_terminal(prowess, evals):
    evals([{"query": "\x1b]0;owned\x07 parrot \x1b[2J\u202e", "should_trigger": True}])
    ran = prowess("eval", "triggers", "invoice-reader")
    assert ran.code == 1
    assert not {"\x1b", "\x07", "\u202e"} & set(ran.out + ran.err)


MISSED = [
    {"query": "extract the totals from this invoice pdf", "should_trigger": True},
    {"query": "feed the quixling behind the gramble", "should_trigger": True},
    {"query": "the gramble has no quixling", "should_trigger": True},
    {"query": "paint the gramble", "should_trigger": False},
]


def test_phrases_are_suggested_with_figures_and_the_yaml_to_paste(prowess, evals, office):
    evals(MISSED)
    ran = prowess("eval", "triggers", "invoice-reader")
    assert ran.code == 1
    assert "1 → 3 of 3" in ran.out
    _, yaml = ran.out.split("Add this to agents/prowess.yaml", 1)
    lines = [line.removeprefix("      ") for line in yaml.splitlines()[1:] if line.startswith("      ")]
    file = office / ".agents/skills/invoice-reader/agents/prowess.yaml"
    file.parent.mkdir()
    file.write_text("\n".join(lines))
    again = prowess("eval", "triggers", "invoice-reader")
    assert again.code == 0, again.out
    assert "3 of 3 matched, 0 of 1 matched by mistake" in again.out
    assert "would help" not in again.out


def test_the_yaml_holds_the_phrases_that_a_skill_has_already(prowess, evals, office):
    evals(MISSED)
    file = office / ".agents/skills/invoice-reader/SKILL.md"
    file.write_text(file.read_text().replace("metadata:\n", "metadata:\n  triggers: read a bill, bill totals\n"))
    out = prowess("eval", "triggers", "invoice-reader").out
    assert "      triggers:\n        - read a bill\n        - bill totals\n        - " in out


def test_a_phrase_that_takes_a_neighbours_message_is_shown_with_a_warning_and_not_to_be_pasted(prowess, evals):
    evals([{"query": "quixling gramble", "should_trigger": True}])
    evals([{"query": "the quixling gramble of this slow SQL query", "should_trigger": True}], skill="sql-tuner")
    out = prowess("eval", "triggers", "invoice-reader").out
    assert '"quixling gramble" takes a message from sql-tuner: "the quixling gramble of this slow SQL query"' in out
    assert "triggers:" not in out
    [skill] = prowess("eval", "triggers", "invoice-reader", "--json").json["skills"]
    assert [one["phrase"] for one in skill["suggestions"]] == ["quixling gramble"]
    assert skill["suggestions"][0]["taken"] == [
        {"slug": "sql-tuner", "message": "the quixling gramble of this slow SQL query"}
    ]


def test_suggestions_in_json_have_the_caught_messages_and_the_figures(prowess, evals):
    evals(MISSED)
    [skill] = prowess("eval", "triggers", "invoice-reader", "--json").json["skills"]
    [first, *_] = skill["suggestions"]
    assert first["caught"] == [case["query"] for case in MISSED[1:3]]
    assert first["before"]["found"] == 1
    assert first["after"]["found"] == 3
    assert (first["before"]["false_triggers"], first["after"]["false_triggers"]) == (0, 0)
    [skill] = prowess("eval", "triggers", "invoice-reader", "--json", "--no-suggest").json["skills"]
    assert skill["suggestions"] == []


def test_skills_of_one_folder_are_neighbours_before_they_are_kept(prowess, workspace, tmp_path):
    skills = {
        "alpha": ("Reads supplier invoices.", "quixling gramble"),
        "beta": ("Waters plants.", "a quixling gramble"),
    }
    for name, (description, query) in skills.items():
        (tmp_path / "more" / name / "evals").mkdir(parents=True)
        (tmp_path / "more" / name / "SKILL.md").write_text(f"---\nname: {name}\ndescription: {description}\n---\nx\n")
        cases = [{"query": query, "should_trigger": True}]
        (tmp_path / "more" / name / "evals/triggers.json").write_text(json.dumps(cases))
    told = prowess("eval", "triggers", tmp_path / "more", "--json").json
    assert [skill["suggestions"][0]["taken"][0]["slug"] for skill in told["skills"]] == ["beta", "alpha"]


def test_apply_adds_the_phrases_as_a_new_version(prowess, evals, office, approver):
    evals(MISSED)
    ran = prowess("eval", "triggers", "invoice-reader", "--apply")
    assert ran.code == 1, ran.err
    assert "to invoice-reader. `prowess diff invoice-reader` shows the change." in ran.out
    assert prowess("eval", "triggers", "invoice-reader").code == 0
    shown = prowess("show", "invoice-reader", "--json").json
    assert "quixling" in shown["trigger_phrases"][0]
    changed = prowess("diff", "invoice-reader").out
    assert [line for line in changed.splitlines() if line.startswith("-") and not line.startswith("---")] == []
    assert "Add trigger phrases" in prowess("history", "invoice-reader").out


def test_apply_keeps_the_phrases_that_are_there(prowess, evals, office, approver):
    file = office / ".agents/skills/invoice-reader/SKILL.md"
    file.write_text(file.read_text().replace("metadata:\n", "metadata:\n  triggers: read a bill, bill totals\n"))
    evals(MISSED)
    assert "Added " in prowess("eval", "triggers", "invoice-reader", "--apply").out
    phrases = prowess("show", "invoice-reader", "--json").json["trigger_phrases"]
    assert phrases[:2] == ["read a bill", "bill totals"]
    assert len(phrases) > 2


def test_apply_asks_a_person_and_takes_no_for_an_answer(terminal, evals, prowess, office):
    evals(MISSED)
    file = office / ".agents/skills/invoice-reader/agents/prowess.yaml"
    assert prowess("eval", "triggers", "invoice-reader", "--apply").code == 5
    said = terminal("eval", "triggers", "invoice-reader", "--apply", answers=["n\n"])
    assert "to invoice-reader? [y/N]" in said.seen
    assert not file.exists()
    said = terminal("eval", "triggers", "invoice-reader", "--apply", answers=["y\n"])
    assert "Added " in said.seen
    assert "quixling" in file.read_text()


def test_apply_does_not_accept_a_skill_that_nobody_has_looked_at(prowess, evals, office, approver, monkeypatch):
    monkeypatch.delenv("PROWESS_TRUSTED_FOLDERS")
    evals(MISSED)
    ran = prowess("eval", "triggers", "invoice-reader", "--apply")
    assert ran.code == 5
    assert "prowess trust invoice-reader" in ran.err
    assert not (office / ".agents/skills/invoice-reader/agents").exists()
    assert prowess("trust", "invoice-reader").code == 0
    assert "Added " in prowess("eval", "triggers", "invoice-reader", "--apply").out
    assert "[found]" not in prowess("match", "feed the quixling behind the gramble").out


def test_apply_refuses_a_skill_out_of_reach(prowess, workspace, tmp_path, approver):
    folder = tmp_path / "elsewhere/alpha"
    (folder / "evals").mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: alpha\ndescription: Reads supplier invoices.\n---\nx\n")
    (folder / "evals/triggers.json").write_text(json.dumps([{"query": "quixling gramble", "should_trigger": True}]))
    ran = prowess("eval", "triggers", folder, "--apply")
    assert ran.code == 5
    assert "Add the lines" in ran.err
    for option in ("--json", "--no-suggest"):
        assert prowess("eval", "triggers", folder, "--apply", option).code == 2
