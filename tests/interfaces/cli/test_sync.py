"""`prowess sync`: what a person sees when devices differ."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def location(tmp_path: Path) -> Path:
    made = tmp_path / "location"
    made.mkdir()
    return made


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that goes to a device: a home and a workspace of its own."""

    def go(device: str) -> None:
        workspace = tmp_path / device / "project"
        workspace.mkdir(parents=True, exist_ok=True)
        monkeypatch.chdir(workspace)
        monkeypatch.setenv("PROWESS_HOME", str(tmp_path / device / "home"))

    return go


def write_skill(folder: Path, body: str) -> Path:
    made = folder / "release"
    made.mkdir(exist_ok=True)
    (made / "SKILL.md").write_text(f"---\nname: release\ndescription: What it is for.\n---\n\n{body}\n")
    return made


def test_two_devices_from_the_first_push_to_a_conflict(prowess, at, tmp_path, location, monkeypatch):
    at("laptop")
    prowess("import", write_skill(tmp_path, "One."))
    pushed = prowess("sync", "push", location)
    assert pushed.code == 0
    assert [line.split() for line in pushed.out.splitlines()[:2]] == [
        ["skill", "scope", "change", "state"],
        ["release", "workspace", "added", "pushed"],
    ]
    assert "prowess sync key" in pushed.out
    assert prowess("sync", "push").out == f"Nothing to push: 1 skill the same here and at {location}.\n"
    key = prowess("sync", "key").out

    at("desktop")
    refused = prowess("sync", "pull", location)
    assert refused.code != 0
    assert "prowess sync key --set" in refused.err
    monkeypatch.setattr(sys, "stdin", io.StringIO(key))
    assert prowess("sync", "key", "--set").out == "Saved the sync key.\n"
    assert prowess("sync", "status", location, "--json").json["changes"][0]["outcome"] == "pending"
    assert "pulled" in prowess("sync", "pull", location).out
    prowess("import", write_skill(tmp_path, "From the desktop."), "--on-conflict", "replace")
    assert "pushed" in prowess("sync", "push").out

    at("laptop")
    prowess("import", write_skill(tmp_path, "From the laptop."), "--on-conflict", "replace")
    behind = prowess("sync", "push")
    assert behind.code != 0
    assert "prowess sync pull" in behind.err
    conflict = prowess("sync", "pull")
    assert conflict.code == 1
    assert "+From the desktop." in conflict.out
    assert "Run `prowess sync pull --theirs release` or `prowess sync pull --mine release`." in conflict.out
    assert prowess("sync", "pull", "--mine", "release").code == 0
    assert "pushed" in prowess("sync", "push").out


def test_a_pull_into_a_folder_of_another_name_says_how_to_name_the_workspace(
    prowess, at, tmp_path, location, monkeypatch
):
    at("laptop")
    prowess("import", write_skill(tmp_path, "One."))
    assert prowess("sync", "push", location).err == ""
    elsewhere = tmp_path / "laptop/renamed"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    pulled = prowess("sync", "pull")
    assert pulled.code == 0
    assert "Nothing was pushed for the workspace 'renamed'." in pulled.err
    assert "pulled" in prowess("sync", "pull", "--name", "project").out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["push"], "There is no sync location yet."),
        (["push", "./nowhere"], "is not a folder"),
        (["push", "s3://"], "is not the address of a bucket"),
        (["push", ".", "--name", "../up"], "cannot be the name of a workspace"),
        (["key"], "This device has no sync key yet."),
    ],
)
def test_a_mistake_is_answered_with_what_to_do(prowess, at, arguments, message):
    at("laptop")
    ran = prowess("sync", *arguments)
    assert ran.code != 0
    assert message in ran.err
    assert len(ran.err.splitlines()) >= 2


def test_a_server_cannot_sync(prowess, at):
    at("laptop")
    assert "this machine" in prowess("--server", "http://127.0.0.1:1", "sync", "status").err
