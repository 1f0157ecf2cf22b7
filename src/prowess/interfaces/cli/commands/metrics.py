"""`prowess metrics`: the metrics for Prometheus, printed or written to a file."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from prowess.interfaces.cli.opening import common_options, with_engine


@click.command("metrics")
@click.option("--output", "-o", type=click.Path(path_type=Path), metavar="FILE", help="Write this file, in one step.")
@common_options
def command(output: Path | None, workspace: str | None, as_json: bool) -> None:
    """Print the metrics in Prometheus's text format, or write them to a file for its textfile collector.

    They are made from the records: how often skills were loaded, how long that took, what the gate decided.
    """
    from prowess.interfaces.cli.printing import print_json

    text = with_engine(workspace, lambda prowess: prowess.metrics())
    if output is not None:
        _write(output, text)
    if as_json:
        print_json(_samples(text))
    elif output is None:
        sys.stdout.buffer.write(text)


def _write(output: Path, text: bytes) -> None:
    from prowess.storage.atomic import write_file

    write_file(output, text)


def _samples(text: bytes) -> list[dict[str, object]]:
    """Every sample, read back from the text."""
    from prometheus_client.parser import text_string_to_metric_families

    return [
        {"name": sample.name, "labels": sample.labels, "value": sample.value}
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    ]
