"""Fixtures that run the command line in this process, as a person would."""

from __future__ import annotations

import io
import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from prowess.interfaces.cli.main import run

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


@dataclass(frozen=True)
class Ran:
    """The output and the exit code of a command."""

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
    """Return a function that runs a command and returns its exit code, stdout and stderr."""

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
    """Make an empty workspace the current folder."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a copy of the sample workspace the current folder, with `../more` next to it."""
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


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    """Return a function that sets stdin of the next command."""

    def give(data: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return give


@pytest.fixture
def office(workspace: Path, write_skill: Callable[..., Path]) -> Path:
    """Make a workspace of office skills that differ enough for one sentence to select one of them."""
    for name, (tags, description) in OFFICE.items():
        text = f"---\nname: {name}\ndescription: {description}\nmetadata:\n  tags: {tags}\n---\n\n# {name}\n\nDo it.\n"
        write_skill(name, text)
    return workspace


OFFICE = {
    "invoice-reader": (
        "finance, pdf",
        "Reads invoices in PDF and extracts totals, VAT and due dates. Use when someone sends a bill. Not for quotes.",
    ),
    "changelog-writer": (
        "git, writing",
        "Writes a changelog from merged pull requests. Use before a release, when users must learn what changed.",
    ),
    "meeting-minutes": (
        "writing",
        "Turns the transcript of a meeting into minutes with decisions and action items for each participant.",
    ),
    "sql-tuner": (
        "databases",
        "Explains slow SQL queries and proposes indexes for PostgreSQL, with the query plan as evidence.",
    ),
    "vacation-planner": (
        "people",
        "Plans vacation days of a team so that somebody is always on duty, and drafts the calendar entries.",
    ),
}
