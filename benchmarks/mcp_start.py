"""What an MCP server with many skills costs to start: CPU until its first answer, and for listing every resource and prompt.

python benchmarks/mcp_start.py [--skills 4000] [--out benchmarks/results/mcp_start.json]

The server speaks over stdin and stdout, in the older protocol and in the newer one. The figures are CPU seconds of the
server process, first with an empty home folder and then again, as a client that starts it every day finds it.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from mcp_calls import META, cpu_seconds, write_skills

import prowess

GOAL_SECONDS = 1.0


class Server:
    """A server process, spoken to line by line."""

    def __init__(self, workspace: Path, home: Path) -> None:
        places = {"HOME": str(home), "PROWESS_HOME": str(home / ".prowess"), "PROWESS_TRUSTED_FOLDERS": str(workspace)}
        environment = {**os.environ, **places}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "prowess", "mcp", "--workspace", str(workspace)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        self._number = 0

    @property
    def cpu(self) -> float:
        """The CPU seconds that the process has used."""
        return cpu_seconds(self._process.pid)

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return its result; notifications in between are skipped."""
        self._number += 1
        self._send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        assert self._process.stdout is not None
        while True:
            answer = json.loads(self._process.stdout.readline())
            if answer.get("id") == self._number:
                return answer["result"]

    def tell(self, method: str) -> None:
        """Send a notification."""
        self._send({"jsonrpc": "2.0", "method": method})

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        self._process.stdin.flush()

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


def count_listed(server: Server, what: str, meta: dict[str, Any]) -> int:
    listed, cursor = 0, None
    while True:
        page = server.ask(f"{what}/list", {**meta, **({"cursor": cursor} if cursor else {})})
        listed += len(page[what])
        cursor = page.get("nextCursor")
        if not cursor:
            return listed


def measure(workspace: Path, home: Path, *, older: bool) -> dict[str, float]:
    server = Server(workspace, home)
    meta: dict[str, Any] = {} if older else {"_meta": META}
    try:
        if older:
            client = {"name": "bench", "version": "1"}
            server.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client})
            server.tell("notifications/initialized")
        server.ask("tools/list", meta)
        first = server.cpu
        resources = count_listed(server, "resources", meta)
        second = server.cpu
        prompts = count_listed(server, "prompts", meta)
        return {
            "first_answer_s": round(first, 3),
            "resources_s": round(second - first, 3),
            "resources": resources,
            "prompts_s": round(server.cpu - second, 3),
            "prompts": prompts,
        }
    finally:
        server.close()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--skills", type=int, default=4000)
    options.add_argument("--out", default="benchmarks/results/mcp_start.json")
    given = options.parse_args()
    # An installed package has its bytecode, and compiling would be part of each start if the environment forbids to write it.
    compileall.compile_dir(str(Path(prowess.__file__).parent), quiet=2)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder) / "workspace"
        write_skills(workspace, given.skills)
        for protocol in ("older", "newer"):
            home = Path(folder) / protocol
            home.mkdir()
            for start in ("first", "again"):
                figures = measure(workspace, home, older=protocol == "older")
                rows.append({"protocol": protocol, "start": start, **figures})
    for row in rows:
        met = all(row[name] <= GOAL_SECONDS for name in ("first_answer_s", "resources_s", "prompts_s"))
        print(
            f"{row['protocol']} protocol, {row['start']:<6} first answer {row['first_answer_s']:.2f} s CPU, "
            f"{row['resources']:,} resources {row['resources_s']:.2f} s CPU, "
            f"{row['prompts']:,} prompts {row['prompts_s']:.2f} s CPU  {'met' if met else 'NOT MET'}"
        )
    out = Path(given.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
