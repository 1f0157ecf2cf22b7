"""The policy of an organization: its defaults, what it takes, and what becomes of a value that nobody knows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prowess.errors import Invalid, NotFound
from prowess.policy.organization import SETTING_NAMES, UNREADABLE, OrgPolicy, check_setting
from prowess.policy.roles import find_role, role_names

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def test_the_defaults_are_those_of_the_agentcy_page_and_ask_about_what_is_synced() -> None:
    policy = OrgPolicy()

    assert policy.skills_max_prompt_chars == 16_000
    assert policy.skill_enablement_policy == "auto"
    assert policy.skills_dynamic_search_enabled is False
    assert policy.skills_dynamic_search_policy == "prompt-user"
    assert policy.skill_synced_policy == "prompt-user"
    assert OrgPolicy.of({}) == policy


def test_stored_settings_make_the_policy() -> None:
    stored = {"skills_max_prompt_chars": 4000, "skill_enablement_policy": "admin-only", "of_another_part": 1}

    policy = OrgPolicy.of(stored)

    assert (policy.skills_max_prompt_chars, policy.skill_enablement_policy) == (4000, "admin-only")
    assert policy.faults == ()


@pytest.mark.parametrize(
    ("name", "value", "strictest"),
    [
        ("skill_enablement_policy", "Auto", UNREADABLE),
        ("skill_enablement_policy", None, UNREADABLE),
        ("skill_synced_policy", ["auto"], UNREADABLE),
        ("skills_dynamic_search_policy", True, UNREADABLE),
        ("skills_dynamic_search_enabled", "yes", False),
        ("skills_dynamic_search_enabled", 1, False),
        ("skills_max_prompt_chars", "16000", 0),
        ("skills_max_prompt_chars", True, 0),
        ("skills_max_prompt_chars", -1, 0),
        ("approval_minutes", 0, 1),
        ("approval_minutes", 10**9, 1),
        ("approval_days", 2.5, 1),
        ("spend_per_day_usd", -0.01, 0),
        ("spend_per_day_usd", "20", 0),
        ("spend_per_session_usd", True, 0),
        ("spend_per_session_usd", float("nan"), 0),
        ("spend_per_session_usd", float("inf"), 0),
        ("roles", "builder", None),
        ("disabled_skills", "triage", None),
        ("disabled_skills", ["Not A Slug"], None),
        ("host_routes", ["api.example.com"], {}),
        ("host_routes", {"https://api.example.com": "http://127.0.0.1"}, {}),
        ("host_routes", {"*.example.com": "http://127.0.0.1"}, {}),
        ("host_routes", {"api.example.com": "127.0.0.1:8080"}, {}),
        ("host_routes", {"api.example.com": "file:///etc/passwd"}, {}),
        ("host_routes", {"api.example.com": "http://user@127.0.0.1"}, {}),
        ("host_routes", {"api.example.com": "http://127.0.0.1/path"}, {}),
        ("host_routes", {"api.example.com": "http://127.0.0.1:99999"}, {}),
        ("host_routes", {"api.example.com": "http://0x7f000001:8080"}, {}),
        ("host_routes", {"api.example.com": "http://api_\u212a.example:8080"}, {}),
        ("host_routes", {"api.example.com": "http://127.0.0.1\r\nHost: x"}, {}),
        ("skill_env", {"triage": ["KEY"]}, {}),
        ("skill_env", {"triage": {"KEY": "a" * 64}}, {}),
        ("skill_env", {"triage": {"KEY": ["*"]}}, {}),
        ("skill_env", {"triage": {"A=B": ["a" * 64]}}, {}),
        ("allowed_binaries", "git", ()),
        ("allowed_binaries", ["/bin/sh"], ()),
        ("skill_roots", ["notes"], ()),
        ("skill_roots", ["/"], ()),
        ("skill_roots", ["/srv/../etc"], ()),
    ],
)
def test_a_value_that_nobody_knows_is_the_strictest_and_is_named(name: str, value: Any, strictest: Any) -> None:
    policy = OrgPolicy.of({name: value})

    assert getattr(policy, name) == strictest
    assert policy.faults == (name,)
    with pytest.raises(Invalid) as caught:
        check_setting(name, value)
    assert caught.value.hint.startswith("Use ")


@pytest.mark.parametrize("value", [0, 2, 2.5])
def test_what_models_may_cost_is_a_number_of_dollars_with_or_without_cents(value: float) -> None:
    policy = OrgPolicy.of({"spend_per_session_usd": value, "spend_per_day_usd": value})

    assert (policy.spend_per_session_usd, policy.spend_per_day_usd, policy.faults) == (value, value, ())
    assert (OrgPolicy().spend_per_session_usd, OrgPolicy().spend_per_day_usd) == (5, 20)


def test_the_world_outside_is_shut_until_an_administrator_opens_it() -> None:
    policy = OrgPolicy()
    assert (policy.disabled_skills, policy.host_routes, policy.skill_env) == ((), {}, {})
    assert (policy.allowed_binaries, policy.skill_roots) == ((), ())
    stored = {
        "disabled_skills": ["triage", "team.triage"],
        "host_routes": {"api.example.com": "http://127.0.0.1:8080", "b.example": "https://[::1]:8443/"},
        "skill_env": {"triage": {"KEY": ["a" * 64]}},
        "allowed_binaries": ["git", "g++"],
        "skill_roots": ["/srv/data"],
    }
    policy = OrgPolicy.of(stored)
    assert policy.faults == ()
    assert policy.allowed_binaries == ("git", "g++")


def test_a_setting_that_does_not_exist_is_invalid_and_the_hint_lists_those_that_do() -> None:
    with pytest.raises(Invalid, match="Unknown setting 'skills_policy'") as caught:
        check_setting("skills_policy", "auto")

    assert all(name in caught.value.hint for name in SETTING_NAMES)


def test_a_setting_with_a_typing_error_is_named() -> None:
    with pytest.raises(Invalid) as caught:
        check_setting("skill_enablement_polic", "auto")

    assert caught.value.hint == "Did you mean 'skill_enablement_policy'?"


@given(st.dictionaries(st.sampled_from(SETTING_NAMES) | st.text(), json_values))
def test_every_stored_value_makes_a_policy(stored: dict[str, Any]) -> None:
    policy = OrgPolicy.of(stored)

    assert set(policy.faults) <= set(SETTING_NAMES)
    for name in set(SETTING_NAMES) & set(stored) - set(policy.faults):
        check_setting(name, stored[name])
    for name in ("builder", "", "x", *(policy.roles or {})):
        try:
            assert find_role(name, policy).name == name
        except NotFound:
            assert name not in role_names(policy)
