"""A skill whose artifacts run in the test: each call is written to a file, waits or fails as told. Also a worker process.

The file is the witness: it survives `kill -9`, and it counts what was done, not what was recorded.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from prowess import plugins
from prowess.errors import ProwessError, RunFailed
from prowess.plugins import Plugin
from prowess.run.call import Call, Output

NAMES = ("one", "two", "three")
MODULE = json.dumps({"template": "predict", "signature": "question -> answer"})


def skill_files(names: tuple[str, ...] = NAMES, more: str = "") -> dict[str, str | bytes]:
    """Return the files of the skill `line`, with one artifact for each name."""
    parts = "".join(
        f"  - {{kind: dspy_module, name: {name}, path: dspy/{name}.json, fallback: spare}}\n" for name in names
    )
    return {
        "SKILL.md": "---\nname: line\ndescription: An assembly line.\n---\n\n# Line\n\nAssemble.\n",
        "agents/prowess.yaml": "title: Line\nartifacts:\n"
        + parts
        + "  - {kind: prompt_template, name: spare, path: prompts/spare.j2}\n"
        + more,
        "prompts/spare.j2": "Assemble.",
        **{f"dspy/{name}.json": MODULE for name in names},
    }


class Station:
    """Runs the artifacts. `told` decides about each call, by its artifact and the input `n`; its error is raised."""

    kind = "dspy_module"

    def __init__(self, witness: Path, told: Callable[[str, object], ProwessError | None] = lambda *_: None) -> None:
        self.witness = witness
        self.told = told
        self.gate: asyncio.Event | None = None
        self.begun = asyncio.Event()
        self.seconds = 0.0
        self.kill = ""

    async def run(self, call: Call) -> Output:
        """Write that a call began, do as told, and write that it ended."""
        name, n = call.artifact.name, call.inputs.get("n")
        self._write(f"begin {name} {n}")
        self.begun.set()
        if self.kill == f"in {name}":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.gate is not None:
            await self.gate.wait()
        await asyncio.sleep(self.seconds)
        if (error := self.told(name, n)) is not None:
            raise error
        self._write(f"end {name} {n}")
        return Output(kind="dspy_module", data={"by": name, "n": n})

    def _write(self, line: str) -> None:
        with self.witness.open("a") as file:
            file.write(f"{line}\n")

    def lines(self, word: str = "end") -> list[str]:
        """Return what has begun or ended so far."""
        text = self.witness.read_text() if self.witness.exists() else ""
        return [line.removeprefix(f"{word} ") for line in text.splitlines() if line.startswith(f"{word} ")]


def broken() -> RunFailed:
    """Return the error of a station that is broken."""
    return RunFailed("The station is broken.", hint="Fix it.")


def install(station: Station) -> None:
    """Let engines of this process use the station."""
    found = [Plugin(name="station", handlers=(station,))]
    plugins.working_plugins = lambda: found


def main() -> None:
    """Work in a process of its own: `station.py WITNESS KILL SECONDS COMMAND…` runs a command of prowess."""
    witness, kill, seconds, *command = sys.argv[1:]
    station = Station(Path(witness))
    station.kill, station.seconds = kill, float(seconds)
    install(station)
    if kill.startswith("after "):
        _kill_after(kill.removeprefix("after "))
    from prowess.interfaces.cli.main import run

    sys.argv = ["prowess", *command]
    run()


def _kill_after(name: str) -> None:
    """Die between two steps: when the result of an artifact has been stored, before anything else is."""
    from prowess.jobs.execution import Execution

    change = Execution._change

    async def kill(self: Execution, job_id: str, attempt: int, values: dict[str, object]) -> object:
        if values.get("done") == NAMES.index(name) + 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return await change(self, job_id, attempt, values)

    Execution._change = kill


if __name__ == "__main__":
    main()
