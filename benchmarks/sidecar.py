"""What the DSPy sidecar costs: its start, a ping, an execution without the model's time, its memory, and its binary.

python benchmarks/sidecar.py [--binary dist/prowess-sidecar] [--out benchmarks/results/sidecar.json]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ANSWER = {"text": "[[ ## reasoning ## ]]\nIt is known.\n\n[[ ## answer ## ]]\nParis\n\n[[ ## completed ## ]]"}
FIELDS = [{"prefix": f"{name.title()}:", "description": f"${{{name}}}"} for name in ("question", "reasoning", "answer")]
STATE = {
    "predict": {
        "demos": [{"question": "Capital of Italy?", "reasoning": "It is known.", "answer": "Rome"}] * 4,
        "signature": {"instructions": "Name the city.", "fields": FIELDS},
        "lm": {"temperature": 0.2},
    }
}
EXECUTE: dict[str, Any] = {"type": "execute", "params": {"question": "Capital of France?"}}
REQUESTS: dict[str, dict[str, Any]] = {
    "ping": {"type": "ping"},
    "execute predict": {**EXECUTE, "template_id": "predict"},
    "execute chain_of_thought": {**EXECUTE, "template_id": "chain_of_thought"},
    "execute with state": {**EXECUTE, "template_id": "chain_of_thought", "state_blob": STATE},
}
GOALS = {"start s": 0.8, "memory MB": 120.0, "binary MB": 70.0, **{f"{name} ms": 2.0 for name in REQUESTS}}


class Process:
    """A sidecar that answers model calls at once."""

    def __init__(self, command: list[str]) -> None:
        started = time.perf_counter()
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"PATH": "/usr/bin:/bin"},
        )
        self.hello = self.read()["hello"]
        self.start_s = time.perf_counter() - started

    def read(self) -> dict[str, Any]:
        """Return the next message."""
        assert self.process.stdout
        return json.loads(self.process.stdout.readline())

    def write(self, message: dict[str, Any]) -> None:
        """Send a message."""
        assert self.process.stdin
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def request(self, message: dict[str, Any]) -> None:
        """Send a request and wait for its result."""
        self.write({"id": 1, **message})
        while "call" in (answer := self.read()):
            self.write({"reply": answer["call"], "value": ANSWER})
        if not answer["ok"]:
            raise SystemExit(answer["error"]["message"])

    def cpu_s(self) -> float:
        """Return the CPU time of the process so far."""
        fields = Path(f"/proc/{self.hello['pid']}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mb(self) -> float:
        """Return its resident memory."""
        status = Path(f"/proc/{self.hello['pid']}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024

    def close(self) -> None:
        """End it by closing its input."""
        self.process.communicate(timeout=30)


def times(action: Callable[[], object], count: int) -> list[float]:
    results: list[float] = []
    for _ in range(count):
        started = time.perf_counter()
        action()
        results.append(time.perf_counter() - started)
    return results


def measure(command: list[str], rounds: int) -> dict[str, float]:
    Process(command).close()  # so that files are in the page cache and bytecode is written
    starts: list[float] = []
    for _ in range(rounds):
        process = Process(command)
        starts.append(process.start_s)
        process.close()
    process = Process(command)
    # The least of several starts: other processes can only make one slower.
    figures = {"start s": min(starts), "start s, median": statistics.median(starts), "start s of CPU": process.cpu_s()}
    for name, message in REQUESTS.items():
        times(lambda message=message: process.request(message), 20)
        before = process.cpu_s()
        spent = times(lambda message=message: process.request(message), 200)
        figures[f"{name} ms"] = statistics.median(spent) * 1000
        figures[f"{name} ms of CPU"] = (process.cpu_s() - before) / 200 * 1000
    figures["memory MB"] = process.memory_mb()
    process.close()
    return figures


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--python", default=str(ROOT / ".venv/sidecar/bin/python"))
    options.add_argument("--binary", default=str(ROOT / "dist/prowess-sidecar"))
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--out", default="benchmarks/results/sidecar.json")
    given = options.parse_args()
    results = {"environment": measure([given.python, "-I", str(ROOT / "src/prowess_dspy")], given.rounds)}
    binary = Path(given.binary)
    if binary.exists():
        results["binary"] = measure([str(binary)], given.rounds) | {"binary MB": binary.stat().st_size / 1e6}
    for kind, figures in results.items():
        print(kind)
        for name, value in figures.items():
            goal = GOALS.get(name)
            missed = "" if goal is None or value <= goal else f"  NOT MET, the goal is {goal}"
            print(f"  {name:<40}{value:>9.2f}{missed}")
    out = Path(given.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
