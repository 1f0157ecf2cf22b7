"""`prowess prompts` and `prowess rubrics`, as a person uses them."""

from __future__ import annotations

import json

import pytest

PROMPT = {"prompt_id": "outline", "version": "1.0.0", "description": "An outline.", "template": "Outline {{topic}}."}
RUBRIC = {
    "rubric_id": "style",
    "version": "1.0.0",
    "description": "House style.",
    "scoring_mode": "weighted",
    "pass_threshold": 0.8,
    "criteria": [
        {
            "id": "clear",
            "name": "Clear",
            "description": "It reads well.",
            "pass_condition": "One thought a sentence.",
            "fail_condition": "Read twice.",
        }
    ],
}


@pytest.fixture
def prompts(workspace):
    """Make a workspace with a prompt in two versions, and an invalid prompt."""
    folder = workspace / "prompts"
    folder.mkdir()
    (folder / "outline.json").write_text(json.dumps(PROMPT))
    (folder / "outline@2.0.0-rc.1.j2").write_text("Outline {{ topic }} anew.\x9b31m")
    (folder / "bad.json").write_text("{")
    return folder


@pytest.fixture
def native_skill(write_skill):
    """Return a function that writes a skill with its own prompt."""

    def write(slug, name, template):
        folder = write_skill(slug)
        (folder / "agents").mkdir()
        (folder / "agents/prowess.yaml").write_text(f"title: {slug}\n")
        (folder / "prompts").mkdir()
        (folder / "prompts" / name).write_text(template)

    return write


@pytest.fixture
def rubric(workspace):
    (workspace / "rubrics").mkdir()
    path = workspace / "rubrics" / "style.json"
    path.write_text(json.dumps(RUBRIC))
    return path


def test_everything_in_reach_is_listed_also_what_cannot_be_used(prowess, prompts, native_skill):
    native_skill("greeter", "greet.j2", "Hello {{ name }}")
    listed = prowess("prompts", "list", "--json").json
    assert [(one["id"], one["version"], one["origin"], one["ok"]) for one in listed] == [
        ("bad", "", "workspace", False),
        ("outline", "1.0.0", "workspace", True),
        ("outline", "2.0.0-rc.1", "workspace", True),
        ("greet", "", "skill:greeter", True),
    ]
    shown = prowess("prompts")
    assert shown.code == 0
    assert "An outline." in shown.out
    assert "1 of these cannot be used" in shown.err


def test_an_empty_registry_says_how_to_fill_it(prowess, workspace):
    assert "prowess rubrics add FILE" in prowess("rubrics", "list").out
    assert prowess("rubrics", "--json").json == []


def test_the_latest_release_is_shown_or_exactly_the_version_named(prowess, prompts):
    assert "Outline {{topic}}." in prowess("prompts", "show", "outline").out
    candidate = prowess("prompts", "show", "outline@2.0.0-rc.1")
    assert "Outline {{ topic }} anew." in candidate.out
    assert "\x9b" not in candidate.out
    told = prowess("prompts", "show", "outline", "--json").json
    assert (told["version"], told["prompt"]["template"], told["prompt"]["syntax"]) == (
        *("1.0.0", "Outline {{topic}}.", "mustache"),
    )


def test_a_rubric_is_shown_with_its_criteria(prowess, rubric):
    shown = prowess("rubrics", "show", "style")
    assert "weighted, pass threshold 0.8" in shown.out
    assert "clear (weight 1): Clear" in shown.out
    assert "fail: Read twice." in shown.out
    assert prowess("rubrics", "show", "style@1.0.0", "--json").json["rubric"]["criteria"][0]["weight"] == 1.0


def test_what_is_not_there_ends_with_4_and_names_what_is_near(prowess, prompts):
    missing = prowess("prompts", "show", "outlin")
    assert (missing.code, missing.out) == (4, "")
    assert "Did you mean 'outline'?" in missing.err
    assert prowess("prompts", "show", "outline@3.0.0").code == 4


def test_showing_what_cannot_be_used_ends_with_3_and_the_problems(prowess, prompts):
    refused = prowess("prompts", "show", "bad")
    assert refused.code == 3
    assert "json-unreadable" in refused.err


def test_a_skill_finds_its_own_first(prowess, prompts, native_skill):
    native_skill("writer", "outline.j2", "Its own.")
    assert "Its own." in prowess("prompts", "show", "outline", "--skill", "writer").out
    assert "Its own." in prowess("prompts", "show", "writer/outline").out
    assert "Outline {{topic}}." in prowess("prompts", "show", "outline").out


