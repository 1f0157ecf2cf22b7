"""How fast prompt templates are rendered in the workers, side by side with engines that run in the calling process.

    python benchmarks/templates.py [--renders N] [--out FILE]

One template, a list of claims with a loop and a filter, and one set of values; every engine must give the same text. The
workers pay for two processes, JSON both ways and their limits; what runs in process has none of that and can be brought
down by the template. CPU is that of all processes together, without their start, which has a figure of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import resource
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from prowess.prompts.renderer import WorkerRenderer
from prowess.prompts.worker import RenderLimits

HERE = Path(__file__).resolve().parent

TEMPLATE = """These claims are all about {{ entity | upper }}:

{% for claim in claims -%}
{{ loop.index }}. {{ claim.text }} (page: {{ claim.page }}{% if claim.sure %}, certain{% endif %})
{% endfor %}
Which of them cannot both be true? Answer with the pairs of numbers and one sentence for each pair.
"""
MUSTACHE = """These claims are all about {{entity}}:

{{#claims}}
- {{text}} (page: {{page}}{{#sure}}, certain{{/sure}})
{{/claims}}
Which of them cannot both be true?
"""
VALUES: dict[str, Any] = {
    "entity": "Ilsabet",
    "claims": [
        {"text": f"In the year {n} she {'left' if n % 2 else 'returned to'} the harbour town, as the letters say, and "
                 "nobody there has forgotten what she carried.", "page": f"letters/{n}", "sure": n % 3 == 0}
        for n in range(30)
    ],
}  # fmt: skip


def main() -> int:
    args = arguments()
    rows = [measured(name, renders, args.renders) for name, renders in in_process().items()]
    expected = in_process()["jinja2 sandbox, cached"]()
    for name, flights, workers, syntax in (
        ("prowess, 1 in flight", 1, 1, "jinja"),
        ("prowess, 8 in flight", 8, 2, "jinja"),
        ("prowess mustache, 1 in flight", 1, 1, "mustache"),
    ):
        rows.append(asyncio.run(in_workers(name, flights, workers, syntax, args.renders, expected)))
    print_table(rows, len(expected))
    report = {"python": platform.python_version(), "cores": os.cpu_count(), "characters": len(expected), "rows": rows}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--renders", type=int, default=3_000)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "templates.json")
    return parser.parse_args()


def in_process() -> dict[str, Callable[[], str]]:
    """Every engine that runs in this process, as a function that renders once."""
    import minijinja
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    sandbox = ImmutableSandboxedEnvironment()
    cached = sandbox.from_string(TEMPLATE)
    plain = minijinja.Environment(undefined_behavior="strict", pycompat=False, debug=False)
    plain.add_template("template", TEMPLATE)
    return {
        "jinja2 sandbox, cached": lambda: cached.render(VALUES),
        "jinja2 sandbox, read each time": lambda: sandbox.from_string(TEMPLATE).render(VALUES),
        "minijinja, cached": lambda: plain.render_template("template", **VALUES),
    }


def measured(name: str, renders: Callable[[], str], count: int) -> dict[str, Any]:
    """Renders a second in this process."""
    count = count // 10 if "each time" in name else count
    started, cpu = time.perf_counter(), time.process_time()
    for _ in range(count):
        renders()
    return row(name, count, time.perf_counter() - started, time.process_time() - cpu)


async def in_workers(name: str, flights: int, workers: int, syntax: Any, count: int, expected: str) -> dict[str, Any]:
    """Renders a second through the workers, so many of them at once."""
    template = MUSTACHE if syntax == "mustache" else TEMPLATE
    started = time.perf_counter()
    _, cpu_of_start = await with_workers(workers, lambda renderer: renderer.render("x", {}))
    start = time.perf_counter() - started

    async def renders(renderer: WorkerRenderer) -> float:
        text = await renderer.render(template, VALUES, syntax=syntax)
        if syntax == "jinja" and text != expected:
            raise SystemExit("The engines differ in what they make of the template.")

        async def one_after_another() -> None:
            for _ in range(count // flights):
                await renderer.render(template, VALUES, syntax=syntax)

        begun = time.perf_counter()
        await asyncio.gather(*(one_after_another() for _ in range(flights)))
        return time.perf_counter() - begun

    seconds, cpu = await with_workers(workers, renders)
    cpu = max(0.0, cpu - cpu_of_start * workers)
    return row(name, count, seconds, cpu) | {"first_render_ms": round(start * 1e3, 1)}


async def with_workers(workers: int, use: Callable[[WorkerRenderer], Awaitable[Any]]) -> tuple[Any, float]:
    """What comes of using a renderer, and the CPU seconds of this process and the workers."""
    before = all_cpu()
    renderer = WorkerRenderer(RenderLimits(workers=workers))
    outcome = await use(renderer)
    await renderer.close()
    return outcome, all_cpu() - before


def all_cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def row(name: str, count: int, seconds: float, cpu: float) -> dict[str, Any]:
    return {
        "engine": name,
        "renders_per_second": round(count / seconds),
        "microseconds": round(seconds / count * 1e6, 1),
        "cpu_microseconds": round(cpu / count * 1e6, 1),
    }


def print_table(rows: list[dict[str, Any]], characters: int) -> None:
    print(f"One text of {characters:,} characters\n")
    print(f"{'engine':<34}{'renders/s':>10}{'µs':>9}{'CPU µs':>9}{'first, ms':>11}")
    for one in rows:
        print(
            f"{one['engine']:<34}{one['renders_per_second']:>10,}{one['microseconds']:>9}{one['cpu_microseconds']:>9}"
            f"{one.get('first_render_ms', ''):>11}"
        )


if __name__ == "__main__":
    raise SystemExit(main())
