"""Show and change the policy of an organization from the command line."""

from __future__ import annotations

import json

import pytest

from prowess.policy.organization import SETTING_NAMES


def test_a_skill_is_switched_off_for_everybody_and_on_again(prowess, sample):
    off = prowess("switch", "off", "commit-messages")
    assert off.out.startswith(
        "Switched off: commit-messages.\nTo switch it on again, run `prowess switch on commit-messages`."
    )
    assert "commit-messages" not in prowess("match", "write a commit message").out
    assert "commit-messages" not in prowess("search", "commit message").out
    assert "(off)" in prowess("list").out
    assert prowess("enable", "commit-messages").code == 4
    assert "switched off" in prowess("load", "commit-messages").err
    assert [prowess("switch", to, "comit-messages").code for to in ("off", "on")] == [4, 4]
    assert prowess("switch", "on", "commit-messages", "--json").json == {"disabled_skills": []}
    assert "commit-messages" in prowess("match", "write a commit message").out


def test_switch_lists_what_is_off_and_takes_its_words_in_either_order(prowess, sample):
    assert prowess("switch").out == "No skill is switched off.\n"
    assert prowess("switch", "commit-messages", "off").code == 0
    assert prowess("switch").out == "commit-messages\n"
    assert prowess("switch", "--json").json == {"disabled_skills": ["commit-messages"]}
    for wrong in (("commit-messages",), ("on",)):
        assert prowess("switch", *wrong).code == 2


def test_every_setting_is_shown_with_its_value(prowess, workspace):
    shown = prowess("policy").out
    assert all(name in shown for name in SETTING_NAMES)
    assert set(prowess("policy", "--json").json) == set(SETTING_NAMES)


def test_a_setting_is_changed_and_goes_back_to_its_default(prowess, workspace):
    changed = prowess("policy", "set", "approval_minutes", "15").out
    assert changed == "Set approval_minutes to 15 (was 60).\n"
    assert prowess("policy", "--json").json["approval_minutes"] == 15
    assert prowess("policy", "reset", "approval_minutes").out == "Set approval_minutes to 60 (was 15).\n"


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("no_such_setting", "1", "Use one of: "),
        ("skill_enablement_policy", "sometimes", "auto, prompt-user, admin-only"),
        ("skill_enablement_policy", "null", "auto, prompt-user, admin-only"),
        ("approval_minutes", "soon", "a whole number"),
        ("approval_minutes", "[" * 100_000, "a whole number"),
        ("roles", '{"reader": {"actions": ["fly"]}}', "a mapping"),
    ],
)
def test_a_wrong_value_is_refused_with_what_it_takes(prowess, workspace, name, value, hint):
    refused = prowess("policy", "set", name, value, "--json")
    assert refused.code == 3
    assert hint in json.loads(refused.err)["error"]["hint"]


def test_roles_are_listed_the_organizations_own_too(prowess, workspace):
    prowess("policy", "set", "roles", '{"reader": {"actions": ["load"], "skill_tags": ["public"]}}')
    names = [role["name"] for role in prowess("policy", "roles", "--json").json]
    assert names == ["builder", "communicator", "coordinator", "reader", "scout"]
    assert "public" in prowess("policy", "roles").out


def test_a_role_limits_what_can_be_enabled_in_its_conversation(prowess, sample):
    assert prowess("sessions", "open", "mail", "--role", "nobody").code == 4
    prowess("sessions", "open", "mail", "--role", "communicator")
    refused = prowess("enable", "commit-messages", "-s", "mail")
    assert refused.code == 5
    assert "communication" in refused.err
