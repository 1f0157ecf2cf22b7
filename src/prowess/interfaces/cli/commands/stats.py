"""`prowess stats`: how runs fare, as a table, a chart, CSV or JSON."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from prowess.interfaces.cli.opening import common_options, with_engine
from prowess.interfaces.cli.periods import Period

if TYPE_CHECKING:
    from prowess.storage.trace_figures import By
    from prowess.traces.reports import Figures, Report

GROUPINGS = ("skill", "artifact", "model", "day")
CHARTS = (
    "runs",
    "failure_rate",
    "assertion_rate",
    "input_tokens",
    "output_tokens",
    "cost",
    "p50_ms",
    "p95_ms",
    "p99_ms",
)
_BAR, _CHART = 8, 40


@click.command("stats")
@click.option("--by", type=click.Choice(GROUPINGS), default="skill", show_default=True, help="What to tell apart.")
@click.option("--since", type=Period(), metavar="PERIOD", help="Only runs of the last time, such as 7d or 12h.")
@click.option("--skill", default="", metavar="SLUG", help="Only runs of this skill.")
@click.option("--chart", type=click.Choice(CHARTS), help="Draw this figure as bars instead of the table.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV for spreadsheets.")
@common_options
def command(
    by: By, since: float | None, skill: str, chart: str | None, as_csv: bool, workspace: str | None, as_json: bool
) -> None:
    """Show how runs fare by skill, artifact, model or day: failures, assertions, tokens, cost and times."""
    from prowess.interfaces.cli.printing import print_json

    if as_csv + as_json + bool(chart) > 1:
        raise click.UsageError("Choose one of --chart, --csv and --json.")
    report = with_engine(workspace, lambda prowess: prowess.stats(by, skill=skill, days=since))
    if as_json:
        print_json(report.as_json())
    elif as_csv:
        _print_csv(report)
    elif not report.rows:
        click.echo("No run of the kind is on record." if since or skill else "No run is on record.")
    elif chart:
        _print_chart(report, chart)
    else:
        _print_table(report)


def _print_table(report: Report) -> None:
    from prowess.interfaces.cli.charts import bar
    from prowess.interfaces.cli.figures import count, money, share, taken
    from prowess.interfaces.cli.printing import print_table

    most = max(row.runs for row in report.rows)
    wide = len(count(report.total.runs))

    def cells(row: Figures, drawn: str) -> tuple[str, ...]:
        return (
            _name(row),
            f"{count(row.runs):>{wide}} {drawn}".rstrip(),
            share(row.failure_rate),
            share(row.assertion_rate),
            f"{count(row.input_tokens)} / {count(row.output_tokens)}",
            money(row.cost),
            *(taken(time) for time in (row.p50_ms, row.p95_ms, row.p99_ms)),
        )

    head = (report.by, "runs", "failed", "assertions", "tokens in / out", "cost", "p50", "p95", "p99")
    rows = [cells(row, bar(row.runs / most, _BAR)) for row in report.rows]
    if len(rows) > 1:
        rows.append(cells(report.total, ""))
    print_table(head, rows, flexible=0)


def _print_chart(report: Report, figure: str) -> None:
    from prowess.interfaces.cli.charts import bar
    from prowess.interfaces.cli.printing import print_table

    values = [getattr(row, figure) for row in report.rows]
    most = 1.0 if figure.endswith("_rate") else max((value for value in values if value), default=0) or 1
    rows = [
        (_name(row), bar((value or 0) / most, _CHART), _written(figure, value))
        for row, value in zip(report.rows, values, strict=True)
    ]
    print_table((report.by, figure, ""), rows, flexible=0)


def _written(figure: str, value: float | None) -> str:
    from prowess.interfaces.cli.figures import count, money, share, taken

    if figure.endswith("_rate"):
        return share(value)
    if figure == "cost":
        return money(value)
    whole = None if value is None else int(value)
    return taken(whole) if figure.endswith("_ms") else count(whole)


def _print_csv(report: Report) -> None:
    import csv

    from prowess.traces.reports import FIELDS

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow((report.by, *FIELDS[1:]))
    for row in report.rows:
        told = row.as_json()
        writer.writerow((_name(row), *("" if told[name] is None else told[name] for name in FIELDS[1:])))


def _name(row: Figures) -> str:
    from prowess.interfaces.cli.printing import one_line

    return one_line(row.name) or "none"
