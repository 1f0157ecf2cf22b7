"""`prowess mcp --install` and `--uninstall`: print the client's configuration, or change the existing file."""

from __future__ import annotations

import errno
import json
import os
import stat
import sys
import tomllib
from functools import partial
from pathlib import Path

import pytest

from prowess.errors import Conflict, Invalid, Refused
from prowess.interfaces.cli.error_output import report_error
from prowess.interfaces.mcp.client_config import find_program, plan_change, remove_entry, write_change

FOLDERS = ("cursor", "vscode", "codex")
"""The clients with their own configuration folder, which may not be a link (the workspace may)."""

JSON_CLIENTS = {"claude-code": ".mcp.json", "cursor": ".cursor/mcp.json", "vscode": ".vscode/mcp.json"}


@pytest.fixture
def planned(tmp_path):
    def make(client: str, **given):
        program = ["/usr/bin/python3", "-m", "prowess"]
        return plan_change(client, tmp_path / "workspace", tmp_path / "home", {}, program=program, **given)

    (tmp_path / "workspace").mkdir(exist_ok=True)
    return make


@pytest.mark.parametrize(("client", "path"), [*JSON_CLIENTS.items(), ("codex", "../home/.codex/config.toml")])
def test_an_entry_that_starts_the_server_is_written_where_the_client_looks(planned, tmp_path, client, path):
    change = planned(client)
    assert write_change(change) == "Wrote"
    written = (tmp_path / "workspace" / path).resolve()
    assert change.path.resolve() == written
    document = tomllib.loads(written.read_text()) if client == "codex" else json.loads(written.read_text())
    table = {"vscode": "servers", "codex": "mcp_servers"}.get(client, "mcpServers")
    entry = document[table]["prowess"]
    assert entry["command"] == "/usr/bin/python3"
    assert entry["args"][:3] == ["-m", "prowess", "mcp"]


@pytest.mark.parametrize("client", [*JSON_CLIENTS, "codex"])
def test_writing_twice_changes_nothing(planned, client):
    write_change(planned(client))
    before = planned(client).path.read_bytes()
    assert write_change(planned(client)) == "Already configured:"
    assert planned(client).path.read_bytes() == before


@pytest.mark.parametrize("client", JSON_CLIENTS)
def test_json_keeps_what_else_stands_there_in_its_order_and_the_mode_of_the_file(planned, client):
    change = planned(client)
    change.path.parent.mkdir(exist_ok=True)
    other = {"zebra": [1, {"é": None}], change.table: {"other": {"command": "x", "unknown": 1}}, "alpha": True}
    change.path.write_text(json.dumps(other, indent=4, ensure_ascii=False))
    change.path.chmod(0o600)
    assert write_change(change) == "Added to"
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
    assert write_change(change) == "Added to"
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
        write_change(change)
    assert change.snippet in refused.value.hint
    assert change.path.read_text() == text


@pytest.mark.parametrize("client", [*JSON_CLIENTS, "codex"])
def test_an_entry_of_somebody_else_is_not_replaced(planned, client):
    change = planned(client)
    write_change(change)
    mine = change.path.read_text().replace("/usr/bin/python3", "/opt/other")
    change.path.write_text(mine)
    with pytest.raises(Conflict):
        write_change(change)
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
        write_change(change)
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


@pytest.fixture
def run_mcp(workspace, home, monkeypatch, capfd):
    """Run `prowess mcp` and return the exit code and the output."""
    from prowess.interfaces.cli.main import run

    def ran(*arguments: str):
        monkeypatch.chdir(workspace)
        monkeypatch.setattr("sys.argv", ["prowess", "mcp", *arguments])
        with pytest.raises(SystemExit) as ended:
            run()
        return ended.value.code or 0, *capfd.readouterr()

    return ran


@pytest.fixture
def install(run_mcp):
    return partial(run_mcp, "--install")


@pytest.fixture
def uninstall(run_mcp):
    return partial(run_mcp, "--uninstall")


@pytest.mark.parametrize("client", [*JSON_CLIENTS, "codex"])
def test_what_was_asked_for_is_in_the_entry(install, workspace, home, client):
    asked = ("--role", "scout", "--agent", "ci bot", "--conversation", "nightly", "--workspace", ".")
    code, out, _ = install(client, *asked)
    assert code == 0
    document = tomllib.loads(out) if client == "codex" else json.loads(out)
    (entry,) = (table["prowess"] for table in document.values())
    given = entry["args"][entry["args"].index("mcp") + 1 :]
    assert dict(zip(given[::2], given[1::2], strict=True)) == {
        "--role": "scout",
        "--agent": "ci bot",
        "--conversation": "nightly",
        "--workspace": str(workspace),
    }
    assert entry["env"] == {"PROWESS_HOME": str(home / ".prowess")}


