"""Skill folders of other users of the machine are not read unless the operator says so."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from prowess.interfaces.cli.main import run

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user"),
]
NOBODY = 65534


def give_away(folder: Path, user: int = NOBODY) -> None:
    os.chown(folder, user, -1)


def setting(place, **environment: str):
    return replace(place, environment={**place.environment, **environment})


async def look(place) -> tuple[list[str], list[str]]:
    """The slugs that are served, and the codes of the faults."""
    async with place.open() as prowess:
        cards = await prowess.skills.cards()
        faults = await prowess.skills.faults()
    return [card.slug for card in cards], [problem.code for fault in faults for problem in fault.problems]


async def test_a_skill_folder_of_another_user_is_not_read(place):
    folder = place.skill("deploy").parent
    assert await look(place) == (["deploy"], [])
    give_away(folder)
    assert await look(place) == ([], ["foreign-folder"])
    assert await look(setting(place, PROWESS_SAFE_FOLDERS=str(folder))) == (["deploy"], [])
    assert await look(setting(place, PROWESS_SAFE_FOLDERS=f"/elsewhere{os.pathsep}*")) == (["deploy"], [])


async def test_a_folder_above_the_workspace_of_another_user_is_not_read(place):
    place.skill("deploy")
    (place.workspace / ".git").mkdir()
    inner = place.workspace / "packages" / "app"
    inner.mkdir(parents=True)
    below = setting(place, PROWESS_WORKSPACE=str(inner))
    assert await look(below) == (["deploy"], [])
    give_away(place.workspace)
    assert await look(below) == ([], ["foreign-folder"])


async def test_a_folder_on_the_way_to_the_skills_counts_and_the_workspace_itself_does_not(place):
    place.skill("deploy")
    give_away(place.workspace)
    assert await look(place) == (["deploy"], [])
    give_away(place.workspace / ".agents")
    assert await look(place) == ([], ["foreign-folder"])


async def test_under_sudo_the_folders_of_the_calling_user_are_read(place):
    give_away(place.skill("deploy").parent)
    assert await look(setting(place, SUDO_UID=str(NOBODY))) == (["deploy"], [])
    assert await look(setting(place, SUDO_UID="4711")) == ([], ["foreign-folder"])


async def test_an_open_engine_notices_that_a_folder_was_given_away(place):
    folder = place.skill("deploy").parent
    async with place.open() as prowess:
        assert [one.slug for one in await prowess.skills.cards()] == ["deploy"]
        give_away(folder)
        assert await prowess.skills.cards() == []
        give_away(folder, 0)
        assert [one.slug for one in await prowess.skills.cards()] == ["deploy"]


def test_doctor_names_the_folder_its_owner_and_the_setting(place, monkeypatch, capfd):
    folder = place.skill("deploy").parent
    give_away(folder)
    for name, value in place.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", ["prowess", "doctor", "--json"])
    with pytest.raises(SystemExit):
        run()
    shown = capfd.readouterr().out
    assert "foreign-folder" in shown
    assert "nobody" in shown
    assert f"PROWESS_SAFE_FOLDERS={folder}" in shown


PR_CAPBSET_DROP = 24
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 1, 2


def drop_powers() -> None:
    """Make the permissions of files apply to a new process of root, too."""
    for power in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
        ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, power, 0, 0, 0)


def test_a_private_prowess_folder_of_another_user_is_ignored_and_named(place):
    place.skill("deploy")
    private = place.workspace / ".prowess"
    private.mkdir(mode=0o700)
    (private / "strict").touch()
    give_away(private)

    def prowess(*words: str) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-m", "prowess", *words]
        options = {"env": {**os.environ, **place.environment}, "cwd": place.workspace, "preexec_fn": drop_powers}
        return subprocess.run(line, capture_output=True, text=True, check=False, **options)

    listed = prowess("list")
    assert (listed.returncode, "deploy" in listed.stdout, "`prowess doctor` shows why" in listed.stderr) == (
        0,
        True,
        True,
    )
    assert "You may not read the database" in " ".join(prowess("doctor").stdout.split())
    assert "deploy" in prowess("match", "deploy").stdout
    refused = prowess("import", str(place.workspace / ".agents/skills/deploy"))
    assert (refused.returncode, "You may not read the database" in " ".join(refused.stderr.split())) == (5, True)
