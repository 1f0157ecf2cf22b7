"""`prowess doctor`: check that everything works here."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from prowess.interfaces.cli.opening import chosen_workspace, common_options, patience

if TYPE_CHECKING:
    from prowess.catalog.doctor import Finding

_MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "error": ("✗", "red")}


@click.command("doctor")
@common_options
def command(workspace: str | None, as_json: bool) -> None:
    """Check the set-up, the databases and every skill folder, and clear away what an interrupted write left."""
    from prowess.build.examining import examine
    from prowess.interfaces.cli.printing import clean, print_json, print_wrapped

    with patience("Looking at everything …"):
        findings = examine(workspace=chosen_workspace(workspace))
    worst = any(finding.status == "error" for finding in findings)
    if as_json:
        print_json({"ok": not worst, "checks": [asdict(finding) for finding in findings]})
    else:
        for finding in findings:
            mark, colour = _MARKS[finding.status]
            click.echo(click.style(mark, fg=colour), nl=False)
            print_wrapped(f" {clean(finding.name)}: {clean(finding.detail)}")
            if finding.hint:
                print_wrapped(clean(finding.hint), 4)
        click.echo(_verdict(findings))
    if worst:
        raise click.exceptions.Exit(1)


def _verdict(findings: list[Finding]) -> str:
    errors, warnings = (sum(finding.status == status for finding in findings) for status in ("error", "warning"))
    if errors:
        return f"{errors} of these must be mended."
    return f"Everything works; {warnings} of these deserve a look." if warnings else "All is well."
