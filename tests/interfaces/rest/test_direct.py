"""The routes that are answered without FastAPI answer exactly like it, and write requests know what they overwrite."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from prowess.errors import Unavailable
from prowess.interfaces.rest import direct
from prowess.policy.actor import Actor

NOTES = "---\nname: notes\ndescription: Takes notes of a meeting.\n---\n\nWrite them down.\n"
REQUESTS = [
    ("GET", "/api/v1/skills", None),
    ("GET", "/api/v1/skills?limit=1", None),
    ("GET", "/api/v1/skills?limit=201", None),
    ("GET", "/api/v1/skills?limit=0", None),
    ("GET", "/api/v1/skills/notes", None),
    ("GET", "/api/v1/skills/parse", None),
    ("GET", "/api/v1/skills/missing", None),
    ("GET", "/api/v1/skills/NOTES", None),
    ("POST", "/api/v1/match", b'{"message": "take notes"}'),
    ("POST", "/api/v1/match", b'{"message": "take notes", "limit": 0}'),
    ("POST", "/api/v1/match", b'{"message": 7}'),
    ("POST", "/api/v1/match", b"[]"),
    ("POST", "/api/v1/match", b"{"),
    ("POST", "/api/v1/match", b"[" * 100_000),
    ("POST", "/api/v1/match", b'{"message": "\\ud800"}'),
]


def send(client: TestClient, method: str, path: str, body: bytes | None) -> tuple[int, bytes, str]:
    headers = {"content-type": "application/json"} if body is not None else {}
    answer = client.request(method, path, content=body, headers=headers)
    return answer.status_code, answer.content, answer.headers.get("content-type", "")


@pytest.mark.parametrize("permissions", [frozenset({"skills.read", "skills.write"}), frozenset({"skills.run"})])
def test_the_short_way_answers_like_the_long_one(serve, client, monkeypatch, permissions):
    client.post("/api/v1/skills", json={"content": NOTES, "scope": "org"})
    caller = serve(Actor(name="me", channel="http", permissions=permissions))
    short = [send(caller, *request) for request in REQUESTS]
    monkeypatch.setattr(direct.DirectRoutes, "_find", lambda *_: None)
    monkeypatch.setattr(direct.DirectRoutes, "_is_match", lambda *_: False)

    assert short == [send(caller, *request) for request in REQUESTS]


def test_a_rollback_with_an_old_entity_tag_changes_nothing(client):
    first = client.post("/api/v1/skills", json={"content": NOTES, "scope": "org"}).headers["etag"]
    second = client.put("/api/v1/skills/notes", json={"description": "Other."}).headers["etag"]

    stale = client.post("/api/v1/skills/notes/rollback", json={"version": 1}, headers={"if-match": first})
    assert (stale.status_code, stale.headers["etag"]) == (412, second)
    current = client.post("/api/v1/skills/notes/rollback", json={"version": 1}, headers={"if-match": second})
    assert (current.status_code, current.headers["etag"]) == (200, first)
    client.delete("/api/v1/skills/notes")
    gone = client.post("/api/v1/skills/notes/rollback", json={"version": 1}, headers={"if-match": second})
    assert gone.status_code == 412


def test_traces_are_counted(client):
    answer = client.get("/api/v1/traces").json()
    assert (answer["items"], answer["total"]) == ([], 0)


def test_a_database_that_does_not_answer_is_not_named_to_callers(client, monkeypatch):
    engine = client.app._app._engine
    where = engine.database

    def fail(*_: object, **__: object) -> None:
        error = Unavailable(f"Cannot connect to the database server at {where}: refused", hint=f"Check {where}.")
        error.location = where
        raise error

    monkeypatch.setattr("prowess.engine.skill_rows.list_rows", fail)
    answer = client.get("/api/v1/skills?q=x")

    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert where not in answer.text
