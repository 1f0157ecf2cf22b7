"""Folders of runs: made for one, gone with it, and found again where a process was killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from prowess.sandbox import folders
from prowess.sandbox.folders import FOLDER_PREFIX, new_folder, remove_folder, sweep_folders

LEAVING = """
import os, signal
from prowess.sandbox.folders import new_folder
folder = new_folder()
(folder / "deep").mkdir()
(folder / "deep" / "file").write_text("left")
(folder / "deep").chmod(0)
print(folder, flush=True)
if input() == "die": os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where folders are made; all that is in it counts as settled."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(folders, "SETTLED_SECONDS", -60.0)
    return tmp_path


@pytest.fixture
def other(temporary: Path) -> subprocess.Popen[str]:
    """Another process that has made a folder."""
    with subprocess.Popen(
        [sys.executable, "-c", LEAVING],
        env={**os.environ, "TMPDIR": str(temporary)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        process.kill()


def test_a_folder_is_empty_and_nobody_elses_and_goes_when_it_is_removed(temporary):
    folder = new_folder()
    assert (folder.parent, list(folder.iterdir()), folder.stat().st_mode & 0o777) == (temporary, [], 0o700)
    remove_folder(folder)
    assert list(temporary.iterdir()) == []


def test_what_a_killed_process_left_is_removed(other):
    assert other.stdin
    assert other.stdout
    left = Path(other.stdout.readline().strip())
    other.stdin.write("die\n")
    other.stdin.flush()
    other.wait()
    assert left.is_dir()
    assert sweep_folders() == [left]
    assert not left.exists()


def test_what_is_in_use_stays(other):
    assert other.stdout
    theirs, mine = Path(other.stdout.readline().strip()), new_folder()
    assert sweep_folders() == []
    assert theirs.is_dir()
    assert mine.is_dir()
    remove_folder(mine)


def test_what_has_just_been_made_stays(temporary, monkeypatch):
    monkeypatch.setattr(folders, "SETTLED_SECONDS", 3600.0)
    (temporary / f"{FOLDER_PREFIX}fresh").mkdir()
    assert sweep_folders() == []


def test_what_is_no_folder_of_a_run_stays(temporary):
    (temporary / "elsewhere").mkdir()
    (temporary / "elsewhere" / "file").write_text("mine")
    (temporary / "other-folder").mkdir()
    (temporary / f"{FOLDER_PREFIX}file").write_text("mine")
    (temporary / f"{FOLDER_PREFIX}link").symlink_to(temporary / "elsewhere")
    assert sweep_folders() == []
    assert (temporary / "elsewhere" / "file").read_text() == "mine"
    assert len(list(temporary.iterdir())) == 4


def test_a_removed_folder_holds_nothing_open():
    before = os.listdir("/dev/fd")
    for _ in range(5):
        remove_folder(new_folder())
    assert os.listdir("/dev/fd") == before
