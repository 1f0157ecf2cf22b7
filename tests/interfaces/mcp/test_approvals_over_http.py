"""Approvals over HTTP: the client shows the question, in both versions of the protocol."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult

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
def address(served_home: Path, start_server, environment_of) -> tuple[str, str]:
    """Start a server that requires an approval for every skill. Return its address and its token."""
    workspace = str(served_home / "workspace")
    subprocess.run([sys.executable, "-c", STRICT, workspace], env=environment_of(served_home), check=True)
    command = [sys.executable, "-m", "prowess", "mcp", "--http", "--port", "0", "--workspace", workspace]
    url = start_server(command, served_home)
    return url, (served_home / ".prowess/token").read_text().strip()


@pytest.mark.parametrize(("mode", "slug"), [("auto", "invoice-reader"), ("legacy", "release-notes")])
async def test_the_person_answers_in_the_client(address, mode, slug):
    url, token = address
    questions = []

    async def answer(_context, params):
        questions.append(params.message)
        return ElicitResult(action="accept", content={"approve": True})

    web = httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"})
    transport = streamable_http_client(url, http_client=web)
    async with web, Client(transport, mode=mode, elicitation_callback=answer) as client:
        enabled = await client.call_tool("enable_skill", {"skill_slug": slug})
        read = await client.read_resource(f"skill://{slug}/SKILL.md")
        again = await client.call_tool("list_enabled_skills", {})
    assert not enabled.is_error
    assert len(questions) == 1
    assert slug in questions[0]
    assert read.contents
    assert slug in str(again.structured_content)