def test_an_entry_that_the_client_cannot_start_yet_says_what_to_install(install, monkeypatch):
    monkeypatch.setattr("prowess.interfaces.cli.commands.mcp.find_spec", lambda _: None)
    code, out, err = install("claude-code")
    assert (code, "prowess" in json.loads(out)["mcpServers"]) == (0, True)
    assert "pip install 'prowess[mcp]'" in err


def test_toml_with_variables_is_read_back_and_written_once(planned):
    change = planned("codex", variables={"PROWESS_HOME": '/with "quotes" and é'})
    assert write_change(change) == "Wrote"
    assert tomllib.loads(change.path.read_text()) == {"mcp_servers": {"prowess": change.entry}}
    assert write_change(change) == "Already configured:"


def test_an_entry_without_what_is_asked_for_now_is_another_one(planned):
    write_change(planned("claude-code"))
    with pytest.raises(Conflict):
        write_change(planned("claude-code", options=["--role", "scout"]))


@pytest.mark.parametrize("options", [("--agent", "a@b"), ("--http",), ("--make-token",)])
def test_what_no_server_would_start_with_is_not_set_up(install, workspace, options):
    code, _, err = install("claude-code", "--write", *options)
    assert code in (2, 3)
    assert "Traceback" not in err
    assert not (workspace / ".mcp.json").exists()


def test_a_program_that_clients_would_not_find_is_named_by_its_path(tmp_path, install):
    program = tmp_path / "bin" / "prowess"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    link = tmp_path / "known" / "prowess"
    link.parent.mkdir()
    link.symlink_to(program)
    assert find_program(str(program), "/py", client_path="/nowhere") == [str(program)]
    assert find_program(str(program), "/py", client_path=str(link.parent)) == ["prowess"]
    assert find_program("prowess", "/py", client_path=str(link.parent)) == ["/py", "-P", "-m", "prowess"]
    assert find_program("/lib/prowess/__main__.py", "/py") == ["/py", "-P", "-m", "prowess"]
    _, _, err = install("codex")
    assert f"the entry uses {sys.executable}" in err


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"mcpServers": {"a": {}}, "mcpServers": {}}', "'mcpServers' twice"),
        ('{"mcpServers": {"a": 1, "a": 2}}', "'a' twice"),
        ('{"x": 1e400}', "1e400 is not a JSON number"),
        ('{"x": NaN}', "NaN is not a JSON number"),
        ('{"x": -Infinity}', "-Infinity is not a JSON number"),
        ('{"x": ' + "[" * 100_000, "nested too deeply"),
        ('{"x": "\\ud800"}', "surrogates"),
    ],
)
def test_json_that_would_not_come_back_as_it_was_is_refused_with_the_reason(planned, text, reason):
    change = planned("claude-code")
    change.path.write_text(text)
    with pytest.raises(Invalid) as refused:
        write_change(change)
    assert reason in refused.value.message
    assert change.path.read_text() == text


def test_toml_that_is_nested_too_deeply_is_refused(planned):
    change = planned("codex")
    change.path.parent.mkdir(parents=True)
    change.path.write_text("x = " + "[" * 100_000)
    with pytest.raises(Invalid):
        write_change(change)


@pytest.mark.parametrize(
    ("client", "text"),
    [("cursor", '{\r\n  "a": "b\\n"\r\n}\r\n'), ("codex", "# mine\r\na = 1\r\n"), ("codex", "# mine\r\na = 1")],
)
def test_the_ends_of_lines_stay_what_they_are(planned, client, text):
    change = planned(client, variables={"A": "b"})
    change.path.parent.mkdir(parents=True, exist_ok=True)
    change.path.write_bytes(text.encode())
    assert write_change(change) == "Added to"
    written = change.path.read_bytes()
    assert written.count(b"\n") == written.count(b"\r\n") > 3
    assert write_change(change) == "Already configured:"


@pytest.mark.parametrize("client", ["claude-code", "codex"])
@pytest.mark.parametrize("what", ["folder", "pipe", "socket"])
def test_what_is_no_plain_file_is_refused_at_once(planned, client, what):
    change = planned(client)
    path = change.path
    path.parent.mkdir(parents=True, exist_ok=True)
    if what == "folder":
        path.mkdir()
    elif what == "pipe":
        os.mkfifo(path)
    else:
        os.mknod(path, stat.S_IFSOCK | 0o600)
    with pytest.raises(Refused, match="folder" if what == "folder" else "not a regular file"):
        write_change(change)


def test_a_file_that_is_too_large_is_refused(planned):
    change = planned("claude-code")
    change.path.write_text("{}" + " " * 1024 * 1024)
    with pytest.raises(Refused):
        write_change(change)


