"""How fast scripts run in the sandbox, side by side with a process for each script and with this interpreter.

    python benchmarks/sandbox.py [--home FOLDER] [--rounds N] [--peers] [--out FILE]

A fresh run makes its interpreter when it is asked for; a spare one was made before. A host call goes from the script through
the worker to this process and back. The slow-down compares CPU time of the same code here and in the sandbox. The memory of
a waiting script is what the worker's share grows by. A script that never ends is given a short time, and what it takes
beyond that is the overshoot. The goals are those for two busy cores; a loaded machine misses them. With `--peers`, what
else could run scripts is measured too, where it can be installed.
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
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from sandbox_peers import LOOP, of_peers, table

from prowess.sandbox.protocol import SandboxLimits, ScriptOutcome
from prowess.sandbox.script import script_from_template
from prowess.sandbox.wasm.sandbox import WasmSandbox

HERE = Path(__file__).resolve().parent
TRIVIAL = script_from_template("x = 1 + 1", {})
CALLS = """
import prowess, time
took = []
for _ in range(100):
    began = time.perf_counter()
    prowess.echo({"slug": "harbour"})
    took.append(time.perf_counter() - began)
prowess.submit(sorted(took)[50] * 1e6)
"""
BEGIN, END = "import time\nbegan = time.perf_counter()\n", "seconds = time.perf_counter() - began\n"
WORK = """
import json, re, time
began = time.perf_counter()
total = 0
for i in range(300_000): total += i * i % 7
text = json.dumps([{"name": f"page {i}", "tags": ["a", "b"]} for i in range(5_000)])
found = len(re.findall(r"page \\d+", json.dumps(json.loads(text))))
seconds = time.perf_counter() - began
"""
GOALS = {
    "fresh run, p50 ms": 5.0,
    "run in a spare interpreter, p50 ms": 1.0,
    "runs a second": -200.0,
    "host call, p50 µs": 350.0,
    "overshoot of a deadline, most ms": 100.0,
    "slow-down of computing": 4.5,
    "slow-down of a loop": 4.5,
    "memory of a waiting script, MB": 3.0,
}
"""The most that each figure may be; below nought, the least."""


def main() -> int:
    args = arguments()
    figures = asyncio.run(measured(args.home, args.rounds))
    for name, value in figures.items():
        goal = GOALS.get(name)
        met = "" if goal is None else "met" if (value <= goal if goal > 0 else value >= -goal) else "NOT MET"
        print(f"{name:<44}{value:>12,.2f}{'' if goal is None else f'   goal {abs(goal):g}':<14}{met}")
    peers = of_peers(min(args.rounds, 100)) if args.peers else {}
    table(peers)
    load = os.getloadavg()[0]
    print(f"\n{os.cpu_count()} cores, load {load:.1f}")
    report = {"python": platform.python_version(), "cores": os.cpu_count(), "load": round(load, 1), "figures": figures}
    report |= {"peers": peers} if peers else {}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--home", type=Path, default=Path.home() / ".prowess")
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "sandbox.json")
    return parser.parse_args()


async def measured(home: Path, rounds: int) -> dict[str, float]:
    figures: dict[str, float] = {}
    for name, spare_guests in (("fresh run", 0), ("run in a spare interpreter", 2)):
        sandbox = WasmSandbox(home, progress=print, spare_guests=spare_guests)
        times = await each(lambda sandbox=sandbox: sandbox.run(TRIVIAL, {}), rounds, pause=0.02 if spare_guests else 0)
        figures[f"{name}, min ms"], figures[f"{name}, p50 ms"] = min(times) * 1e3, statistics.median(times) * 1e3
        await sandbox.close()
    sandbox = WasmSandbox(home)
    try:
        await sandbox.run(TRIVIAL, {})
        figures["runs a second"] = await throughput(sandbox, rounds)
        figures["host call, p50 µs"] = await host_call(sandbox, 9)
        figures["overshoot of a deadline, most ms"] = await overshoot(sandbox)
        figures["slow-down of computing"] = await slow_down(sandbox, WORK)
        figures["slow-down of a loop"] = await slow_down(sandbox, BEGIN + LOOP + END)
        figures["memory of a waiting script, MB"] = await memory(sandbox, 20)
    finally:
        await sandbox.close()
    figures["a process for each script, p50 ms"] = statistics.median(process() for _ in range(20)) * 1e3
    return {name: round(value, 2) for name, value in figures.items()}


async def each(use: Callable[[], Awaitable[ScriptOutcome]], rounds: int, *, pause: float) -> list[float]:
    await use()
    times: list[float] = []
    for _ in range(rounds):
        await asyncio.sleep(pause)
        began = time.perf_counter()
        await use()
        times.append(time.perf_counter() - began)
    return times


async def host_call(sandbox: WasmSandbox, runs: int) -> float:
    """The median over several scripts, one after the other, of the median of their calls."""
    return statistics.median(
        [(await sandbox.run(script_from_template(CALLS, {}), {"echo": echo})).result for _ in range(runs)]
    )


async def throughput(sandbox: WasmSandbox, rounds: int) -> float:
    began = time.perf_counter()
    await asyncio.gather(*(sandbox.run(TRIVIAL, {}) for _ in range(rounds)))
    return rounds / (time.perf_counter() - began)


async def overshoot(sandbox: WasmSandbox) -> float:
    """How much longer than it may a script runs that never ends, at worst, in ms."""
    most, worst = 0.1, 0.0
    for code in (
        "while True: pass",
        "import time\ntime.sleep(60)",
        "while True:\n    try: [0] * 10**6\n    except: pass",
    ):
        for _ in range(5):
            began = time.perf_counter()
            ran = await sandbox.run(script_from_template(code, {}), {}, SandboxLimits(fuel=10**15, seconds=most))
            worst = max(worst, time.perf_counter() - began - most)
            assert ran.ended == "time", ran
    return worst * 1e3


async def slow_down(sandbox: WasmSandbox, work: str) -> float:
    """The best of five in each."""
    script = script_from_template(work + "\nimport prowess\nprowess.submit(seconds)", {})
    inside = [(await sandbox.run(script, {}, SandboxLimits(fuel=10**12, seconds=60))).result for _ in range(5)]
    here: list[float] = []
    for _ in range(5):
        scope: dict[str, Any] = {}
        exec(work, scope)
        here.append(scope["seconds"])
    return min(inside) / min(here)


async def memory(sandbox: WasmSandbox, scripts: int) -> float:
    """Of one of several scripts that wait, in MB; nought where the system does not tell."""
    waiting, go = asyncio.Semaphore(0), asyncio.Event()

    async def wait() -> None:
        waiting.release()
        await go.wait()

    before = share(sandbox)
    script = script_from_template("import prowess\nprowess.wait()", {})
    runs = [asyncio.create_task(sandbox.run(script, {"wait": wait})) for _ in range(scripts)]
    for _ in range(scripts):
        await waiting.acquire()
    grown = share(sandbox) - before
    go.set()
    await asyncio.gather(*runs)
    return grown / scripts


def share(sandbox: WasmSandbox) -> float:
    try:
        rolled = Path(f"/proc/{sandbox.pids[0]}/smaps_rollup").read_text(encoding="utf-8")
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in rolled.splitlines() if line.startswith("Pss:")) / 1024


async def echo(value: object) -> object:
    return value


def process() -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-I", "-c", "x = 1 + 1"], check=True)
    return time.perf_counter() - began


if __name__ == "__main__":
    raise SystemExit(main())
