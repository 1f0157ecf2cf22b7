"""What the everyday commands cost in CPU time on the sample workspace, with a database that is there already.

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


GOAL_MS = 300.0
COMMANDS = {
    "prowess --help": ["--help"],
    "prowess list": ["list"],
    "prowess list --json": ["list", "--json"],
    "prowess show": ["show", "commit-messages"],
    "prowess enable": ["enable", "commit-messages"],
    "prowess prompt": ["prompt"],
    "prowess search": ["search", "commit", "message"],
    "prowess match": ["match", "write a commit message"],
}


def cpu_ms(command: list[str], env: dict[str, str]) -> float:
    """Return the CPU time of one process."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=env, cwd=ROOT / "examples/workspace")
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command} failed.")
    return (usage.ru_utime + usage.ru_stime) * 1000


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--times", type=int, default=10)
    options.add_argument("--out", default="benchmarks/results/startup.json")
    given = options.parse_args()
    script = str(Path(sys.executable).parent / "prowess")
    # What no command can go below: the interpreter, and the libraries that those with models and a database import.
    commands = {
        f"python -c {program!r}": [sys.executable, "-c", program]
        for program in ("pass", "import pydantic.main", "import sqlalchemy")
    }
    commands |= {name: [script, *arguments] for name, arguments in COMMANDS.items()}
    with tempfile.TemporaryDirectory() as home:
        env = {**os.environ, "HOME": home, "PROWESS_HOME": f"{home}/.prowess", "PROWESS_TRUSTED_FOLDERS": str(ROOT)}
        env.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
        cpu_ms([script, "enable", "commit-messages"], env)  # makes the database
        # The least of several rounds: other processes can only make a command slower.
        rounds = [{name: cpu_ms(command, env) for name, command in commands.items()} for _ in range(given.times)]
    rows = {name: round(min(costs[name] for costs in rounds), 1) for name in commands}
    for name, spent in rows.items():
        print(f"{name:<34}{spent:>8.1f} ms CPU{'' if spent <= GOAL_MS else '  NOT MET'}")
    out = Path(given.out)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
