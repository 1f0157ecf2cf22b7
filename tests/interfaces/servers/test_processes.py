"""`prowess serve --processes N`: several processes on one machine are one server, and outlive each other."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx2
import pytest

from .replicas import START_SECONDS, Deployment, free_port

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="child processes are found in /proc")


def children(process: subprocess.Popen[str]) -> set[int]:
    return {int(one) for one in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()}


def until(condition: Callable[[], object]) -> None:
    """Wait until something is true that other processes change."""
    ends_at = time.monotonic() + START_SECONDS
    while not condition():
        assert time.monotonic() < ends_at
        os.sched_yield()


def is_gone(pid: int) -> bool:
    with suppress(OSError):
        return ") Z " in Path(f"/proc/{pid}/stat").read_text()
    return True


@contextmanager
def serving(deployment: Deployment, *options: str) -> Generator[tuple[subprocess.Popen[str], str]]:
    """Start a server with two processes, and end it afterwards."""
    command = [sys.executable, "-m", "prowess", *deployment.arguments(0), "--processes", "2", *options]
    with subprocess.Popen(command, env=deployment.environment(), stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            found = next(filter(None, (re.search(r"http://[\d.]+:\d+", line) for line in process.stderr)))
            until(lambda: len(children(process)) == 2)
            yield process, found[0]
        finally:
            process.terminate()
            process.communicate(timeout=START_SECONDS)


def ask(deployment: Deployment, url: str) -> int:
    """Send a request over a new connection, and return the status."""
    headers = {"authorization": f"Bearer {deployment.tokens['ann']}"}
    return httpx2.get(f"{url}/api/v1/settings", headers=headers, timeout=START_SECONDS).status_code


@pytest.mark.long
def test_a_process_that_is_killed_is_replaced_and_sigterm_ends_all(deploy):
    deployment = deploy("sqlite")
    with serving(deployment) as (process, url):
        first = children(process)
        for _ in range(10):
            assert ask(deployment, url) == 200
        killed = min(first)
        os.kill(killed, signal.SIGKILL)
        until(lambda: len(children(process) - first) == 1 and killed not in children(process))
        assert ask(deployment, url) == 200
        left = children(process)
        process.terminate()
        assert process.wait(timeout=START_SECONDS) == 0
        assert all(map(is_gone, left))


@pytest.mark.long
def test_no_process_outlives_the_one_that_started_them(deploy):
    with serving(deploy("sqlite")) as (process, _):
        left = children(process)
        process.kill()
        process.wait(timeout=START_SECONDS)
        until(lambda: all(map(is_gone, left)))


@pytest.mark.long
def test_a_server_that_cannot_start_says_so_once_and_ends(deploy):
    deployment = deploy("sqlite")
    command = [sys.executable, "-m", "prowess", *deployment.arguments(free_port()), "--processes", "3"]
    environment = {**deployment.environment(), "PROWESS_DATABASE_URL": "", "PROWESS_HOME": str(deployment.home / "new")}
    refused = subprocess.run(
        [*(one for one in command if one not in ("--database", deployment.database)), "--host", "0.0.0.0"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
        check=False,
    )
    assert refused.returncode == 5
    assert refused.stderr.count("no token exists yet") == 1
