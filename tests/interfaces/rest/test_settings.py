"""The settings of an organization over HTTP."""

from __future__ import annotations

from prowess.policy.actor import Actor


def test_settings_have_the_defaults_of_the_agentcy_page(client):
    settings = client.get("/api/v1/settings").json()

    assert settings["skills_max_prompt_chars"] == 16_000
    assert settings["skill_enablement_policy"] == "auto"
    assert settings["skills_dynamic_search_enabled"] is False
    assert settings["skills_dynamic_search_policy"] == "prompt-user"


def test_a_changed_setting_is_read_back_and_can_be_reset(client):
    changed = client.put("/api/v1/settings/skill_enablement_policy", json={"value": "prompt-user"})
    assert changed.status_code == 200
    assert client.get("/api/v1/settings").json()["skill_enablement_policy"] == "prompt-user"

    assert client.delete("/api/v1/settings/skill_enablement_policy").json()["skill_enablement_policy"] == "auto"


def test_an_invalid_value_is_answered_with_problem_details_and_changes_nothing(client):
    answer = client.put("/api/v1/settings/skill_enablement_policy", json={"value": "sometimes"})

    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "invalid"
    assert "one of" in answer.json()["hint"]
    assert client.get("/api/v1/settings").json()["skill_enablement_policy"] == "auto"


def test_only_an_administrator_changes_a_setting(serve):
    reader = serve(Actor(name="bob", permissions=frozenset({"skills.read"}), channel="http"))

    assert reader.get("/api/v1/settings").status_code == 200
    assert reader.put("/api/v1/settings/approval_days", json={"value": 3}).status_code == 403


def test_a_misspelt_field_and_a_broken_body_are_refused(client):
    path = "/api/v1/settings/approval_days"

    assert client.put(path, json={"value": 3, "valu": 4}).status_code == 422
    for body in (b"{", b'"\xff"', b"[" * 100_000):
        broken = client.put(path, content=body, headers={"content-type": "application/json"})
        assert (broken.status_code, broken.json()["code"]) == (400, "bad-request")
        assert "JSON" in broken.json()["detail"] + broken.json()["hint"]


def test_health_needs_no_token_and_the_api_does(client):
    anonymous = {"authorization": ""}

    assert client.get("/healthz", headers=anonymous).json() == {"status": "ok"}
    assert client.get("/readyz", headers=anonymous).json() == {"status": "ok"}
    assert client.get("/api/v1/settings", headers=anonymous).status_code == 401


def test_each_setting_has_its_default_its_values_and_who_changed_it(each_client):
    each_client.put("/api/v1/settings/approval_days", json={"value": 3})
    found = {one["name"]: one for one in each_client.get("/api/v1/settings/details").json()["items"]}

    assert set(found) == set(each_client.get("/api/v1/settings").json()) - {"faults"}
    days, policy, routes = found["approval_days"], found["skill_enablement_policy"], found["host_routes"]
    assert (days["value"], days["default"], days["source"], days["changed_by"]) == (3, 30, "organization", "me")
    assert days["changed_at"] > "2026"
    assert (policy["source"], policy["changed_by"]) == ("default", "")
    assert policy["choices"] == ["auto", "prompt-user", "admin-only"]
    assert (days["takes"], routes["machine"], days["machine"]) == ("a whole number from 1 to 3,650", True, False)