def test_validating_names_every_problem_and_ends_with_3(prowess, prompts):
    checked = prowess("prompts", "validate")
    assert checked.code == 3
    assert "✗ bad" in checked.out
    assert "3 prompts checked, 1 with errors." in checked.out
    good = prowess("prompts", "validate", prompts / "outline.json")
    assert good.code == 0
    assert "1 prompt checked, no errors." in good.out
    lines = prowess("prompts", "validate", prompts, "--json").lines
    assert {(one["id"], one["ok"]) for one in lines} == {("bad", False), ("outline", True)}


def test_validating_a_path_with_nothing_or_of_another_type_says_so(prowess, workspace):
    assert prowess("prompts", "validate", "nowhere.json").code == 4
    (workspace / "notes.txt").write_text("x")
    wrong = prowess("rubrics", "validate", "notes.txt")
    assert wrong.code == 3
    assert ".json or .yaml" in wrong.err


def test_a_prompt_is_kept_once_and_a_version_never_changes(prowess, workspace):
    file = workspace / "o.json"
    file.write_text(json.dumps(PROMPT))
    added = prowess("prompts", "add", file, "--json").json
    assert added == {"kind": "prompt", "id": "outline", "version": "1.0.0", "outcome": "added"}
    assert "Unchanged" in prowess("prompts", "add", file).out
    file.write_text(json.dumps({**PROMPT, "template": "Another."}))
    changed = prowess("prompts", "add", file)
    assert changed.code == 6
    assert "Use a higher version" in changed.err
    (listed,) = prowess("prompts", "list", "--json").json
    assert listed["origin"] == "database"


def test_a_rubric_that_breaks_a_rule_is_not_kept(prowess, workspace):
    file = workspace / "style.json"
    file.write_text(json.dumps({**RUBRIC, "criteria": []}))
    refused = prowess("rubrics", "add", file)
    assert refused.code == 3
    assert "rubric-without-criteria" in refused.err
    assert prowess("rubrics", "list", "--json").json == []


def test_a_version_is_removed_and_the_audit_has_both(prowess, rubric):
    prowess("rubrics", "add", rubric)
    assert prowess("rubrics", "remove", "style@1.0.0").code == 0
    assert prowess("rubrics", "remove", "style@1.0.0").code == 4
    rows = prowess("audit", "--json").json
    assert [(row["action"], row["outcome"]) for row in rows] == [
        *(("update", "added"), ("delete", "removed"), ("delete", "not-found")),
    ]
    assert rubric.exists()


def test_removing_without_a_version_says_to_name_one(prowess, rubric):
    refused = prowess("rubrics", "remove", "style")
    assert refused.code == 2
    assert "style@1.0.0" in refused.err


def test_a_descriptor_is_in_order_once_its_prompt_is_registered(prowess, workspace):
    descriptor = workspace / "outliner.yaml"
    descriptor.write_text(
        "skill_id: outliner\nversion: '1.0.0'\ntitle: Outliner\ndescription: Turns a topic into an outline.\n"
        "output_schema: {type: object}\ntemplate_type: LLM_JSON_GENERATION\ntemplate_config: {prompt_id: outline}\n"
    )
    refused = prowess("validate", descriptor)
    assert refused.code == 3
    assert "[prompt-unknown]" in refused.out
    (workspace / "o.json").write_text(json.dumps(PROMPT))
    prowess("prompts", "add", "o.json")
    assert prowess("validate", descriptor).code == 0


def test_a_kept_descriptor_whose_prompt_is_not_among_its_files_is_warned_about(prowess, workspace):
    descriptor = workspace / "outliner.yaml"
    descriptor.write_text(
        "skill_id: outliner\nversion: '1.0.0'\ntitle: Outliner\ndescription: Turns a topic into an outline.\n"
        "output_schema: {type: object}\ntemplate_type: LLM_JSON_GENERATION\ntemplate_config: {prompt_id: nothere}\n"
    )
    kept = prowess("import", descriptor)
    assert (kept.code, "✓ outliner" in kept.out, "[prompt-unknown]" in kept.out) == (0, True, True)
    [told] = prowess("import", descriptor, "--replace", "--json").json
    assert [problem["code"] for problem in told["problems"]] == ["prompt-unknown"]


def test_what_only_a_skill_has_is_named_as_it_can_be_shown(prowess, sample):
    prowess("import", "../more/review-minutes")
    (listed, *_) = [one for one in prowess("rubrics", "list", "--json").json if one["origin"].startswith("skill:")]
    refused = prowess("rubrics", "show", listed["id"])
    named = f"{listed['origin'].removeprefix('skill:')}/{listed['id']}"
    assert (refused.code, named in refused.err) == (4, True)
    assert prowess("rubrics", "show", named).code == 0
