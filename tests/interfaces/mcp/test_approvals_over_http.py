"""Approvals over HTTP: the client shows the question, in both versions of the protocol."""

from __future__ import annotations

import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult, Implementation

pytestmark = pytest.mark.anyio

STRICT = """
import asyncio, sys
from prowess import Prowess

async def main():
    async with Prowess.open(sys.argv[1]) as prowess:
        await prowess.policy.set("skill_enablement_policy", "prompt-user")

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def address(served_home: Path, start_server, environment_of) -> tuple[str, Path]:
    """Start a server that requires an approval for every skill. Return its address and the folder of its tokens.

    The operator says that a person answers in the client `mcp`.
    """
    workspace = str(served_home / "workspace")
    subprocess.run([sys.executable, "-c", STRICT, workspace], env=environment_of(served_home), check=True)
    command = [sys.executable, "-m", "prowess", "mcp", "--http", "--port", "0", "--wait", "0", "--workspace", workspace]
    url = start_server([*command, "--approvals-by", "mcp"], served_home)
    return url, served_home / ".prowess"


@asynccontextmanager
async def connected(address, token, mode, questions, name="mcp"):
    """Connect a client that declares elicitation and answers yes to every question."""
    url, home = address

    async def answer(_context, params):
        questions.append(params.message)
        return ElicitResult(action="accept", content={"approve": True})

    web = httpx2.AsyncClient(headers={"Authorization": f"Bearer {(home / token).read_text().strip()}"})
    transport = streamable_http_client(url, http_client=web)
    info = Implementation(name=name, version="1")
    async with web, Client(transport, mode=mode, elicitation_callback=answer, client_info=info) as client:
        yield client


@pytest.mark.few(1)
@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize(("token", "name"), [("token", "mcp"), ("token", "other"), ("token-mcp", "other")])
async def test_neither_the_token_of_agents_nor_another_client_approves(address, mode, token, name):
    questions = []
    async with connected(address, token, mode, questions, name) as client:
        enabled = await client.call_tool("enable_skill", {"skill_slug": "invoice-reader"})
        listed = await client.call_tool("list_enabled_skills", {})
    assert enabled.is_error
    assert questions == []
    assert enabled.structured_content["hint"].startswith("Tell the user that request ")
    assert "invoice-reader" not in str(listed.structured_content)


@pytest.mark.parametrize(("mode", "slug"), [("auto", "invoice-reader"), ("legacy", "release-notes")])
async def test_the_person_answers_in_the_client(address, mode, slug):
    questions = []
    async with connected(address, "token-mcp", mode, questions) as client:
        enabled = await client.call_tool("enable_skill", {"skill_slug": slug})
        read = await client.read_resource(f"skill://{slug}/SKILL.md")
        again = await client.call_tool("list_enabled_skills", {})
    assert not enabled.is_error
    assert len(questions) == 1
    assert slug in questions[0]
    assert read.contents
    assert slug in str(again.structured_content)
