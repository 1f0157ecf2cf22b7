"""`prowess stats` and `metrics`: figures about runs as a table, chart, CSV, JSON or Prometheus text."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from prowess.interfaces.cli.engine import Cli, common_options
from prowess.interfaces.cli.options import Period, command
from prowess.interfaces.cli.output import (
    draw_bar,
    format_cost,
    format_count,
    format_duration,
    format_percent,
    one_line,
    print_json,
    print_table,
)
from prowess.view import to_json

if TYPE_CHECKING:
    from prowess.storage.trace_stats import GroupBy
    from prowess.traces.report import Report, RunStats


GROUPINGS = ("skill", "artifact", "model", "user", "day")
CHART_FIGURES = (
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
_BAR_CELLS, _CHART_CELLS = 8, 40


@command("stats", "prowess stats", "prowess stats --by model --since 7d", "prowess stats --chart cost")
@click.option("--by", type=click.Choice(GROUPINGS), default="skill", show_default=True, help="How to group the runs.")
@click.option("--since", type=Period(), metavar="PERIOD", help="Only runs of this period, for example 7d or 12h.")
@click.option("--skill", default="", metavar="SLUG", help="Only runs of this skill.")
@click.option("--chart", type=click.Choice(CHART_FIGURES), help="Draw one figure as a bar chart.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV for spreadsheets.")
@common_options
def stats_command(by: GroupBy, since: float | None, skill: str, chart: str | None, as_csv: bool, cli: Cli) -> None:
    """Show runs by skill, artifact, model, user or day: failures, assertions, tokens, cost and duration."""
    if as_csv + cli.as_json + bool(chart) > 1:
        raise click.UsageError("--chart, --csv and --json cannot be combined.")
    report = cli.call(lambda prowess: prowess.traces.stats(by, skill=skill, days=since), quick=True)
    if cli.as_json:
        print_json(report)
    elif as_csv:
        _print_csv(report)
    elif not report.rows:
        click.echo("No matching runs." if since or skill else "No runs yet. `prowess run SLUG` runs a skill.")
    elif chart:
        _print_chart(report, chart)
    else:
        _print_table(report)


def _print_table(report: Report) -> None:
    most = max(row.runs for row in report.rows)
    wide = len(format_count(report.total.runs))

    def cells(row: RunStats, drawn: str) -> tuple[str, ...]:
        return (
            _row_name(row),
            f"{format_count(row.runs):>{wide}} {drawn}".rstrip(),
            format_percent(row.failure_rate),
            format_percent(row.assertion_rate),
            f"{format_count(row.input_tokens)} / {format_count(row.output_tokens)}",
            format_cost(row.cost),
            *(format_duration(time) for time in (row.p50_ms, row.p95_ms, row.p99_ms)),
        )

    head = (report.by, "runs", "failed", "assertions", "tokens in / out", "cost", "p50", "p95", "p99")
    rows = [cells(row, draw_bar(row.runs / most, _BAR_CELLS)) for row in report.rows]
    if len(rows) > 1:
        rows.append(cells(report.total, ""))
    print_table(head, rows, flexible=0, optional=("p99", "tokens in / out", "p50"))


def _print_chart(report: Report, figure: str) -> None:
    values = [getattr(row, figure) for row in report.rows]
    most = 1.0 if figure.endswith("_rate") else max((value for value in values if value), default=0) or 1
    rows = [
        (_row_name(row), draw_bar((value or 0) / most, _CHART_CELLS), _format_figure(figure, value))
        for row, value in zip(report.rows, values, strict=True)
    ]
    print_table((report.by, figure, ""), rows, flexible=0)


def _format_figure(figure: str, value: float | None) -> str:
    if figure.endswith("_rate"):
        return format_percent(value)
    if figure == "cost":
        return format_cost(value)
    whole = None if value is None else int(value)
    return format_duration(whole) if figure.endswith("_ms") else format_count(whole)


def _print_csv(report: Report) -> None:
    import csv

    from prowess.traces.report import REPORT_FIELDS

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow((report.by, *REPORT_FIELDS[1:]))
    for row in report.rows:
        fields = to_json(row)
        writer.writerow((_row_name(row), *("" if fields[name] is None else fields[name] for name in REPORT_FIELDS[1:])))


def _row_name(row: RunStats) -> str:
    return one_line(row.name) or "none"


@command("metrics", "prowess metrics", "prowess metrics --output /var/lib/node_exporter/prowess.prom")
@click.option("--output", "-o", type=click.Path(path_type=Path), metavar="FILE", help="Write to this file, atomically.")
@common_options
def metrics_command(output: Path | None, cli: Cli) -> None:
    """Print metrics in the Prometheus text format, or write them to a file for the textfile collector.

    They include how often skills were loaded, how long that took, and how the policy decided.
    """
    text = cli.call(lambda prowess: prowess.events.metrics())
    if output is not None:
        from prowess.storage.files.atomic_write import write_file

        write_file(output, text)
    if cli.as_json:
        print_json(_samples_json(text))
    elif output is None:
        sys.stdout.buffer.write(text)


def _samples_json(text: bytes) -> list[dict[str, object]]:
    """Parse Prometheus text and return every sample with its name, labels and value."""
    from prometheus_client.parser import text_string_to_metric_families

    return [
        {"name": sample.name, "labels": sample.labels, "value": sample.value}
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    ]
