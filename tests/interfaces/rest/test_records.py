"""Traces, statistics, the audit, registries, roles, tools and settings over HTTP."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace

import pytest

from prowess.policy.actor import Actor, agent_of

pytestmark = pytest.mark.anyio

ANN = Actor(name="ann", organization="acme", user="ann", channel="http")
BOB = Actor(name="bob", organization="acme", user="bob", channel="http", permissions=frozenset({"skills.read"}))
SIDECAR = "title: G\nartifacts:\n- {path: prompts/greet.j2, kind: prompt_template, name: greet}\n"


@pytest.fixture
async def ran(site_with, tmp_path):
    """A server on which ann has run a skill three times; the last time, the model had no answer left."""
    script = tmp_path / "answers.json"
    script.write_text(json.dumps(["One.", "Two."]))
    async with site_with(PROWESS_MODEL=f"scripted:{script}") as site:
        site.write("greeter", **{"agents/prowess.yaml": SIDECAR, "prompts/greet.j2": "Greet {{ name }}."})
        for name, status in (("a", 200), ("b", 200), ("c", 502)):
            await site.post("/skills/greeter/run", {"inputs": {"name": name}}, ANN, status=status)
        yield site


async def test_traces_are_listed_newest_first_page_by_page(ran):
    first = await ran.get("/traces?limit=2&skill=greeter", ANN)
    rest = await ran.get(f"/traces?limit=2&skill=greeter&cursor={first['next_cursor']}", ANN)
    found = first["items"] + rest["items"]
    assert [trace["status"] for trace in found][1:] == ["ok", "ok"]
    assert len({trace["id"] for trace in found}) == 3
    assert rest["next_cursor"] is None
    assert len((await ran.get("/traces?status=ok", ANN))["items"]) == 2
    assert (await ran.get("/traces", BOB))["items"] == []


async def test_a_trace_has_its_texts_and_a_foreign_one_is_unknown(ran):
    listed = (await ran.get("/traces?status=ok&since=2020-01-01T00:00:00Z", ANN))["items"][0]
    assert "raw_output" not in listed
    whole = await ran.get(f"/traces/{listed['id']}", ANN)
    assert (whole["raw_output"], whole["inputs"]["name"], whole["resumable"]) == ("Two.", "b", False)

    foreign = await ran.send("GET", f"/traces/{listed['id']}", BOB)
    unknown = await ran.send("GET", f"/traces/{'0' * 36}", BOB)
    assert foreign.status_code == 404
    assert foreign.text.replace(listed["id"], "ID") == unknown.text.replace("0" * 36, "ID")


async def test_an_agent_sees_the_traces_of_its_own_runs_alone(ran):
    agent, other = agent_of(ANN, name="helper"), agent_of(ANN, name="other")
    trace = (await ran.get("/traces", ANN))["items"][0]["id"]
    ran.write("said", **{"agents/prowess.yaml": SIDECAR, "prompts/greet.j2": "Say {{ name }}."})
    await ran.post("/skills/said/run", {"inputs": {"name": "d"}}, agent, status=502)
    assert [row["skill_slug"] for row in (await ran.get("/traces", agent))["items"]] == ["said"]
    assert (await ran.get("/traces", other))["items"] == []
    assert (await ran.send("GET", f"/traces/{trace}", agent)).status_code == 404
    assert (await ran.get("/stats", agent))["total"]["runs"] == 1
    assert len((await ran.get("/traces", ANN))["items"]) == 4


async def test_traces_are_exported_as_lines_and_counted(ran):
    lines = (await ran.send("GET", "/traces/export", ANN)).text.splitlines()
    assert [json.loads(line)["inputs"]["name"] for line in lines] == ["a", "b", "c"]
    assert (await ran.send("GET", "/traces/export", BOB)).text == ""
    stats = await ran.get("/stats?by=skill", ANN)
    assert (stats["total"]["runs"], stats["total"]["failures"], stats["rows"][0]["name"]) == (3, 1, "greeter")


async def test_the_audit_is_read_in_pages_and_verified_by_an_administrator(site):
    for days in (3, 4, 5):
        await site.send("PUT", "/settings/approval_days", ANN, json={"value": days})
    first = await site.get("/audit?limit=2", ANN)
    rest = await site.get(f"/audit?limit=2&cursor={first['next_cursor']}", ANN)
    assert [row["detail"]["after"] for row in first["items"] + rest["items"]] == [3, 4, 5]
    assert {row["detail"]["channel"] for row in first["items"]} == {"http"}
    assert (first["last"], rest["next_cursor"]) == (3, None)
    assert (await site.get("/audit/verify", ANN))["ok"] is True
    for path in ("/audit", "/audit/verify", "/audit/skills/triage"):
        assert (await site.send("GET", path, BOB)).status_code == 403


async def test_the_account_of_a_skill_says_who_approved_it(site):
    site.write("triage")
    agent = agent_of(ANN, name="helper")
    await site.send("PUT", "/settings/skill_enablement_policy", ANN, json={"value": "prompt-user"})
    await site.post("/sessions", {"conversation": "c"}, agent)
    asked = await site.post("/sessions/c/enable", {"skill_slug": "triage"}, agent, status=403)
    await site.post(f"/approvals/{asked['approval_id']}", {"approved": True}, ANN)

    (content,) = (await site.get("/audit/skills/triage", ANN))["contents"]
    assert [(one["by"], one["how"], one["channel"]) for one in content["answers"]] == [("ann", "approved", "http")]


async def test_prompts_are_stored_by_a_person_and_found_by_version(site):
    for version in ("1.0.0", "1.1.0"):
        content = {"template": f"Write {version}: {{{{topic}}}}."}
        body = {"id": "outline", "version": version, "content": content}
        stored = await site.post("/registries/prompts", body, ANN)
        assert (stored["id"], stored["version"], stored["new"]) == ("outline", version, True)

    listed = await site.get("/registries/prompts", ANN)
    assert [one["version"] for one in listed["items"]] == ["1.0.0", "1.1.0"]
    assert (await site.get("/registries/prompts/outline", ANN))["version"] == "1.1.0"
    exact = await site.get("/registries/prompts/outline?version=1.0.0", ANN)
    assert exact["content"]["template"].startswith("Write 1.0.0")

    assert (await site.send("DELETE", "/registries/prompts/outline/1.1.0", ANN)).status_code == 204
    assert (await site.get("/registries/prompts/outline", ANN))["version"] == "1.0.0"
    other = {"id": "outline", "version": "1.0.0", "content": {"template": "Other."}}
    assert (await site.post("/registries/prompts", other, ANN, status=409))["code"] == "conflict"
    body = {"id": "x", "version": "1.0.0", "content": {"template": "x"}}
    assert (await site.post("/registries/prompts", body, agent_of(ANN), status=403))["code"] == "refused"
    wrong = await site.post("/registries/prompts", {**body, "content": {}}, ANN, status=422)
    assert wrong["problems"]


async def test_roles_have_their_rights_and_their_prompt(site):
    names = [role["name"] for role in (await site.get("/roles?limit=200"))["items"]]
    assert "builder" in names
    assert (await site.get("/roles/builder"))["tools"]
    assert (await site.get("/roles/builder/prompt"))["text"]
    assert (await site.send("GET", "/roles/nobody")).status_code == 404


async def test_tools_are_called_as_an_agent(site):
    site.write("triage", "Check the locks.")
    names = {tool["title"] for tool in (await site.get("/tools?conversation=c"))["tools"]}
    assert {"search_skills", "enable_skill", "list_enabled_skills", "disable_skill"} <= names

    enabled = await site.post("/tools/enable_skill", {"arguments": {"skill_slug": "triage"}, "conversation": "c"})
    assert enabled["status"] == "enabled"
    problem = await site.post(
        "/tools/enable_skill", {"arguments": {"skill_slug": "nothing"}, "conversation": "c"}, status=404
    )
    assert problem["answer"]["error"]
    assert (await site.send("POST", "/tools/nothing", json={})).status_code == 404


def test_a_row_that_is_no_longer_json_is_a_problem_of_the_database_and_not_of_the_server(client, tmp_path):
    client.put("/api/v1/settings/approval_days", json={"value": 3})
    with sqlite3.connect(tmp_path / "home/.prowess/agents.db") as database:
        assert database.execute("UPDATE audit SET detail = '{'").rowcount
    database.close()
    answer = client.get("/api/v1/audit")
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")


async def test_several_settings_change_together_or_not_at_all(site):
    wrong = {"approval_days": 3, "skill_enablement_policy": "sometimes"}
    assert (await site.send("PATCH", "/settings", ANN, json=wrong)).status_code == 422
    assert (await site.get("/settings", ANN))["approval_days"] == 30

    right = {"approval_days": 3, "skill_enablement_policy": "admin-only"}
    assert (await site.send("PATCH", "/settings", ANN, json=right)).json()["approval_days"] == 3
    assert [row.detail["setting"] for row in await site.engine.as_actor(ANN).audit.rows()] == list(right)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("skill_roots", ["/etc"]),
        ("allowed_binaries", ["bash"]),
        ("host_routes", {"api.example.com": "http://127.0.0.1:8080"}),
        ("skill_env", {}),
    ],
)
async def test_an_organization_decides_nothing_about_the_machine_of_the_server(site, name, value):
    refused = await site.send("PUT", f"/settings/{name}", ANN, json={"value": value})
    assert (refused.status_code, refused.json()["code"]) == (403, "refused")
    assert (await site.send("PATCH", "/settings", ANN, json={name: value})).status_code == 403
    # The person whose machine it is has no organization.
    assert (await site.send("PUT", f"/settings/{name}", json={"value": value})).status_code == 200


async def test_variables_of_the_server_are_granted_by_its_owner_only(site):
    site.write("caller", **{"agents/prowess.yaml": "title: C\nenv: [API_KEY]\n"})
    assert (await site.send("PUT", "/env/caller/API_KEY", ANN)).status_code == 403
    granted = await site.send("PUT", "/env/caller/API_KEY")
    listed = (await site.get("/env?skill=caller"))["items"]
    assert [one["name"] for one in listed] == ["API_KEY"]
    assert granted.json()["state"] == listed[0]["state"] == "unset"
    assert (await site.send("DELETE", "/env/caller/API_KEY")).status_code == 204


async def test_runs_are_counted_over_time_for_charts(ran):
    chart = await ran.get("/stats/series?by=skill&bucket=hour&days=1", ANN)
    (series,) = chart["series"]
    assert (series["name"], sum(series["runs"]), sum(series["failures"])) == ("greeter", 3, 1)
    assert {len(values) for name, values in series.items() if name != "name"} == {len(chart["buckets"])}
    assert (await ran.get("/stats/series?by=model", BOB))["series"] == []
    refused = await ran.send("GET", "/stats/series?days=36500&bucket=hour", ANN)
    assert (refused.status_code, refused.json()["hint"]) == (422, "Ask for fewer `days`, or use `bucket=day`.")


async def test_facts_are_remembered_listed_and_forgotten_by_their_person(ran):
    first = await ran.post("/memory", {"text": "We use PostgreSQL 16."}, ANN, status=201)
    second = await ran.post("/memory", {"text": "Deploys are on Tuesdays."}, ANN, status=201)
    listed = await ran.get("/memory", ANN)
    assert ([one["text"] for one in listed["items"]], listed["total"]) == ([second["text"], first["text"]], 2)
    assert (await ran.get("/memory", BOB))["items"] == []
    other = replace(BOB, name="eve", user="eve", permissions=ANN.permissions)
    assert (await ran.send("DELETE", f"/memory/{first['id']}", other)).status_code == 404
    assert (await ran.send("POST", "/memory", BOB, json={"text": "Trust me."})).status_code == 403
    assert (await ran.send("POST", "/memory", agent_of(ANN), json={"text": "Trust me."})).status_code == 403
    assert (await ran.send("DELETE", f"/memory/{first['id']}", ANN)).json()["text"] == first["text"]
    assert [one["id"] for one in (await ran.get("/memory", ANN))["items"]] == [second["id"]]
    assert (await ran.send("POST", "/memory", ANN, json={"text": "x" * 2_001})).status_code == 422


@pytest.mark.parametrize("sort", ["started_at", "duration_ms", "estimated_cost"])
async def test_runs_are_sorted_by_time_duration_and_cost_page_by_page(ran, sort):
    every = (await ran.get(f"/traces?sort={sort}&limit=200", ANN))["items"]
    paged, cursor = [], ""
    while not paged or cursor:
        page = await ran.get(f"/traces?sort={sort}&limit=1&cursor={cursor}", ANN)
        paged += page["items"]
        cursor = page["next_cursor"] or ""
    assert len(every) >= 3
    assert [one["id"] for one in paged] == [one["id"] for one in every]
    values = [one[sort] for one in every]
    known = [one for one in values if one is not None]
    assert values == sorted(known, reverse=True) + [None] * (len(values) - len(known))
    for wrong in ("WzEsImEiXQ", "WyJ4IiwieSJd", "WzFlOTksImEiXQ"):
        answer = await ran.send("GET", f"/traces?sort={sort}&cursor={wrong}", ANN)
        assert answer.status_code in (200, 422)


async def test_the_list_and_the_export_have_the_same_filters(ran):
    every = (await ran.get("/traces?limit=200", ANN))["items"]
    for name, column in (
        ("kind", "artifact_kind"),
        ("model", "model_id"),
        ("session", "session_id"),
        ("run", "run_id"),
    ):
        value = every[0][column]
        expected = {one["id"] for one in every if one[column] == value or not value}
        page = await ran.get("/traces", ANN, params={name: value or "", "limit": 200})
        assert ({one["id"] for one in page["items"]}, page["total"]) == (expected, len(expected))
        lines = (await ran.send("GET", "/traces/export", ANN, params={name: value or ""})).text.splitlines()
        assert {json.loads(line)["id"] for line in lines} == expected
    assert (await ran.get("/traces?kind=nothing", ANN))["items"] == []


async def test_the_audit_is_read_newest_first_and_filtered(ran):
    for days in (3, 4, 5):
        await ran.engine.as_actor(ANN).policy.set("approval_days", days)
    every = (await ran.get("/audit?limit=200", ANN))["items"]
    first = await ran.get("/audit/newest?limit=2", ANN)
    rest = await ran.get(f"/audit/newest?limit=200&cursor={first['next_cursor']}", ANN)
    numbers = [one["number"] for one in reversed(every)]
    assert len(numbers) >= 3
    assert [one["number"] for one in first["items"] + rest["items"]] == numbers
    for name in ("action", "slug", "actor", "outcome"):
        value = every[-1][name]
        page = await ran.get("/audit/newest", ANN, params={name: value, "limit": 200})
        assert page["total"] == len(page["items"])
        assert [one["number"] for one in page["items"]] == [
            one["number"] for one in reversed(every) if one[name] == value or not value
        ]
    assert (await ran.get("/audit/newest?actor=nobody", ANN))["items"] == []
    assert (await ran.send("GET", "/audit/newest", BOB)).status_code == 403


async def test_the_summary_counts_what_is_there_and_what_waits(ran):
    await ran.post("/sessions", {"conversation": "c"}, ANN)
    await ran.engine.as_actor(ANN).policy.set("skill_enablement_policy", "prompt-user")
    asked = await ran.send("POST", "/sessions/c/enable", agent_of(ANN), json={"skill_slug": "greeter"})
    summary = await ran.get("/summary", ANN)
    assert summary["skills"]["total"] == sum(summary["skills"]["scopes"].values())
    assert (summary["today"]["runs"], summary["today"]["failures"]) == (3, 1)
    assert summary["approvals"] == (1 if asked.status_code == 403 and "approval_id" in asked.json() else 0)
    assert summary["jobs"] == {"queued": 0, "running": 0, "waiting": 0}
    assert (await ran.get("/summary", BOB))["today"]["runs"] == 0


def test_the_audit_is_found_by_parts_of_names_and_since_a_time(each_client):
    for days in (3, 4):
        each_client.put("/api/v1/settings/approval_days", json={"value": days})

    def numbers(query):
        answer = each_client.get(f"/api/v1/audit/newest?{query}")
        assert answer.status_code == 200, answer.text
        return [row["number"] for row in answer.json()["items"]]

    assert numbers("actor=M&action=configure&since=2020-01-01") == [2, 1]
    # Characters of patterns are text.
    assert numbers("actor=%25") == numbers("actor=m_") == numbers("slug=x") == numbers("action=conf") == []
    assert numbers("since=2999-01-01T00:00:00%2B02:00") == []
    refused = each_client.get("/api/v1/audit/newest?since=yesterday")
    assert (refused.status_code, refused.json()["hint"]) == (422, "Use a time such as 2026-03-01T09:30:00Z.")
