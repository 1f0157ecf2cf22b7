"""Fixtures that run the command line in this process, as a person would."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import shutil
import struct
import sys
import termios
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from prowess.interfaces.auth.approver import make_approver_token
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
    monkeypatch.delenv("COLUMNS", raising=False)  # parallel workers have one

    def call(*args: str | Path) -> Ran:
        monkeypatch.setattr(sys, "argv", ["prowess", *map(str, args)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            run()
        captured = capfd.readouterr()
        return Ran(code=int(ended.value.code or 0), out=captured.out, err=captured.err)

    return call


@pytest.fixture
def approver(home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Give every command the approver's token, as a script of the operator would."""
    token = make_approver_token(home / ".prowess")
    monkeypatch.setenv("PROWESS_APPROVER_TOKEN", token)
    return token


@dataclass(frozen=True)
class Typed:
    """What was seen on a terminal, and the exit code of the command."""

    code: int
    seen: str


@pytest.fixture
def terminal(command_server: Any) -> Callable[..., Typed]:
    """Return a function that runs a command on a real terminal, where a person types one answer to each question."""

    def run_typed(*args: str, answers: Sequence[str], term: str = "dumb") -> Typed:
        ours, theirs = pty.openpty()
        # Wide enough that the terminal does not wrap lines.
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 400, 0, 0))
        left = list(answers)
        environment = {**os.environ, "PAGER": "cat", "TERM": term}
        environment.pop("PROWESS_APPROVER_TOKEN", None)
        files = (os.ttyname(theirs),) * 3

        def run_and_close() -> int:
            try:
                return command_server.run(*map(str, args), environment=environment, folder=Path.cwd(), files=files)
            finally:
                os.close(theirs)  # ends the reading below

        with ThreadPoolExecutor(1) as runner:
            running = runner.submit(run_and_close)
            seen, answered = b"", 0
            try:
                while chunk := os.read(ours, 4096):
                    seen += chunk
                    # Every question ends with a colon and a space.
                    if seen.endswith(b": ") and b"[" in seen[answered:] and left:
                        answered = len(seen)
                        os.write(ours, left.pop(0).encode())
            except OSError:
                pass  # the terminal is gone when the command ends
        os.close(ours)
        assert not left, f"not asked often enough: {seen.decode()}"
        return Typed(code=running.result(), seen=seen.decode().replace("\r\n", "\n"))

    return run_typed


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
