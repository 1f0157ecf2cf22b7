"""A server whose PostgreSQL does not answer tells no caller where that is, and its log does."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from prowess import Prowess
from prowess.interfaces.auth.caller import Caller
from prowess.interfaces.auth.guard import known_tokens
from prowess.interfaces.server import make_app
from prowess.policy.actor import Actor, agent_of
from prowess.settings import read_settings

PLACE = ("127.0.0.1", "anna", "hunter2", "ledger")
KEY = b"k" * 32
ME = Actor(name="me", channel="http")


@pytest.fixture
def engine(tmp_path: Path) -> Generator[Prowess]:
    """An engine with one skill, and a database that cannot be reached."""
    folder = tmp_path / ".agents/skills/greet"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: greet\ndescription: Greets people.\n---\n\nHello.\n")
    environment = {
        "HOME": str(tmp_path),
        "PROWESS_HOME": str(tmp_path / "home"),
        "PROWESS_DATABASE_URL": "postgresql://anna:hunter2@127.0.0.1:1/ledger",
        "PROWESS_BACKGROUND": "off",
        "PROWESS_SIDECAR": "off",
        "PROWESS_SYSTEM_SKILLS": "off",
        "PROWESS_TRUSTED_FOLDERS": str(tmp_path),
    }
    engine = Prowess.open(settings=read_settings(environment, workspace=tmp_path), channel="http")
    yield engine
    asyncio.run(engine.close())


def check_told(text: str, log: str) -> None:
    assert "The database does not answer." in text
    assert [part for part in PLACE if part in text] == []
    assert "127.0.0.1" in log


@pytest.mark.parametrize("actor", [ME, agent_of(ME)], ids=["person", "agent"])
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [("GET", "sessions", None), ("POST", "tools/list_connectors", {}), ("POST", "skills/greet/load", {})],
)
def test_no_caller_of_the_api_is_told_where_the_database_is(engine, caplog, actor, method, path, body):
    app = make_app(engine, callers=known_tokens({"it": Caller(actor=actor)}), keys=[KEY], hosts=("testserver",))
    with TestClient(app, headers={"authorization": "Bearer it"}, raise_server_exceptions=False) as client:
        answer = client.request(method, f"/api/v1/{path}", json=body)
    check_told(answer.text, caplog.text)


@pytest.mark.anyio
async def test_no_client_of_mcp_is_told_where_the_database_is(engine, caplog):
    pytest.importorskip("mcp")
    from mcp import Client, MCPError

    from prowess.interfaces.mcp.server import make_security, make_server

    caller = Caller(actor=agent_of(ME), person=ME)
    async with Client(make_server(engine, caller, security=make_security([KEY], caller))) as client:
        called = await client.call_tool("list_connectors", {})
        check_told(str(called), caplog.text)
        for asked in (client.read_resource("skill://greet/SKILL.md"), client.get_prompt("greet")):
            with pytest.raises(MCPError) as refused:
                await asked
            check_told(str(refused.value), caplog.text)
