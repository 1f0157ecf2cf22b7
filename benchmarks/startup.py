"""What a call of the command line costs in CPU time: --help, and list on the sample workspace.

python benchmarks/startup.py [--out benchmarks/results/startup.json]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def cpu_ms(command: list[str], times: int = 15) -> float:
    """The least CPU time of several runs, the child's own and nothing else's."""
    least = float("inf")
    with tempfile.TemporaryDirectory() as home:
        env = {**os.environ, "HOME": home, "PROWESS_HOME": f"{home}/.prowess"}
        for _ in range(times):
            before = os.times()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=env, cwd=ROOT / "examples/workspace")
            after = os.times()
            spent = after.children_user - before.children_user + after.children_system - before.children_system
            least = min(least, spent * 1000)
    return least


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", default="benchmarks/results/startup.json")
    given = options.parse_args()
    script = str(Path(sys.executable).parent / "prowess")
    commands = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "prowess --help": [script, "--help"],
        "prowess list": [script, "list"],
        "prowess list --json": [script, "list", "--json"],
    }
    rows = {name: round(cpu_ms(command), 1) for name, command in commands.items()}
    for name, spent in rows.items():
        print(f"{name:<24}{spent:>8.1f} ms CPU")
    out = Path(given.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
