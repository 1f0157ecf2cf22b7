"""`make run`: a server on the sample workspace, in a terminal and without one."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, str(ROOT / "scripts/run.py")]


@pytest.mark.long
def test_without_a_terminal_it_walks_through_the_steps_and_stops(tmp_path):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    ran = subprocess.run(
        COMMAND, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("$ curl") == 3
    assert '"slug": "consistency-checker"' in ran.stdout
    assert ran.stdout.endswith("Stopped.\n")
    assert ran.stderr == ""
    assert list(tmp_path.iterdir()) == []


def read_until(terminal: int, words: str) -> str:
    """Return what a program prints in a terminal, up to some words."""
    printed = b""
    while words.encode() not in printed:
        try:
            part = os.read(terminal, 4096)
        except OSError:  # the program has ended
            part = b""
        assert part, printed.decode()
        printed += part
    return printed.decode().replace("\r\n", "\n")


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_in_a_terminal_it_shows_commands_that_work_as_printed_and_stops_with_ctrl_c(tmp_path):
    terminal, inner = pty.openpty()
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PORT": "0"}
    process = subprocess.Popen(
        COMMAND, env=environment, stdin=inner, stdout=inner, stderr=inner, start_new_session=True
    )
    os.close(inner)
    try:
        printed = read_until(terminal, "Press Ctrl+C")
        assert re.search(r"http://127\.0\.0\.1:\d+/sign-in#\S+", printed)
        commands = re.findall(r"^  (curl .*)$", printed, re.MULTILINE)
        assert len(commands) == 3
        for command in commands:
            ran = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120, check=True)
            assert "consistency-checker" in json.dumps(json.loads(ran.stdout))
    finally:
        os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C does
    read_until(terminal, "Stopped.")
    assert process.wait(timeout=120) == 0
    os.close(terminal)
    assert list(tmp_path.iterdir()) == []
