"""Agentcy: the typical conversation of its page, with the agent, an approval, and a connector that is a real MCP server."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from prowess.agent.updates import ApprovalNeeded, SkillsChanged, TextWritten, ToolEnded, TurnEnded
from prowess.llm.model import Reply, ToolCall
from prowess.llm.scripted import Answer, ScriptedModel, request_text
from prowess.policy.actor import Actor

pytestmark = pytest.mark.anyio

ANN = Actor(name="ann", organization="acme", user="ann")
SLUG = "postgres.health-triage"
CHECK = "Check `pg_locks` for blocked queries."
SQL = "SELECT pid, query FROM pg_stat_activity WHERE state = 'active' ORDER BY seconds DESC"
FOUND = "5 long-running queries"

# The hands of the page: a server that runs a query over a table named like that of PostgreSQL.
SERVER = """
import json, sqlite3, sys

database = sqlite3.connect(":memory:")
database.execute("CREATE TABLE pg_stat_activity (pid, query, state, seconds)")
rows = [(4711 + n, f"SELECT {n} FROM orders", "active", 60 * n) for n in range(5)]
database.executemany("INSERT INTO pg_stat_activity VALUES (?, ?, ?, ?)", rows)
tool = {
    "name": "run_query",
    "description": "Run a read-only SQL query, for example over pg_stat_activity.",
    "inputSchema": {"type": "object", "properties": {"sql": {"type": "string"}}, "required": ["sql"]},
    "annotations": {"readOnlyHint": True},
}
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method, params = message["method"], message.get("params") or {}
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    if method == "initialize":
        info = {"name": "sql", "version": "1"}
        version = params["protocolVersion"]
        answer["result"] = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    elif method == "tools/list":
        answer["result"] = {"tools": [tool]}
    elif method == "tools/call":
        found = database.execute(params["arguments"]["sql"]).fetchall()
        answer["result"] = {"content": [{"type": "text", "text": json.dumps(found)}]}
    else:
        answer["error"] = {"code": -32601, "message": "Method not found"}
    print(json.dumps(answer), flush=True)
"""


def call(name: str, text: str = "", **arguments: Any) -> Reply:
    return Reply(text=text, calls=(ToolCall(id="", name=name, arguments=arguments),))


async def test_the_typical_conversation_of_the_page_runs_from_search_to_disable(
    printed: Any, place: Any, tmp_path: Path
):
    talk = printed("agentcy", "A typical conversation:\n", "The prompt budget")
    message, query, reason = (
        found[1]
        for found in (
            re.search(r'User: "([^"]+)"', talk),
            re.search(r'search_skills\(\{ query: "([^"]+)"', talk),
            re.search(r'reason: "([^"]+)"', talk),
        )
        if found
    )
    tools = re.findall(r"LLM → (\w+)\(", talk)
    assert tools == [
        "search_skills",
        "enable_skill",
        "search_connector_tools",
        "execute_connector_tool",
        "disable_skill",
    ]
    text = printed("agentcy", "markdown\n---\n", "The body is prose", keep="---\n")
    place.write("health-triage", {"SKILL.md": text})
    server = tmp_path / "sql_server.py"
    server.write_text(SERVER)

    asking = ScriptedModel(
        [
            call("search_skills", query=query),
            # The search names the skill. None of its text is in the prompt yet.
            Answer(
                when=lambda request: SLUG in request_text(request),
                reply=call("enable_skill", skill_slug=SLUG, reason=reason),
            ),
        ]
    )
    async with place.open(ANN) as engine:
        await engine.policy.set("skill_enablement_policy", "prompt-user")
        await engine.connectors.add("sql", {"command": sys.executable, "args": ["-IS", str(server)]})
        await engine.connectors.allow("sql", reads=True)
        conversation = await engine.agent.start()
        updates = [update async for update in engine.agent.send(conversation.id, message, model=asking)]
        asking.finish()
        assert not any(CHECK in request_text(request) for request in asking.requests)
        (needed,) = [update for update in updates if isinstance(update, ApprovalNeeded)]
        assert (needed.approval["action"], needed.approval["slug"], needed.approval["reason"]) == (
            "enable",
            SLUG,
            reason,
        )
        ended = updates[-1]
        assert isinstance(ended, TurnEnded)
        assert (ended.state, ended.approvals) == ("waiting", (needed.approval_id,))
        (event,) = await engine.events.list(names=["approval_required"])
        assert event.data["type"] == "skill_enablement"

    # A person approves, and another process goes on.
    answering = ScriptedModel(
        [
            Answer(when=CHECK, reply=call("search_connector_tools", query="pg_stat_activity")),
            Answer(
                when="run_query",
                reply=call("execute_connector_tool", connector="sql", tool="run_query", arguments={"sql": SQL}),
            ),
            Answer(when="4715", reply=call("disable_skill", f"Active queries: {FOUND}.", skill_slug=SLUG)),
            Answer(when=lambda request: CHECK not in request_text(request), reply="Locks are next."),
        ]
    )
    async with place.open(ANN) as engine:
        await engine.approvals.resolve(needed.approval_id, approved=True)
        updates = [update async for update in engine.agent.resume(conversation.id, model=answering)]
        answering.finish()
        ran = [(update.name, update.ok) for update in updates if isinstance(update, ToolEnded)]
        assert ran == [(name, True) for name in tools[1:]]
        result = next(
            update.data
            for update in updates
            if isinstance(update, ToolEnded) and "connector_tool" in update.name and "content" in update.data
        )
        assert len(json.loads(result["content"])) == 5

        length = len(await _block(engine))
        states = [update.state for update in updates if isinstance(update, SkillsChanged)]
        assert [state["budget_used_chars"] for state in states] == [length, 0]
        assert {state["budget_max_chars"] for state in states} == {16_000}
        assert [skill["slug"] for skill in states[0]["enabled_skills"]] == [SLUG]
        published = await engine.events.list(names=["skills_state_changed"], session=conversation.id)
        assert [event.data for event in published] == states

        ended = updates[-1]
        assert isinstance(ended, TurnEnded)
        assert (ended.state, ended.steps, ended.skills) == ("done", 6, ())
        said = "".join(update.text for update in updates if isinstance(update, TextWritten))
        assert said == f"Active queries: {FOUND}.Locks are next."
        assert (await engine.sessions.get(conversation.id)).budget.used == 0


async def _block(engine: Any) -> str:
    """Return the block of the skill as it enters a prompt."""
    await engine.policy.set("skill_enablement_policy", "auto")
    other = await engine.enable(SLUG, session=await engine.sessions.open("other"))
    return await engine.prompt(other)
