"""Connectors with real servers from the package index, in an environment of their own."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from prowess.errors import ApprovalRequired
from prowess.policy.actor import agent_of

pytestmark = [pytest.mark.anyio, pytest.mark.long]

ROOT = Path(__file__).parents[2]
SERVERS = {
    "new": ("mcp-server-time==2026.10.19", "mcp-server-git==2026.10.19"),
    # Written for the SDK before the protocol changed.
    "old": ("mcp-server-sqlite==2025.4.25", "mcp<2"),
}
_UNREACHABLE = re.compile(
    "failed to fetch|error sending request|connect|dns error|not found in the|no versions of|offline", re.IGNORECASE
)


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    """A folder with the programs of the servers; skip if the index cannot be reached."""
    home = tmp_path_factory.mktemp("servers")
    uv = ".venv/bin/uv"
    install = ". scripts/package_index"
    for name, packages in SERVERS.items():
        install += f" && {uv} venv -q --python '{sys.executable}' {home}/{name} && {uv} pip install -q --no-build"
        install += f" --compile-bytecode --python {home}/{name}/bin/python {' '.join(map(shlex.quote, packages))}"
    done = subprocess.run(["bash", "-c", install], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode and _UNREACHABLE.search(done.stderr):
        pytest.skip(f"The package index cannot be reached: {done.stderr.strip()[-200:]}")
    assert done.returncode == 0, done.stderr
    return home


async def test_the_time_server_tells_the_time_of_a_place(place, ann, servers):
    async with place.open(ann) as engine:
        await engine.connectors.add("time", {"command": str(servers / "new/bin/mcp-server-time")})
        found = await engine.connectors.search("what time is it now", connector="time")
        assert found[0][0].name == "get_current_time"
        result = await engine.connectors.call("time", "get_current_time", {"timezone": "Asia/Tokyo"})
        assert '"timezone": "Asia/Tokyo"' in result.text
        wrong = await engine.connectors.call("time", "get_current_time", {"timezone": "Nowhere"})
        assert wrong.is_error


@pytest.fixture
def repository(tmp_path):
    """A repository with one commit."""
    folder = tmp_path / "repository"
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "HOME": str(tmp_path)}
    author = ["-c", "user.name=a", "-c", "user.email=a@b.example"]
    subprocess.run(["git", "init", "-q", str(folder)], check=True, env=environment)
    commit = ["git", "-C", str(folder), *author, "commit", "-q", "--allow-empty", "-m", "One"]
    subprocess.run(commit, check=True, env=environment)
    return folder


async def test_the_git_server_reads_a_repository_and_an_agent_is_asked_before_it_commits(
    place, ann, servers, repository
):
    async with place.open(ann) as engine:
        config = {"command": str(servers / "new/bin/mcp-server-git"), "args": ["--repository", str(repository)]}
        await engine.connectors.add("git", config)
        assert "One" in (await engine.connectors.call("git", "git_log", {"repo_path": str(repository)})).text
        agent = engine.as_actor(agent_of(ann))
        with pytest.raises(ApprovalRequired):
            await agent.connectors.call("git", "git_commit", {"repo_path": str(repository), "message": "Two"})


async def test_the_sqlite_server_writes_and_reads_a_table(place, ann, servers, tmp_path):
    async with place.open(ann) as engine:
        config = {
            "command": str(servers / "old/bin/mcp-server-sqlite"),
            "args": ["--db-path", str(tmp_path / "notes.db")],
        }
        await engine.connectors.add("sql", config)
        await engine.connectors.call("sql", "create_table", {"query": "CREATE TABLE notes (text TEXT)"})
        await engine.connectors.call("sql", "write_query", {"query": "INSERT INTO notes VALUES ('milk')"})
        found = await engine.connectors.call("sql", "read_query", {"query": "SELECT * FROM notes"})
        assert "milk" in found.text
