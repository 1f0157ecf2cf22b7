"""Rows of the database that another program wrote are named, whichever request reads them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from starlette.testclient import TestClient

DOCUMENT = "---\nname: stored\ndescription: Stores things in a box.\n---\nStore it.\n"
DEFAULTS = {"INTEGER": 1, "FLOAT": 1.0, "JSON": "{}", "BLOB": b""}
Harm = Callable[..., None]


@pytest.fixture
def harm(client: TestClient, tmp_path: Path) -> Harm:
    """Return a function that changes the database of a server that has one skill."""
    client.put("/api/v1/settings/skill_enablement_policy", json={"value": "prompt-user"})
    client.post("/api/v1/skills", json={"content": DOCUMENT})
    client.post("/api/v1/skills/stored/load", json={})

    def write(statement: str, *values: object) -> None:
        with closing(sqlite3.connect(tmp_path / "home/.prowess/agents.db")) as connection, connection:
            assert connection.execute(statement, values).rowcount > 0

    return write


def fill(harm: Harm, tmp_path: Path, table: str, **values: object) -> None:
    """Insert a row with these values, and others of the right types."""
    with closing(sqlite3.connect(tmp_path / "home/.prowess/agents.db")) as connection:
        columns = connection.execute("SELECT name, type FROM pragma_table_info(?)", (table,)).fetchall()
    row = {name: DEFAULTS.get(kind, "") for name, kind in columns} | values
    harm(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", *row.values())


@pytest.mark.parametrize(
    ("statement", "path", "named"),
    [
        ("UPDATE skill_versions SET manifest = 'null'", "skills/stored/versions", "Version 1 of the skill 'stored'"),
        ("UPDATE skill_versions SET manifest = '[1]'", "skills/stored/versions/1", "Version 1 of the skill 'stored'"),
        ("UPDATE skill_versions SET change = 'x'", "skills/stored/diff", "Version 1 of the skill 'stored'"),
        ("UPDATE skill_acceptances SET detail = 'null'", "trust", "The detail of the acceptance of the skill 'stored'"),
        ("UPDATE audit SET detail = '[1]'", "audit", "The detail of the audit row"),
        ("UPDATE events SET data = 'null'", "events/list", "The data of the event"),
    ],
)
def test_a_damaged_row_is_named(client, harm, statement, path, named):
    harm(statement)
    answer = client.get(f"/api/v1/{path}")
    assert answer.status_code == 503
    assert answer.json()["detail"].startswith(named)
    assert "changed by another program" in answer.json()["detail"]


@pytest.mark.parametrize("change", ["budget_max = 'x'", "context_window = 'x'", "role = x'00ff'"])
def test_a_value_of_the_wrong_type_is_reported(client, harm, change):
    client.post("/api/v1/sessions", json={"conversation": "chat"})
    harm(f"UPDATE sessions SET {change}")
    answer = client.get("/api/v1/sessions/chat")
    assert (answer.status_code, answer.json()["detail"].partition(" in the database")[0]) == (503, "A row")


@pytest.mark.parametrize(
    ("table", "values", "path", "named"),
    [
        ("approvals", {"state": "pending", "detail": "[]"}, "approvals/the-id", "The detail of the approval the-id"),
        ("eval_runs", {"state": "done", "arms": "[5]", "summary": "{}"}, "evals", "The evaluation the-id"),
        ("jobs", {"kind": "batch", "state": "failed"}, "jobs/the-id/results", "An item of the job ''"),
        ("optimizer_proposals", {"state": "proposed"}, "optimizations/the-id/diff", "The optimization the-id"),
        ("compositions", {"round": 1}, "compositions/the-id", "Round 1 of the composition the-id"),
    ],
)
def test_a_damaged_record_of_work_is_named(client, harm, tmp_path, table, values, path, named):
    fill(harm, tmp_path, table, id="the-id", **values)
    if table == "jobs":
        fill(harm, tmp_path, "job_items", job_id="the-id", result="{")
    if table == "compositions":
        fill(harm, tmp_path, "composition_rounds", composition_id="the-id")
    answer = client.get(f"/api/v1/{path}")
    assert (answer.status_code, answer.json()["detail"].partition(" in the database")[0]) == (503, named)


@pytest.mark.parametrize(
    ("table", "value", "named"),
    [
        ("conversations", {"pending": "[1]"}, "The conversation ID"),
        ("conversations", {"pending": "{"}, "The conversation ID"),
        ("conversations", {"pending": '{"a": [1]}'}, "The conversation ID"),
        ("conversation_messages", {"calls": "{}"}, "Message 1 of the conversation ID"),
        ("conversation_messages", {"calls": '[{"name": "x"}]'}, "Message 1 of the conversation ID"),
        ("conversation_messages", {"calls": "[]", "detail": "[]"}, "Message 1 of the conversation ID"),
    ],
)
def test_a_damaged_conversation_is_named(client, harm, tmp_path, table, value, named):
    session = client.post("/api/v1/sessions", json={"conversation": "chat"}).json()["id"]
    is_message = table == "conversation_messages"
    fill(harm, tmp_path, "conversations", id=session, state="idle", **({} if is_message else value))
    if is_message:
        fill(harm, tmp_path, table, conversation_id=session, number=1, role="user", **value)
    paths = (
        [f"sessions/{session}/messages", f"sessions/{session}/messages/export"]
        if is_message
        else ["conversations", f"conversations/{session}"]
    )
    for answer in [client.get(f"/api/v1/{path}") for path in paths]:
        assert answer.status_code == 503
        assert answer.json()["detail"].partition(" in the database")[0] == named.replace("ID", session)
