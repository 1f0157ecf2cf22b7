"""Matching over HTTP: messages, searches, explanations, the index and usage."""

from __future__ import annotations

import pytest

API = "/api/v1"
TEXT = "---\nname: release-notes\ndescription: Writes release notes from commits. Use it to announce a release.\n---\n\nBe brief.\n"


@pytest.fixture
def ready(client):
    client.post(f"{API}/skills", json={"content": TEXT})
    client.post(
        f"{API}/skills", json={"content": TEXT, "slug": "tea", "description": "How to brew tea.", "tags": ["x"]}
    )
    return client


def test_a_message_is_matched_with_reasons(ready):
    found = ready.post(f"{API}/match", json={"message": "write the release notes of this week"}).json()["items"]

    assert found[0]["slug"] == "release-notes"
    assert (found[0]["decision"], found[0]["trust"]) == ("offer", "local")
    assert found[0]["evidence"]
    assert "signals" not in found[0]
    ranked = ready.post(f"{API}/match", json={"message": "brew tea", "all": True, "explain": True}).json()["items"]
    assert {item["slug"] for item in ranked} == {"release-notes", "tea"}
    assert "signals" in ranked[0]


@pytest.mark.parametrize(
    ("route", "more"), [("match", {}), ("match", {"all": True}), ("why", {})], ids=["match", "ranking", "why"]
)
def test_a_blank_message_is_invalid(ready, route, more):
    for message in ("", " \n"):
        answer = ready.post(f"{API}/{route}", json={"message": message, **more})
        assert (answer.status_code, answer.json()["detail"]) == (422, "The message is empty.")
        assert answer.json()["hint"]


def test_one_skill_is_explained(ready):
    told = ready.post(f"{API}/why", json={"message": "brew tea", "skill": "release-notes"}).json()
    assert (told["skill"], [step["slug"] for step in told["steps"]]) == ("release-notes", ["release-notes"])
    assert ready.post(f"{API}/why", json={"message": "brew tea", "skill": "none"}).status_code == 404


def test_a_search_finds_words_and_tags(ready):
    assert [one["slug"] for one in ready.post(f"{API}/search", json={"query": "tea"}).json()["items"]][:1] == ["tea"]
    [tagged] = ready.post(f"{API}/search", json={"tags": ["x"]}).json()["items"]
    assert (tagged["slug"], tagged["score"], tagged["decision"]) == ("tea", None, None)


def test_a_skill_that_is_switched_off_is_not_matched_searched_or_indexed(ready):
    assert "release-notes" in ready.get(f"{API}/index").json()["text"]
    ready.put(f"{API}/skills/release-notes", json={"enabled": False})

    for path, body in (("match", {"message": "write release notes"}), ("search", {"query": "release notes"})):
        assert "release-notes" not in [one["slug"] for one in ready.post(f"{API}/{path}", json=body).json()["items"]]
    assert "release-notes" not in ready.get(f"{API}/index").json()["text"]


def test_an_explanation_says_why_each_skill_was_offered_or_not(ready):
    told = ready.post(f"{API}/why", json={"message": "write release notes"}).json()

    steps = {step["slug"]: step for step in told["steps"]}
    assert steps["release-notes"]["choice"] == "offered"
    assert told["budget_max"] == 16_000


def test_the_index_keeps_to_its_budget(ready):
    assert ready.get(f"{API}/index", params={"budget": 60}).json()["chars"] <= 60
    assert ready.get(f"{API}/index", params={"budget": -1}).status_code == 422


def test_usage_counts_loads(ready):
    never = ready.get(f"{API}/skills/tea/usage").json()
    assert (never["slug"], never["loads"], never["last_loaded"]) == ("tea", 0, None)
    report = ready.get(f"{API}/usage", params={"days": 7}).json()
    assert (report["days"], report["loads"]) == (7, 0)
    assert set(report["unused_skills"]) >= {"tea", "release-notes"}


@pytest.mark.parametrize("body", [{}, {"message": 5}, {"message": "x", "limit": 0}, {"message": "x", "other": 1}, []])
def test_an_invalid_body_is_refused(client, body):
    assert client.post(f"{API}/match", json=body).status_code == 422


def test_an_invalid_field_is_named(client):
    answer = client.post(f"{API}/match", json={"message": 5}).json()
    assert answer["detail"] == "Invalid request: `body.message`: Input should be a valid string."
