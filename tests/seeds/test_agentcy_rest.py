"""Agentcy: the requests of its page, sent to the HTTP API as they are printed."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from collections.abc import Generator
from typing import Any
from urllib.parse import urlsplit

import pytest
from starlette.testclient import TestClient

from prowess.interfaces.auth.caller import Caller
from prowess.interfaces.auth.guard import known_tokens
from prowess.interfaces.server import make_app
from prowess.policy.actor import Actor

TOKEN = "prw_test"
ANN = Actor(name="ann", organization="acme", user="ann", channel="http")


@pytest.fixture
def client(each_place: Any) -> Generator[TestClient]:
    engine = each_place.open(ANN)
    app = make_app(engine, callers=known_tokens({TOKEN: Caller(actor=ANN)}), keys=[b"k" * 32], hosts=("testserver",))
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client
    asyncio.run(engine.close())


def curl(client: TestClient, command: str) -> Any:
    """Send what a curl command would send."""
    words = shlex.split(command.replace("\\\n", " ").replace("$API", "http://testserver").replace("$TOKEN", TOKEN))
    assert words.pop(0) == "curl"
    method, url, body = "GET", "", None
    headers: dict[str, str] = {}
    while words:
        match words.pop(0):
            case "-X":
                method = words.pop(0)
            case "-H":
                name, _, value = words.pop(0).partition(":")
                headers[name] = value.strip()
            case "-d":
                body = words.pop(0)
            case other:
                url = other
    path = urlsplit(url)
    target = f"{path.path}?{path.query}" if path.query else path.path
    return client.request(method, target, headers=headers, content=body.encode() if body else None)


def printed_requests(printed: Any) -> list[tuple[str, str]]:
    """Return method and path of each row of the printed table, without those of sources and the registry."""
    table = printed("agentcy", "| Method | Path | Purpose |\n", "Gotchas")
    rows = re.findall(r"^\| (GET|POST|PUT|DELETE) \| (\S+) \|", table, re.MULTILINE)
    return [(method, path) for method, path in rows if "/sources" not in path and "/registry" not in path]


def test_the_printed_command_creates_the_printed_skill(client, printed):
    command = printed("agentcy", "just a row in skills with the markdown content.\nbash\n", "github — pulled")

    answer = curl(client, command)

    assert answer.status_code == 201, answer.text
    sent = json.loads(re.search(r"-d '(.*)'", command, re.DOTALL)[1])
    skill = client.get(answer.headers["location"], headers={"authorization": f"Bearer {TOKEN}"}).json()
    assert skill == answer.json()
    for field in ("name", "slug", "description", "tags", "scope"):
        assert skill[field] == sent[field]
    assert (skill["organization_id"], skill["user_id"], skill["source_type"]) == ("acme", None, "manual")
    assert skill["enabled"] is True
    # The stored document says what the body said, and keeps the text below the frontmatter.
    assert f"slug: {sent['slug']}\n" in skill["content"]
    assert skill["content"].endswith(sent["content"].rpartition("---\n")[2])
    assert curl(client, command).status_code == 409


def test_the_printed_command_installs_a_skill_of_the_registry(client, printed):
    command = printed("agentcy", "# Install — same shape as a manual skill, content from the registry\n", "Dynamic")
    document = "---\\nname: Postgres\\nslug: community.postgres\\ndescription: Tunes Postgres.\\n---\\n\\nTune it.\\n"
    command = command.replace(", … }", f', "content": "{document}" }}')

    answer = curl(client, command)

    assert answer.status_code == 201, answer.text
    skill = answer.json()
    assert (skill["slug"], skill["source_type"]) == ("community.postgres", "marketplace")
    assert skill["source_url"] == "https://skills.sh/…"


@pytest.mark.few(1)
def test_every_printed_endpoint_exists_with_its_query_parameters(client, printed):
    api = client.get("/api/v1/openapi.json").json()["paths"]
    requests = printed_requests(printed)
    assert len(requests) == 6

    for method, path in requests:
        assert method.lower() in api[path], (method, path)
    names = re.search(r"List skills \(([^)]*)\)", printed("agentcy", "| Method | Path | Purpose |\n", "Gotchas"))
    wanted = {name.strip().partition("=")[0] for name in names[1].replace("|user", "").split(",")}
    given = {parameter["name"] for parameter in api["/api/v1/skills"]["get"]["parameters"]}
    assert wanted <= given


def test_the_printed_columns_are_in_the_answer(client, printed):
    rows = printed("agentcy", "| Column | Notes |\n", "skill_sources — one row")
    columns = {
        name for row in re.findall(r"^([a-z_, \[\]]+) \|", rows, re.MULTILINE) for name in re.findall(r"\w+", row)
    }
    body = {"content": "---\nname: One\nslug: a.one\ndescription: One.\n---\n\nText.\n"}
    headers = {"authorization": f"Bearer {TOKEN}"}

    skill = client.post("/api/v1/skills", json=body, headers=headers).json()

    assert len(columns) >= 15
    assert columns <= set(skill)


def test_a_personal_skill_is_seen_by_its_user_alone(each_place):
    engine = each_place.open(ANN)
    tokens = {name: Actor(name=name, organization="acme", user=name, channel="http") for name in ("ann", "bob")}
    tokens["eve"] = Actor(name="eve", organization="other", user="ann", channel="http")
    callers = known_tokens({name: Caller(actor=actor) for name, actor in tokens.items()})
    app = make_app(engine, callers=callers, keys=[b"k" * 32], hosts=("testserver",))
    with TestClient(app, raise_server_exceptions=False) as client:

        def ask(name: str, method: str = "GET", path: str = "/api/v1/skills", **body: Any) -> Any:
            headers = {"authorization": f"Bearer {name}"}
            return client.request(method, path, headers=headers, **({"json": body} if body else {}))

        text = "---\nname: One\nslug: {}\ndescription: One.\n---\n\nText.\n"
        own = ask("ann", "POST", scope="user", content=text.format("mine")).json()
        shared = ask("ann", "POST", scope="org", content=text.format("ours")).json()

        listed = {name: [item["slug"] for item in ask(name).json()["items"]] for name in tokens}
        assert listed == {"ann": ["mine", "ours"], "bob": ["ours"], "eve": []}
        assert [item["slug"] for item in ask("ann", path="/api/v1/skills?scope=user").json()["items"]] == ["mine"]
        unknown = "00000000-0000-4000-8000-000000000000"
        for name, foreign_id in (("bob", own["id"]), ("eve", own["id"]), ("eve", shared["id"])):
            for method in ("GET", "DELETE"):
                foreign = ask(name, method, f"/api/v1/skills/{foreign_id}")
                assert foreign.status_code == 404
                assert foreign.text.replace(foreign_id, unknown) == ask(name, method, f"/api/v1/skills/{unknown}").text
    asyncio.run(engine.close())