def test_an_error_about_an_open_file_is_told_without_its_number(capfd):
    assert report_error(IsADirectoryError(errno.EISDIR, "Is a directory", 7)) == 7
    assert "Error: Is a directory." in capfd.readouterr().err


@pytest.mark.parametrize("client", [*JSON_CLIENTS, "codex"])
def test_uninstall_undoes_install_whatever_its_options_and_leaves_nothing_behind(
    install, uninstall, workspace, home, client
):
    before = {path for folder in (workspace, home) for path in folder.rglob("*")}
    assert install(client, "--write", "--role", "scout", "--wait", "3")[0] == 0
    code, out, err = uninstall(client)
    assert (code, "--role scout --wait 3" in out, "--write" in err) == (0, True, True)
    assert uninstall(client, "--write")[0] == 0
    assert {path for folder in (workspace, home) for path in folder.rglob("*")} == before
    code, out, _ = uninstall(client, "--write")
    assert (code, out.startswith("Nothing to remove")) == (0, True)


@pytest.mark.parametrize(
    ("client", "text"),
    [
        ("cursor", '{\r\n    "a": "é",\r\n    "mcpServers": {\r\n        "other": {}\r\n    }\r\n}\r\n'),
        ("vscode", '{\n\t"inputs": []\n}\n'),
        ("codex", "# mine\na   = 1\n\n[mcp_servers.other]  # ours\ncommand = 'x'\n"),
        ("codex", "[mcp_servers]\r\n[mcp_servers.other]\r\nargs = [\r\n  'x',\r\n]\r\n"),
    ],
)
def test_what_else_stands_in_the_file_is_as_before_after_uninstall(planned, client, text):
    change = planned(client, variables={"A": "b"})
    change.path.parent.mkdir(parents=True)
    change.path.write_bytes(text.encode())
    write_change(change)
    assert remove_entry(change) == "Removed from"
    assert change.path.read_bytes() == text.encode()


def test_tables_and_comments_around_a_toml_entry_stay(planned):
    change = planned("codex")
    change.path.parent.mkdir(parents=True)
    entry = "[mcp_servers.prowess]\ncommand = 'prowess'\nargs = [\n  'mcp',\n]\n\n[mcp_servers.prowess.env]\nA = 'b'\n"
    change.path.write_text(f"[a]\nx = 1\n\n{entry}\n# about b\n[b]\ny = 2\n")
    assert remove_entry(change) == "Removed from"
    assert change.path.read_text() == "[a]\nx = 1\n\n# about b\n[b]\ny = 2\n"


@pytest.mark.parametrize(
    ("client", "text"),
    [
        ("codex", "mcp_servers.prowess = { command = 'prowess', args = ['mcp'] }\n"),
        (
            "codex",
            "[mcp_servers.prowess]\ncommand = 'prowess'\nargs = ['mcp']\n[a]\nb = '''\n[mcp_servers.prowess]\n'''\n",
        ),
        ("codex", "[mcp_servers]\nprowess.command = 'prowess'\nprowess.args = ['mcp']\n"),
        ("vscode", '{\n  // mine\n  "servers": {"prowess": {"command": "prowess", "args": ["mcp"]}}\n}'),
        ("cursor", '{"mcpServers": {"prowess": {"command": "npx", "args": ["other", "mcp"]}}}'),
        ("cursor", '{"mcpServers": {"prowess": {"url": "https://example.com/mcp"}}}'),
        ("cursor", '{"mcpServers": {"prowess": {}}}'),
        ("cursor", '{"mcpServers": {"prowess": 1}}'),
    ],
)
def test_an_entry_that_cannot_be_removed_safely_or_is_not_ours_stays(planned, client, text):
    change = planned(client)
    change.path.parent.mkdir(parents=True)
    change.path.write_text(text)
    with pytest.raises((Invalid, Conflict)) as refused:
        remove_entry(change)
    assert "by hand" in refused.value.hint
    assert change.path.read_text() == text


@pytest.mark.parametrize("what", ["file", "folder"])
def test_uninstall_follows_no_links(planned, tmp_path, what):
    change = planned("cursor")
    write_change(change)
    moved = change.path.rename(tmp_path / "moved.json")
    if what == "file":
        change.path.symlink_to(moved)
    else:
        change.path.parent.rmdir()
        change.path.parent.symlink_to(tmp_path)
        moved.rename(tmp_path / change.path.name)
    with pytest.raises(Refused):
        remove_entry(change)


@pytest.mark.parametrize("options", [("--http",), ("--make-token",), ("--install", "codex")])
def test_uninstall_is_not_combined_with_what_it_does_not_undo(uninstall, options):
    assert uninstall("codex", *options)[0] == 2
