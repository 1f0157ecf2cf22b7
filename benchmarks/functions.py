"""How fast functions are called: natively, in WebAssembly, and in a process that is started for each call.

    python benchmarks/functions.py [--home FOLDER] [--rounds N] [--out FILE]

Calls that follow each other at once take a process or an interpreter that is made for them; calls with a pause between them
find one that waits. The bare process confines nothing. The goals are those for two cores that have nothing else to do.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

from prowess.sandbox.process.sandbox import ProcessSandbox
from prowess.sandbox.protocol import Sandbox
from prowess.sandbox.script import script_from_function
from prowess.sandbox.wasm.sandbox import WasmSandbox

HERE = Path(__file__).resolve().parent
SOURCE = "def execute(args, ctx):\n    return args['a'] + 1\n"
ASKING = "def execute(args, ctx):\n    for _ in range(50): ctx.log('x')\n"
WORKING = "def execute(args, ctx):\n    return sum(i * i % 7 for i in range(1_000_000))\n"
BARE = "import sys, json\n" + SOURCE + "print(json.dumps(execute(json.loads(sys.argv[1]), None)))"
PAUSE_SECONDS = 0.03
GOALS = {"native, with a pause": 5.0, "native, one after the other": 5.0}
"""The most milliseconds that the median may be."""


def main() -> int:
    args = arguments()
    rows = asyncio.run(measured(args.home, args.rounds))
    print(f"{'':<42}{'min ms':>10}{'p50 ms':>10}{'p99 ms':>10}")
    for name, row in rows.items():
        goal = GOALS.get(name)
        met = "" if goal is None else f"   goal {goal:g} {'met' if row['p50'] <= goal else 'NOT MET'}"
        print(f"{name:<42}{row['min']:>10.2f}{row['p50']:>10.2f}{row['p99']:>10.2f}{met}")
    load = os.getloadavg()[0]
    print(f"\n{os.cpu_count()} cores, load {load:.1f}")
    report = {
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load": round(load, 1),
        "milliseconds": rows,
    }
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--home", type=Path, default=Path.home() / ".prowess")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "functions.json")
    return parser.parse_args()


async def measured(home: Path, rounds: int) -> dict[str, dict[str, float]]:
    rows: dict[str, dict[str, float]] = {}
    for kind, sandbox in (("native", ProcessSandbox()), ("WebAssembly", WasmSandbox(home, progress=print))):
        rows[f"{kind}, one after the other"] = row(await calls(sandbox, SOURCE, rounds))
        rows[f"{kind}, with a pause"] = row(await calls(sandbox, SOURCE, rounds, pause=PAUSE_SECONDS))
        rows[f"{kind}, 50 calls of the host"] = row(await calls(sandbox, ASKING, rounds // 10))
        rows[f"{kind}, a million steps"] = row(await calls(sandbox, WORKING, rounds // 10))
        await sandbox.close()
    rows["a bare process for each call"] = row([spawned() for _ in range(max(5, rounds // 10))])
    return rows


async def calls(sandbox: Sandbox, source: str, rounds: int, *, pause: float = 0.0) -> list[float]:
    script = script_from_function(source, {"a": 1})
    await sandbox.run(script, {"log": log})
    times: list[float] = []
    for _ in range(max(5, rounds)):
        await asyncio.sleep(pause)
        began = time.perf_counter()
        ran = await sandbox.run(script, {"log": log})
        times.append(time.perf_counter() - began)
        if ran.ended != "done":
            raise SystemExit(f"A call ended with {ran.ended}: {ran.error or ran.detail}")
    return times


async def log(message: str) -> None:
    """Hear it."""


def spawned() -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-ISB", "-c", BARE, '{"a": 1}'], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def row(times: list[float]) -> dict[str, float]:
    ordered = sorted(times)
    last = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return {
        "min": round(ordered[0] * 1e3, 2),
        "p50": round(statistics.median(ordered) * 1e3, 2),
        "p99": round(last * 1e3, 2),
    }


if __name__ == "__main__":
    raise SystemExit(main())
