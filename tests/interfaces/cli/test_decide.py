"""`prowess decide`: print the rule, and apply it to descriptors and descriptions."""

from __future__ import annotations

import pytest

DESCRIPTOR = (
    "skill_id: {slug}\nversion: '1.0.0'\ntitle: {slug}\ndescription: {description}\noutput_schema: {{type: object}}\n"
)
TEMPLATE = "template_type: LLM_JSON_GENERATION\ntemplate_config: {prompt_id: ask}\n"
HANDLER = "implementation: {type: ts_function, handler: handlers/go.run}\n"


@pytest.fixture
def decide(prowess, workspace):
    (workspace / "prompts").mkdir()
    (workspace / "prompts/ask@1.0.0.mustache").write_text("{{question}}")

    def call(text, description="Turns a topic into an outline."):
        path = workspace / "skill.yaml"
        path.write_text(DESCRIPTOR.format(slug="maker", description=description) + text)
        (told,) = prowess("decide", path, "--json").lines
        return told

    return call


def test_the_rule_is_a_list_of_questions_of_which_the_first_yes_decides(prowess, workspace):
    shown = prowess("decide")
    assert shown.code == 0
    assert shown.out.startswith("The first question that you answer with yes decides:")
    ways = [question["way"] for question in prowess("decide", "--json").json]
    assert ways == ["handler", "handler", "handler", "LLM_REVIEW", "LLM_JSON_GENERATION", "prompt_template"]


def test_a_template_that_fits_its_description_has_nothing_against_it(decide):
    decision = decide(TEMPLATE)["decision"]
    assert (decision["uses"], decision["parts"], decision["against"]) == ("template", ["json_generation generate"], [])


def test_a_template_for_what_only_computes_has_a_rule_against_it(decide):
    decision = decide(TEMPLATE, "Computes the sum of all totals.")["decision"]
    assert decision["uses"] == "template"
    assert "follow from the input by a rule" in decision["against"][0]


def test_a_handler_for_what_a_template_can_do_has_a_rule_against_it(decide):
    decision = decide(HANDLER, "Reviews a page by our criteria.")["decision"]
    assert (decision["uses"], decision["parts"]) == ("handler", ["function handler"])
    assert "LLM_REVIEW" in decision["against"][0]
    assert decide(HANDLER, "Uploads a page to the server.")["decision"]["against"] == []


def test_both_at_once_and_neither_are_told(decide):
    both = decide(TEMPLATE + HANDLER)["decision"]
    assert (both["uses"], len(both["against"])) == ("both", 0)
    neither = decide("")["decision"]
    assert (neither["uses"], neither["parts"]) == ("neither", [])


def test_a_broken_rule_of_the_descriptor_is_named_with_it(decide):
    told = decide("template_type: LLM_REVIEW\ntemplate_config: {rubric_id: missing}\n")
    assert told["decision"]["uses"] == "template"
    assert "rubric-unknown" in [problem["code"] for problem in told["problems"]]


def test_skills_of_prowess_new_use_what_they_were_made_with(prowess, workspace):
    uses = {}
    for kind in ("instructions", "prompt", "review", "function"):
        prowess("new", f"make-{kind}", "--kind", kind)
        (told,) = prowess("decide", f".agents/skills/make-{kind}", "--json").lines
        uses[kind] = told["decision"]["uses"], told["decision"]["against"]
    assert uses == {
        "instructions": ("neither", []),
        "prompt": ("template", []),
        "review": ("template", []),
        "function": ("handler", []),
    }


def test_a_file_that_is_no_skill_is_an_error(prowess, workspace):
    (workspace / "notes.txt").write_text("Milk, bread.")
    ran = prowess("decide", "notes.txt")
    assert (ran.code, "is not a skill" in ran.out + ran.err) == (3, True)


def test_a_description_in_words_is_answered_by_its_words(prowess, workspace):
    assert prowess("decide", "Reviews a page by our rubric").out.startswith("Suggested: LLM_REVIEW.")
    assert prowess("decide", "Sends an email to everybody").out.startswith("Suggested: handler.")
    hints = prowess("decide", "Summarises a meeting", "--json").json
    assert [hint["way"] for hint in hints] == ["LLM_JSON_GENERATION"]
    assert "does not say enough" in prowess("decide", "Zzz").out


def test_a_person_reads_what_speaks_for_and_against(prowess, decide, workspace):
    decide(TEMPLATE)
    shown = prowess("decide", workspace / "skill.yaml").out
    assert "uses template (json_generation generate)" in shown
    assert "No objections." in shown


@pytest.mark.parametrize("word", ["nofile.yaml", "NoFile.JSON", "skills/outliner"])
def test_a_path_at_which_there_is_nothing_is_not_taken_for_a_description(prowess, workspace, word):
    ran = prowess("decide", word)
    assert (ran.code, word in ran.err) == (4, True)
    assert prowess("decide", f"Reads {word} and more").code == 0
