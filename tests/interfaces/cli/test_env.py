"""Allow and forbid environment variables of skills from the command line."""

from __future__ import annotations

import json

import pytest

MANIFEST = {"id": "painter", "name": "Painter", "description": "Paints.", "env": ["PAINT_KEY"], "hosts": ["a.example"]}


@pytest.fixture
def painter(workspace):
    folder = workspace / ".agents" / "skills" / "painter"
    folder.mkdir(parents=True)
    (folder / "skill.json").write_text(json.dumps(MANIFEST))
    (folder / "execute.py").write_text("def execute(args, ctx):\n    return ctx.env['PAINT_KEY']\n")
    return folder


def test_what_a_skill_asks_for_is_listed_and_allowed_and_forbidden_again(prowess, painter, monkeypatch):
    monkeypatch.setenv("PAINT_KEY", "s3cret-value")
    assert "No skill may read environment variables" in prowess("env").out
    assert prowess("env", "list", "painter", "--json").json == [
        {"slug": "painter", "name": "PAINT_KEY", "state": "asked"}
    ]
    assert prowess("env", "allow", "painter", "PAINT_KEY").out == (
        "painter may now read PAINT_KEY, until its files change.\n"
    )
    listed = prowess("env", "list")
    assert "PAINT_KEY" in listed.out
    assert "s3cret-value" not in listed.out + prowess("audit").out
    assert prowess("env", "--json").json[0]["state"] == "allowed"
    assert prowess("env", "forbid", "painter", "PAINT_KEY").out == "painter may no longer read PAINT_KEY.\n"
    assert prowess("env", "--json").json == []


def test_a_grant_ends_with_the_bytes_that_it_was_given_to(prowess, painter, monkeypatch):
    monkeypatch.setenv("PAINT_KEY", "s3cret-value")
    prowess("env", "allow", "painter", "PAINT_KEY")
    code = painter / "execute.py"
    code.write_text(code.read_text() + "# more\n")
    assert prowess("env", "--json").json[0]["state"] == "changed"
    assert "has changed since" in prowess("env").out
    prowess("env", "allow", "painter", "PAINT_KEY")
    assert prowess("env", "--json").json[0]["state"] == "allowed"


def test_only_what_the_skill_asks_for_can_be_allowed(prowess, painter):
    refused = prowess("env", "allow", "painter", "HOME")
    assert refused.code == 3
    assert "It declares: PAINT_KEY." in refused.err
    assert prowess("env", "allow", "nobody", "HOME").code == 4
    assert prowess("env", "list", "nobody").code == 4
    assert prowess("env", "forbid", "painter", "PAINT_KEY").code == 4


def test_a_grant_can_be_taken_back_from_a_skill_that_is_gone(prowess, painter):
    prowess("env", "allow", "painter", "PAINT_KEY")
    for file in painter.iterdir():
        file.unlink()
    assert prowess("env", "--json").json == [{"slug": "painter", "name": "PAINT_KEY", "state": "unused"}]
    assert prowess("env", "forbid", "painter", "PAINT_KEY").code == 0


def test_a_setting_of_the_world_outside_is_set_and_shown(prowess, workspace):
    said = prowess("policy", "set", "allowed_binaries", '["git"]').out
    assert said == 'Set allowed_binaries to ["git"] (was []).\n'
    assert prowess("policy", "set", "allowed_binaries", '["/bin/sh"]').code == 3


def test_the_person_who_runs_a_command_on_the_machine_is_asked_first(prowess, workspace):
    folder = workspace / ".agents" / "skills" / "head"
    folder.mkdir(parents=True)
    (folder / "head.yaml").write_text(
        "skill_id: head\nversion: 1.0.0\ntitle: Head\ndescription: Shows the last commit.\n"
        "implementation: {type: cli_command, handler: git log -1}\n"
    )
    asked = prowess("run", "head", "--json")
    assert json.loads(asked.err)["error"]["code"] == "approval-required"
    card = prowess("approvals", "--json").json[0]["detail"]
    assert card["reach"] == "machine"
    assert "to run programs: git" in card["requests"]
