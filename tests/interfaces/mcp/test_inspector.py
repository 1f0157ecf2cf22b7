"""Use the server with the official MCP inspector on its command line."""

from __future__ import annotations

import json
import sys

import pytest

pytestmark = pytest.mark.long  # needs Node packages from a registry

PROGRAM = "@modelcontextprotocol/inspector/clients/launcher/build/index.js"


@pytest.fixture
def inspect(node, workspace, environment, home):
    """Return a function that starts `prowess mcp` from the inspector and returns what it prints."""

    def run(method: str, *arguments: str, era: str = "modern"):
        server = [sys.executable, "-m", "prowess", "mcp", "--workspace", str(workspace)]
        passed = [
            word
            for name in ("PROWESS_HOME", "PROWESS_TRUSTED_FOLDERS", "PYTHONPATH")
            if name in environment
            for word in ("-e", f"{name}={environment[name]}")
        ]
        asked = ["--cli", *server, *passed, "--protocol-era", era, "--connect-timeout", "120000", "--method", method]
        return node(PROGRAM, *asked, *arguments, env=environment, cwd=home)

    return run


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_it_lists_and_calls_tools(inspect, era):
    listed = inspect("tools/list", "--strict", "--format", "json", "-q", era=era)
    assert listed.returncode == 0, listed.stderr
    assert {"search_skills", "load_skill"} <= {tool["name"] for tool in answer(listed)["tools"]}
    called = inspect(
        "tools/call", "--tool-name", "load_skill", "--tool-arg", "name=release-notes", "--format", "json", era=era
    )
    assert called.returncode == 0, called.stderr
    assert "Write." in called.stdout


def test_it_verifies_every_skill_by_its_digests(inspect):
    verified = inspect("skills/list", "--verify", "--require-digests")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert "invoice-reader" in verified.stdout


def test_it_reads_a_file_and_a_folder(inspect):
    read = inspect("resources/read", "--uri", "skill://invoice-reader/scripts/total.py", "--format", "json")
    assert "print('total')" in read.stdout, read.stderr
    folder = inspect("resources/directory/read", "--uri", "skill://invoice-reader", "--format", "json")
    assert "inode/directory" in folder.stdout, folder.stderr


def answer(ran):
    told = json.loads(ran.stdout)
    return told.get("result", told)
