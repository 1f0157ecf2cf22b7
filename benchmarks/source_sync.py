"""Sync a repository with thousands of skills: cold, unchanged, and with one skill changed.

    python benchmarks/source_sync.py [--skills 5000] [--out benchmarks/results/source_sync.json]

Side by side, from a repository on this machine, so that no network is measured:

- `fetch`: the skills as packages in memory, through git's cache
- `sync`: the same, compared and stored in the account's database, as `prowess source sync` does
- `git clone --depth 1`, and `git ls-remote`, the least that anybody can ask
- `skills add --list` of npm `skills`: it clones and finds the skills, and installs nothing. It has no way to see that nothing
  changed. Run the tests marked `long` in tests/sources once to install it; without it, these rows are left out.

CPU time includes all processes that were started, except those of the repository's server side, which git starts itself.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from prowess import Prowess
from prowess.net.client import GuardedHttpClient
from prowess.settings import read_settings
from prowess.sources.fetch import fetch
from prowess.sources.fetch_context import FetchContext
from prowess.sources.fetched import SourceState
from prowess.sources.reference import parse_source

CLI = Path(__file__).parents[1] / "tests/sources/node/node_modules/skills/bin/cli.mjs"
ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
STATES = ("cold", "unchanged", "one changed")


def skill_files(number: int, text: str = "") -> dict[str, str]:
    steps = f"{number + 1}. Compare the figures, then say what you found and what you left alone.\n" * (
        10 + number % 40
    )
    return {
        f"skills/skill-{number:05}/SKILL.md": f"---\nname: skill-{number:05}\ndescription: How to handle case {number} with care, "
        f"and a short report.\n---\n\n# Case {number}\n\n{steps}{text}\n",
        f"skills/skill-{number:05}/references/guide.md": f"# Guide {number}\n\n{steps * 2}",
    }


def commit(repository: Path, files: dict[str, str], parent: bool) -> None:
    parts = [b"commit refs/heads/main\ncommitter A <a@example.com> 1700000000 +0000\ndata 1\nx\n"]
    parts += [b"from refs/heads/main^0\n"] if parent else []
    for path, text in files.items():
        parts.append(f"M 100644 inline {path}\ndata {len(text.encode())}\n{text}\n".encode())
    subprocess.run(["git", "-C", str(repository), "fast-import", "--quiet"], input=b"".join(parts), check=True)


def make_repository(folder: Path, skills: int) -> None:
    subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch=main", str(folder)], check=True)
    for name in ("uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"):
        subprocess.run(["git", "-C", str(folder), "config", name, "true"], check=True)
    commit(folder, {path: text for number in range(skills) for path, text in skill_files(number).items()}, parent=False)


def cpu_seconds() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


async def timed(work: Callable[[], Awaitable[int]]) -> dict[str, Any]:
    wall, cpu = time.perf_counter(), cpu_seconds()
    skills = await work()
    return {
        "wall_s": round(time.perf_counter() - wall, 3),
        "cpu_s": round(cpu_seconds() - cpu, 3),
        "skills": skills,
    }


def fetching(context: FetchContext, url: str) -> Callable[[], Awaitable[int]]:
    """Return our fetch. Each call gets the state of the one before."""
    reference, last = parse_source(url), list[SourceState]()

    async def run() -> int:
        fetched = await fetch(reference, context, last[-1] if last else None)
        last.append(fetched.state)
        return len(fetched.skills)

    return run


def starting(root: Path, *command: str) -> Callable[[], Awaitable[int]]:
    """Return a program that starts anew in an empty folder each time."""

    def start() -> int:
        # Not removed before the end: that would be measured, too.
        folder = Path(tempfile.mkdtemp(dir=root))
        environment = {**ENVIRONMENT, "HOME": str(folder), "DISABLE_TELEMETRY": "1", "CI": "1"}
        subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=True)
        return 0

    return lambda: asyncio.to_thread(start)


async def measure(skills: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        repository = root / "repository.git"
        make_repository(repository, skills)
        url = f"file://{repository}"
        clone = ("git", "clone", "--quiet", "--depth=1", url, "copy")
        client = GuardedHttpClient()
        context = FetchContext(
            client=client, cache=root / "cache", protocols=frozenset({"file"}), environment=ENVIRONMENT
        )
        contestants = {
            "fetch": fetching(context, url),
            "git clone": starting(root, *clone),
            "git ls-remote": starting(root, "git", "ls-remote", url, "HEAD"),
        }
        if CLI.exists():
            contestants["skills add --list"] = starting(root, "node", str(CLI), "add", url, "--list")
        settings = read_settings(
            {**ENVIRONMENT, "HOME": str(root), "PROWESS_GIT_PROTOCOLS": "file", "PROWESS_BACKGROUND": "off"},
            workspace=root,
        )
        async with Prowess.open(settings=settings) as prowess:
            source = await prowess.sources.create("bench", "github", {"repo": url, "path": "skills"})

            async def sync() -> int:
                return sum((await prowess.sources.sync(source.id)).counts.values())

            contestants["sync"] = sync
            for state in STATES:
                if state == "one changed":
                    commit(repository, skill_files(7, "One more line."), parent=True)
                for title, work in contestants.items():
                    rows.append({"program": title, "state": state, **await timed(work)})
                    print(json.dumps(rows[-1]), flush=True)
        client.close()
    return rows


def show(rows: list[dict[str, Any]], skills: int) -> None:
    print(f"\n{skills:,} skills, CPU seconds (wall seconds)\n")
    print(f"{'':20}" + "".join(f"{state:>18}" for state in STATES))
    for title in dict.fromkeys(row["program"] for row in rows):
        cells = {row["state"]: f"{row['cpu_s']:.2f} ({row['wall_s']:.2f})" for row in rows if row["program"] == title}
        print(f"{title:20}" + "".join(f"{cells[state]:>18}" for state in STATES))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--skills", type=int, default=5_000)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/source_sync.json"))
    options = parser.parse_args()
    rows = asyncio.run(measure(options.skills))
    show(rows, options.skills)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({"skills": options.skills, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
