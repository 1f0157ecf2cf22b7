"""The packs reach whoever installs the package."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from prowess.engine.places import PACKS

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.long
def test_the_wheel_holds_every_file_of_the_packs_and_its_scripts_stay_executable(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        modes = {entry.filename: entry.external_attr >> 16 & 0o777 for entry in archive.infolist()}
    for path in PACKS.rglob("*"):
        if path.is_file():
            mode = modes[f"prowess/packs/{path.relative_to(PACKS).as_posix()}"]
            assert mode == (0o755 if path.parent.name == "scripts" else 0o644), path
