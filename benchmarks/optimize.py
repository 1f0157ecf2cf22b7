"""Optimize a skill that classifies support tickets, on a real model, and report what the held-out test says.

    python benchmarks/optimize.py [--model local:smollm2] [--methods rewrite,bootstrap_few_shot] [--calls 700] [--minutes 15]
    python benchmarks/optimize.py --methods rewrite --rewrites benchmarks/material/tickets_rewrites.json

The material is 120 labelled tickets that were written for this, of which the optimizer never sees the held-out ones. Each
method starts from the same one-line prompt. A small model answers tickets, but cannot propose rewrites; with `--rewrites`,
they come from a file, as if a larger model had written them, and everything is measured on the small one. The result is printed as measured: a gain with its interval, or none. Prints a
table, and writes optimize.json. `prowess model fetch smollm2` brings the default model.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any, cast

from prowess.authoring.optimize.proposal import METHODS, Budget, OptimizationRequest
from prowess.errors import ProwessError
from prowess.llm.local import open_local
from prowess.llm.model import Model, ModelConfig, Reply, Request, Usage
from prowess.open import Prowess
from prowess.settings import read_settings


class Proposer:
    """A model whose rewrites come from a file; it passes all other requests on."""

    def __init__(self, model: Model, rewrites: Sequence[str]) -> None:
        self.name = model.name
        self.family = model.family
        self.structured = model.structured
        self._model = model
        self._rewrites = list(rewrites)

    async def complete(self, request: Request) -> Reply:
        """Return the rewrites if they are asked for, or else the answer of the model."""
        if request.messages[-1].text.startswith("You improve"):
            return Reply(text=json.dumps({"rewrites": self._rewrites}), usage=Usage(requests=1))
        return await self._model.complete(request)

    async def stream(self, request: Request) -> AsyncGenerator[str | Reply]:
        """Yield the whole answer at once."""
        yield await self.complete(request)


SKILL = Path(__file__).parent / "material" / "tickets"


async def measure(
    model: Model | str, methods: Sequence[str], *, calls: int, minutes: float, home: str = ""
) -> list[dict[str, Any]]:
    """Optimize the skill by each method, and return what each measured."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder, "workspace")
        shutil.copytree(SKILL, workspace / ".agents" / "skills" / "tickets")
        environment = {**os.environ, "HOME": folder, "PROWESS_HOME": home or f"{folder}/home"}
        environment["PROWESS_DATABASE_URL"] = f"sqlite:///{folder}/records.db"
        settings = read_settings(environment, workspace=workspace)
        async with Prowess.open(settings=settings, trusted_folders=[workspace]) as prowess:
            for method in methods:
                request = OptimizationRequest(
                    skill="tickets",
                    method=cast("Any", method),
                    metric="exact",
                    model=model,
                    budget=Budget(calls=calls, minutes=minutes),
                )
                began = time.monotonic()
                try:
                    told = (await prowess.optimize.run(request)).as_json()
                except ProwessError as error:
                    told = {"state": "failed", "reason": error.message, "test": None, "calls": 0, "score": None}
                seconds = round(time.monotonic() - began, 1)
                kept = {name: told[name] for name in ("state", "reason", "test", "calls", "score")}
                rows.append({"method": method, "seconds": seconds, **kept})
    return rows


def format_row(row: dict[str, Any]) -> str:
    """Return one line of the table."""
    test = row["test"]
    if test is None:
        return f"{row['method']:<20} {row['state']:<9} {row['calls']:>5} {row['seconds']:>7.0f}  {row['reason']}"
    difference = test["difference"]
    figures = f"{test['base']:.3f} → {test['candidate']:.3f}  {difference['mean']:+.3f}"
    interval = f"[{difference['low']:+.3f}, {difference['high']:+.3f}]  p = {test['p']:.3f}  n = {test['cases']}"
    return f"{row['method']:<20} {row['state']:<9} {row['calls']:>5} {row['seconds']:>7.0f}  {figures} {interval}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="local:smollm2")
    parser.add_argument("--methods", default="rewrite,bootstrap_few_shot")
    parser.add_argument("--calls", type=int, default=700)
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--home", default="", help="PROWESS_HOME with the model and the sidecar")
    parser.add_argument("--rewrites", default="", help="JSON file with the texts that the method rewrite tries")
    parser.add_argument("--out", default="optimize.json")
    given = parser.parse_args()
    methods = given.methods.split(",")
    unknown = set(methods) - set(METHODS)
    if unknown:
        parser.error(f"unknown method {min(unknown)!r}; use {', '.join(METHODS)}")
    model: Model | str = given.model
    if given.rewrites:
        home = Path(given.home) if given.home else Path.home() / ".prowess"
        model = Proposer(open_local(given.model, ModelConfig(home=home)), json.loads(Path(given.rewrites).read_text()))
    rows = asyncio.run(measure(model, methods, calls=given.calls, minutes=given.minutes, home=given.home))
    print(f"{given.model}, held-out cases of 120 tickets")
    print(
        f"{'method':<20} {'state':<9} {'calls':>5} {'seconds':>7}  held-out: base → candidate, difference, 95% interval"
    )
    for row in rows:
        print(format_row(row))
    Path(given.out).write_text(json.dumps({"model": given.model, "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
