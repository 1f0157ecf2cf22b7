"""The install lines of the README work: the package builds, installs and runs, and has the extras that they name."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent


@pytest.mark.long
def test_a_wheel_of_the_checkout_installs_and_runs_with_the_extras_of_the_install_line(tmp_path):
    def run(*command: object, **options: object) -> str:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **options)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, ROOT)
    [wheel] = tmp_path.glob("*.whl")
    # Its dependencies are those of this environment: tests fetch nothing.
    run(BIN / "uv", "pip", "install", "--offline", "--no-deps", "--target", tmp_path / "site", wheel)
    environment = {"PYTHONPATH": str(tmp_path / "site"), "HOME": str(tmp_path)}
    where = run(sys.executable, "-c", "import prowess; print(prowess.__file__)", cwd=tmp_path, env=environment)
    assert where.startswith(str(tmp_path))
    assert run(sys.executable, "-m", "prowess", "--version", cwd=tmp_path, env=environment).startswith("prowess ")
    [metadata] = (tmp_path / "site").glob("prowess-*.dist-info/METADATA")
    provided = set(re.findall(r"^Provides-Extra: (.*)$", metadata.read_text(), re.MULTILINE))
    named = re.findall(r"install '\.\[([^]]+)\]'", (ROOT / "README.md").read_text())
    assert named
    assert {extra for names in named for extra in names.split(",")} <= provided
