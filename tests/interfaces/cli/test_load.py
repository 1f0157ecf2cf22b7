"""`prowess load`: one text of a skill, as an agent gets it."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.usefixtures("approver")


def test_instructions_references_and_scripts_are_loaded(prowess, sample):
    assert prowess("load", "commit-messages").out.startswith("# Commit messages")
    assert prowess("load", "release-notes", "--reference", "tone.md").out.startswith("# Tone")
    assert prowess("load", "release-notes", "--script", "list-changes.sh").out.startswith("#!")


def test_the_answer_as_json_is_that_of_the_tool(prowess, sample):
    answer = prowess("load", "release-notes", "--reference", "tone.md", "--json").json
    assert answer["error"] is None
    assert (answer["name"], answer["body"], answer["script_content"]) == ("release-notes", None, None)
    assert (answer["available_references"], answer["available_scripts"]) == (["tone.md"], ["list-changes.sh"])


@pytest.mark.parametrize(
    "args",
    [
        ["nothing-like-it"],
        ["release-notes", "--reference", "none.md"],
        ["release-notes", "--reference", "../SKILL.md"],
        ["release-notes", "--script", "none.sh"],
    ],
)
def test_what_is_not_there_is_not_found(prowess, sample, args):
    assert prowess("load", *args).code == 4
    as_json = prowess("load", *args, "--json")
    assert as_json.code == 4
    assert as_json.json["error"]


def test_a_reference_and_a_script_can_be_loaded_together(prowess, sample):
    loaded = prowess("load", "release-notes", "--reference", "tone.md", "--script", "list-changes.sh")
    assert loaded.out.startswith("# Tone")
    assert "\n#!" in loaded.out
    # One of them that is not there is an error, and nothing is printed.
    failed = prowess("load", "release-notes", "--reference", "tone.md", "--script", "none.sh")
    assert (failed.code, failed.out) == (4, "")


def test_a_load_that_needs_approval_is_refused_and_says_how_to_go_on(prowess, sample):
    prowess("policy", "set", "skill_enablement_policy", "prompt-user")
    refused = prowess("load", "commit-messages")
    assert refused.code == 5
    waiting = prowess("approvals", "--json").json
    assert f"prowess approvals show {waiting[0]['id'][:8]}" in refused.err
    prowess("approvals", "approve", waiting[0]["id"])
    assert prowess("load", "commit-messages").code == 0


def test_every_load_is_on_record(prowess, sample):
    prowess("load", "commit-messages")
    prowess("load", "nothing-like-it")
    told = [event["data"] for event in prowess("events", "--name", "skill_loaded", "--json").lines]
    assert [(load["name"], load["error"] is None) for load in told] == [
        ("commit-messages", True),
        ("nothing-like-it", False),
    ]
    assert json.dumps(told)
