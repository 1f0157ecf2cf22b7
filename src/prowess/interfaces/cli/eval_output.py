"""Print evaluations: the figures of each arm, the differences, and the cases that failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from prowess.errors import Problem
from prowess.interfaces.cli.error_output import print_problems
from prowess.interfaces.cli.output import format_cost, format_duration, one_line, print_table, print_wrapped

if TYPE_CHECKING:
    from prowess.authoring.evals.results import CaseResult, EvalRun

MAX_FAILED_CASES = 20
"""The most failed cases that are printed."""

_COLOURS = {"better": "green", "worse": "red"}


def print_run(run: EvalRun) -> None:
    """Print the figures of a run, then what failed, then what to do next."""
    summary: dict[str, Any] = run.summary or {"arms": [], "comparisons": []}
    print_problems([Problem(**told) for told in summary.get("problems", ())], indent=0)
    rows = [
        (
            one_line(run.label(place), 60),
            f"{one['passed']}/{one['passed'] + one['failed']}" + (f" +{one['errors']} errors" if one["errors"] else ""),
            _with_range(one["pass_rate"], percent=True),
            "-" if one["score"]["mean"] is None else f"{one['score']['mean']:.2f}",
            format_duration(None if one["seconds"]["mean"] is None else round(one["seconds"]["mean"] * 1000)),
            format_cost(one["total_cost_usd"]),
        )
        for place, one in enumerate(summary["arms"])
    ]
    print_table(("", "passed", "pass rate (95 %)", "score", "time", "cost"), rows, flexible=0)
    if summary["comparisons"]:
        click.echo("")
    print_comparisons((run.label(one["after"]), run.label(one["before"]), one) for one in summary["comparisons"])
    wrong = [one for one in run.results if run.arms[one.arm].kind == "skill" and not one.passed]
    _print_failures(run, wrong)
    asked = sum(not one.cached for one in run.results)
    note = (
        ""
        if asked == len(run.results)
        else f" {len(run.results) - asked} of {len(run.results)} answers came from the cache."
    )
    click.echo(f"\nRun {run.id[:8]}.{note} See it with `prowess eval report {run.id[:8]} --html report.html`.")


def print_comparisons(comparisons: Any) -> None:
    """Print the verdict of each comparison, given as the labels of after and before, and the figures."""
    for after, before, one in comparisons:
        verdict = click.style(one["verdict"], fg=_COLOURS.get(one["verdict"]), bold=True)
        score = one["score"]
        figures = "no case in common"
        if score["mean"] is not None:
            interval = "" if score["low"] is None else f" [{score['low']:+.2f}, {score['high']:+.2f}]"
            cases = f"{one['cases']} case{'s' if one['cases'] != 1 else ''}"
            figures = f"score {score['mean']:+.2f}{interval}, p {score['p']:.3f}, {cases}"
        click.echo(f"{one_line(after, 60)} against {one_line(before, 60)}: {verdict} ({figures})")


def _print_failures(run: EvalRun, wrong: Sequence[CaseResult]) -> None:
    several = sum(arm.kind == "skill" for arm in run.arms) > 1
    for one in wrong[:MAX_FAILED_CASES]:
        mark = click.style("!", fg="yellow") if one.passed is None else click.style("✗", fg="red")
        where = f"  {run.arms[one.arm].model}" if several else ""
        again = f" #{one.repeat}" if one.repeat > 1 else ""
        click.echo(f"\n{mark} {click.style(one_line(one.title or one.case, 80) + again, bold=True)}{where}")
        if one.error:
            print_wrapped(one_line(one.error, 300), 4)
        for verdict in one.verdicts:
            if not verdict["passed"] and not verdict["error"]:
                why = f": {verdict['evidence']}" if verdict["evidence"] else ""
                print_wrapped(one_line(f"{verdict['description']}{why}", 300), 4)
    if len(wrong) > MAX_FAILED_CASES:
        click.echo(f"\n… and {len(wrong) - MAX_FAILED_CASES} more; --json lists them all.")


def _with_range(interval: dict[str, float | None], *, percent: bool) -> str:
    mean, low, high = interval["mean"], interval["low"], interval["high"]
    if mean is None:
        return "-"
    show = "{:.0%}" if percent else "{:.2f}"
    around = "" if low is None or high is None else f" ({show.format(low)}-{show.format(high)})"
    return f"{show.format(mean)}{around}"
