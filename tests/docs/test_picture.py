"""The terminal picture of the README shows what the commands print today."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs/assets/terminal.svg"


@pytest.mark.long
def test_the_terminal_picture_is_current(tmp_path):
    program = f"import picture, pathlib; print(picture.picture(pathlib.Path({str(tmp_path)!r}, 'home')), end='')"
    drawn = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT / "scripts", capture_output=True, text=True, check=False
    )
    assert drawn.returncode == 0, drawn.stderr
    assert drawn.stdout == PICTURE.read_text(), "run: .venv/bin/python scripts/picture.py"


def test_the_picture_loads_nothing_from_elsewhere():
    assert re.findall(r"(?:src|href|url\()[=\"'( ]*https?:", PICTURE.read_text()) == []
