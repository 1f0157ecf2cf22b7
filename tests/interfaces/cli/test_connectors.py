"""`prowess connector`: add, list, show, tools, call, allow, remove and import."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.connectors.scripted_server import serve_http

SERVER = str(Path(__file__).parents[2] / "connectors" / "scripted_server.py")
COMMAND = ("--", sys.executable, "-IS", SERVER, "plain")


@pytest.fixture
def notes(prowess, workspace, approver):
    """A connector that was added with the approver token."""
    ran = prowess("connector", "add", "notes", "--description", "The notebook.", *COMMAND)
    assert ran.out == "Added notes. List its tools: prowess connector tools notes\n"
    return "notes"


def test_a_connector_is_added_listed_shown_called_allowed_and_removed(prowess, notes):
    assert [(one["name"], one["accepted"]) for one in prowess("connector", "list", "--json").json] == [("notes", True)]
    tools = prowess("connector", "tools", notes, "--json").json["tools"]
    assert [tool["tool"] for tool in tools] == ["echo", "write_note"]
    assert prowess("connector", "tools", notes, "write", "a", "note").out.splitlines()[1].startswith("write_note")
    assert prowess("connector", "call", notes, "echo", "--args", '{"text": "hello"}').out == "hello\n"
    assert prowess("connector", "allow", notes, "--reads", "--json").json["allowed_tools"] == ["echo"]
    assert "echo" in prowess("connector", "show", notes).out
    assert prowess("connector", "allow", notes, "--undo", "--json").json["allowed_tools"] == []
    assert prowess("connector", "remove", notes).out == "Removed notes.\n"
    assert (
        prowess("connector", "list").out == "There are no connectors. Add one: prowess connector add NAME -- COMMAND\n"
    )


def test_a_connector_that_replaces_one_is_reported_as_such(prowess, notes):
    ran = prowess("connector", "add", notes, *COMMAND)
    assert ran.out == "Replaced notes. List its tools: prowess connector tools notes\n"
    ran = prowess("connector", "add", "others", *COMMAND)
    assert ran.out == "Added others. List its tools: prowess connector tools others\n"


def test_a_file_is_imported_only_by_this_command_and_without_secrets(prowess, workspace, approver):
    (workspace / ".mcp.json").write_text(
        json.dumps({"mcpServers": {"Notes": {"command": "x", "env": {"TOKEN": "secret-of-sixteen"}}}})
    )
    assert prowess("connector", "list", "--json").json == []
    ran = prowess("connector", "import", ".mcp.json")
    assert ran.out == "Added notes: x\n"
    assert "Set the variable TOKEN" in ran.err
    assert "secret-of-sixteen" not in ran.out + ran.err + json.dumps(prowess("connector", "list", "--json").json)


def test_wrong_input_is_explained(prowess, workspace, approver):
    assert (
        "Give the command of the server after `--`, or its address with --url." in prowess("connector", "add", "x").err
    )
    assert "Use lower-case letters" in prowess("connector", "add", "Not A Name", *COMMAND).err
    assert "prowess connector list" in prowess("connector", "show", "x").err
    assert "must be a JSON object" in prowess("connector", "call", "x", "y", "--args", "[1]").err


def test_what_a_server_sends_wrongly_reaches_no_terminal(prowess, workspace, approver, terminal):
    with serve_http("notices") as (url, _):
        prowess("connector", "add", "notes", "--url", url, "--private")
        ran = terminal("connector", "call", "notes", "echo", "--args", '{"text": "hello"}', answers=())
    assert ran.seen.splitlines()[-1] == "hello"
    assert "\x1b[31m" not in ran.seen
    assert "Traceback" not in ran.seen


def test_without_a_terminal_and_a_token_nothing_is_added_or_allowed(prowess, workspace):
    for arguments in (("add", "x", *COMMAND), ("allow", "x")):
        ran = prowess("connector", *arguments)
        assert ran.code != 0
        assert "Only a person can" in ran.err
