"""Servers in processes of their own: start them, kill them, and talk to them from many tasks at once."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

FORKS = Path(__file__).with_name("server_forks.py")
START_SECONDS = 60.0
SECRET_KEY = "k" * 43


def free_port() -> int:
    """Return a port that nobody listens on, so that a server can be started on it again and again.

    It is below those that the system gives to clients: one that connects while no server listens could get the same port,
    and would then be connected to itself.
    """
    while True:
        port = random.SystemRandom().randint(20_000, 32_000)
        with socket.socket() as opened, suppress(OSError):
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            opened.bind(("127.0.0.1", port))
            return port


@dataclass(frozen=True)
class Deployment:
    """What the replicas of one server share: a database, a secret key, and the tokens in the database."""

    home: Path
    database: str
    tokens: dict[str, str] = field(default_factory=dict)

    def environment(self) -> dict[str, str]:
        """Return the environment of a replica."""
        kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
        return {
            **kept,
            "HOME": str(self.home),
            "PROWESS_HOME": str(self.home / ".prowess"),
            "PROWESS_DATABASE_URL": self.database,
            "PROWESS_SECRET_KEY": SECRET_KEY,
            "PROWESS_SYSTEM_SKILLS": "off",
            "PROWESS_SKILL_FOLDERS": "off",
            "PROWESS_BACKGROUND": "off",
            "PROWESS_SIDECAR": "off",
            "OPENBLAS_NUM_THREADS": "1",
        }

    def arguments(self, port: int) -> list[str]:
        """Return the command line of a replica."""
        return ["serve", "--port", str(port), "--database", self.database]


class Forks:
    """Starts servers quickly, each in a fork of a process that has imported everything."""

    def __init__(self) -> None:
        self._process = subprocess.Popen([sys.executable, str(FORKS)], stdin=-1, stdout=-1, text=True)
        self._started: set[int] = set()

    def start(self, deployment: Deployment, port: int) -> int:
        """Start a replica, and return its process id. It may not listen yet."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = json.dumps({"arguments": deployment.arguments(port), "environment": deployment.environment()})
        print(line, file=self._process.stdin, flush=True)
        child = int(self._process.stdout.readline())
        self._started.add(child)
        return child

    def kill(self, child: int, number: int = signal.SIGKILL) -> None:
        """Send a signal to a replica, and wait until it is gone."""
        os.kill(child, number)
        self._started.discard(child)
        with suppress(ProcessLookupError):
            while True:
                os.kill(child, 0)
                time.sleep(0.001)

    def kill_all(self) -> None:
        """Kill every replica that was started."""
        for child in self._started.copy():
            with suppress(ProcessLookupError):
                self.kill(child)
        self._started.clear()

    def close(self) -> None:
        """End the process that starts them."""
        self._process.communicate(timeout=START_SECONDS)


@contextmanager
def replica(deployment: Deployment, port: int = 0) -> Generator[str]:
    """Start a replica as an operator does, and stop it afterwards. Return its address."""
    command = [sys.executable, "-m", "prowess", *deployment.arguments(port)]
    with subprocess.Popen(command, env=deployment.environment(), stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            said: list[str] = []
            for line in process.stderr:
                said.append(line)
                if found := re.search(r"http://[\d.]+:\d+", line):
                    break
            else:
                raise AssertionError("".join(said))
            yield found[0]
        finally:
            process.terminate()
            process.communicate(timeout=START_SECONDS)


async def until_ready(url: str) -> None:
    """Wait until a server answers that it is ready."""
    async with asyncio.timeout(START_SECONDS), httpx2.AsyncClient() as client:
        while True:
            try:
                if (await client.get(f"{url}/readyz")).status_code == 200:
                    return
            except httpx2.TransportError:
                pass
            await asyncio.sleep(0.03)


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something is true that other tasks change."""
    async with asyncio.timeout(START_SECONDS):
        while not condition():  # noqa: ASYNC110  (a condition over many tasks has no event)
            await asyncio.sleep(0.002)
