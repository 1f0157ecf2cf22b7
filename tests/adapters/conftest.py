"""Example programs of frameworks, each in the environment of its framework, on a scripted model."""

from __future__ import annotations

import builtins
import json
import os
import runpy
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOT_REACHABLE = 3

RunExample = Callable[..., str]

RUN_EACH = """
import os, runpy, sys
homes, sys.argv = sys.argv[1].split(os.pathsep), sys.argv[2:]
for home in homes:
    os.environ |= {"HOME": home, "PROWESS_HOME": os.path.join(home, ".prowess")}
    runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Run a program once for each home, in one process: a framework takes seconds to import."""


@pytest.fixture(scope="session")
def framework_python() -> Callable[[str], Path]:
    """The Python of a framework's own environment, which is made if it is missing or out of date."""

    @cache
    def find(name: str) -> Path:
        made = subprocess.run([str(ROOT / "scripts/frameworks"), name], capture_output=True, text=True, check=False)
        if made.returncode == NOT_REACHABLE:
            pytest.skip(f"the packages of {name} cannot be reached: {made.stderr.strip().splitlines()[-1][:200]}")
        assert made.returncode == 0, made.stderr
        return ROOT / ".venv/frameworks" / name / "bin/python"

    return find


@pytest.fixture
def run_model(home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[list[str]], None]:
    """Have runs of skills ask a scripted model with these texts, which is not the model of the agent."""

    def script(texts: list[str]) -> None:
        path = home / "model.json"
        path.write_text(json.dumps([{"text": text} for text in texts]))
        monkeypatch.setenv("PROWESS_MODEL", f"scripted:{path}")

    return script


@pytest.fixture
def run_here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> RunExample:
    """Run a program in this process once for each home, with these lines typed at its prompts. Return what it printed."""

    def run(
        program: Path, *arguments: str, homes: Sequence[Path], typed: Sequence[str], environment: Mapping[str, str]
    ) -> str:
        lines = iter(typed)
        monkeypatch.setattr(sys, "argv", [str(program), *arguments])
        monkeypatch.setattr(builtins, "input", lambda _prompt="": next(lines))
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        for home in homes:
            monkeypatch.setenv("HOME", str(home))
            monkeypatch.setenv("PROWESS_HOME", str(home / ".prowess"))
            runpy.run_path(str(program), run_name="__main__")
        assert list(lines) == []
        return capsys.readouterr().out

    return run


@pytest.fixture
def run_there(framework_python: Callable[[str], Path]) -> RunExample:
    """Run a program in the environment of a framework, once for each home, with these lines as its input."""

    def run(
        framework: str,
        program: Path,
        *arguments: str,
        homes: Sequence[Path] = (),
        typed: Sequence[str],
        environment: Mapping[str, str],
    ) -> str:
        places = os.pathsep.join(map(str, homes or [os.environ["HOME"]]))
        command = [str(framework_python(framework)), "-c", RUN_EACH, places, str(program), *arguments]
        keep = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        ended = subprocess.run(
            command,
            input="".join(f"{line}\n" for line in typed),
            env={**keep, **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    return run
