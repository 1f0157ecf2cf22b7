"""The command line, driven as a person drives it, in this process."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from prowess.interfaces.cli.main import run

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@dataclass(frozen=True)
class Ran:
    """What a command printed, and the code it ended with."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


Prowess = Callable[..., Ran]


@pytest.fixture
def prowess(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Prowess:
    """Run a command; the result holds its exit code, stdout and stderr."""

    def call(*args: str | Path) -> Ran:
        monkeypatch.setattr(sys, "argv", ["prowess", *map(str, args)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            run()
        captured = capfd.readouterr()
        return Ran(code=int(ended.value.code or 0), out=captured.out, err=captured.err)

    return call


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty workspace that is the current folder."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the sample workspace that is the current folder, with `../more` beside it."""
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    folder = tmp_path / "examples" / "workspace"
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def write_skill(workspace: Path) -> Callable[..., Path]:
    """Write a SKILL.md into the workspace's own skill folder."""

    def write(name: str, text: str = "", **files: str) -> Path:
        folder = workspace / ".agents" / "skills" / name
        folder.mkdir(parents=True, exist_ok=True)
        default = f"---\nname: {name}\ndescription: What {name} does, in one line.\n---\n\n# {name}\n\nDo it.\n"
        (folder / "SKILL.md").write_text(text or default)
        for path, content in files.items():
            target = folder / path.replace("__", "/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(content)
        return folder

    return write
