"""`prowess mcp --install`: the client's configuration is printed, or written beside what stands there."""

from __future__ import annotations

import json
import os
import stat
import tomllib
from pathlib import Path

import pytest

from prowess.errors import Conflict, Invalid, Refused
from prowess.interfaces.mcp.install import plan, write_plan

FOLDERS = ("cursor", "vscode", "codex")
"""The clients that have a folder of their own; the workspace itself is chosen by the person."""

JSON_CLIENTS = {"claude-code": ".mcp.json", "cursor": ".cursor/mcp.json", "vscode": ".vscode/mcp.json"}


@pytest.fixture
def planned(tmp_path):
    def make(client: str):
        return plan(client, tmp_path / "workspace", tmp_path / "home", {"PATH": ""}, python="/usr/bin/python3")

    (tmp_path / "workspace").mkdir()
    return make


@pytest.mark.parametrize(("client", "path"), [*JSON_CLIENTS.items(), ("codex", "../home/.codex/config.toml")])
def test_an_entry_that_starts_the_server_is_written_where_the_client_looks(planned, tmp_path, client, path):
    change = planned(client)
    assert write_plan(change) == "Wrote"
    written = (tmp_path / "workspace" / path).resolve()
    assert change.path.resolve() == written
    document = tomllib.loads(written.read_text()) if client == "codex" else json.loads(written.read_text())
    table = {"vscode": "servers", "codex": "mcp_servers"}.get(client, "mcpServers")
    entry = document[table]["prowess"]
    assert entry["command"] == "/usr/bin/python3"
    assert entry["args"][:3] == ["-m", "prowess", "mcp"]


@pytest.mark.parametrize("client", [*JSON_CLIENTS, "codex"])
def test_writing_twice_changes_nothing(planned, client):
    write_plan(planned(client))
    before = planned(client).path.read_bytes()
    assert write_plan(planned(client)) == "There already, and unchanged:"
    assert planned(client).path.read_bytes() == before


@pytest.mark.parametrize("client", JSON_CLIENTS)
def test_json_keeps_what_else_stands_there_in_its_order_and_the_mode_of_the_file(planned, client):
    change = planned(client)
    change.path.parent.mkdir(exist_ok=True)
    other = {"zebra": [1, {"é": None}], change.table: {"other": {"command": "x", "unknown": 1}}, "alpha": True}
    change.path.write_text(json.dumps(other, indent=4, ensure_ascii=False))
    change.path.chmod(0o600)
    assert write_plan(change) == "Added to"
    text = change.path.read_text()
    assert stat.S_IMODE(change.path.stat().st_mode) == 0o600
    assert '\n    "zebra"' in text
    document = json.loads(text)
    assert list(document) == ["zebra", change.table, "alpha"]
    assert list(document[change.table]) == ["other", "prowess"]
    del document[change.table]["prowess"]
    assert document == other


def test_toml_keeps_every_character(planned):
    change = planned("codex")
    change.path.parent.mkdir(parents=True)
    text = "# mine\nmodel   = \"x\"  # spaced\n\n[mcp_servers.other]\ncommand = 'y'\n\n[profiles.a]\nz = 1"
    change.path.write_text(text)
    assert write_plan(change) == "Added to"
    written = change.path.read_text()
    assert written.startswith(text)
    assert set(tomllib.loads(written)["mcp_servers"]) == {"other", "prowess"}


@pytest.mark.parametrize(
    ("client", "text"),
    [
        ("vscode", '{\n  // a comment\n  "servers": {}\n}'),
        ("cursor", "[]"),
        ("claude-code", '{"mcpServers": []}'),
        ("codex", "mcp_servers = { other = { command = 'x' } }\n"),
        ("codex", "not toml"),
        ("codex", "mcp_servers = 3\n"),
    ],
)
def test_what_cannot_be_changed_safely_is_left_with_the_entry_to_add(planned, client, text):
    change = planned(client)
    change.path.parent.mkdir(parents=True, exist_ok=True)
    change.path.write_text(text)
    with pytest.raises(Invalid) as refused:
        write_plan(change)
    assert change.snippet in refused.value.hint
    assert change.path.read_text() == text


@pytest.mark.parametrize("client", [*JSON_CLIENTS, "codex"])
def test_an_entry_of_somebody_else_is_not_replaced(planned, client):
    change = planned(client)
    write_plan(change)
    mine = change.path.read_text().replace("/usr/bin/python3", "/opt/other")
    change.path.write_text(mine)
    with pytest.raises(Conflict):
        write_plan(change)
    assert change.path.read_text() == mine


@pytest.mark.parametrize(
    ("client", "what"),
    [*((client, "file") for client in [*JSON_CLIENTS, "codex"]), *((client, "folder") for client in FOLDERS)],
)
def test_links_are_not_followed(planned, tmp_path, client, what):
    change = planned(client)
    target = tmp_path / "elsewhere"
    if what == "file":
        change.path.parent.mkdir(parents=True, exist_ok=True)
        change.path.symlink_to(target)
    else:
        change.path.parent.parent.mkdir(parents=True, exist_ok=True)
        target.mkdir()
        change.path.parent.symlink_to(target)
    with pytest.raises(Refused):
        write_plan(change)
    assert not target.exists() or not os.listdir(target)


def test_the_command_prints_the_entry_and_writes_nothing_without_write(
    workspace, environment, home, monkeypatch, capfd
):
    from prowess.interfaces.cli.main import run

    monkeypatch.chdir(workspace)
    monkeypatch.setattr("sys.argv", ["prowess", "mcp", "--install", "codex"])
    with pytest.raises(SystemExit) as ended:
        run()
    assert not ended.value.code
    assert tomllib.loads(capfd.readouterr().out)["mcp_servers"]["prowess"]["args"][-1] == "mcp"
    assert not Path(home / ".codex").exists()
