"""`prowess doctor`: check that everything works here."""

from __future__ import annotations

from dataclasses import asdict

import click

from prowess.interfaces.cli.opening import common_options, patience

_MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "error": ("✗", "red")}


@click.command("doctor")
@common_options
def command(workspace: str | None, as_json: bool) -> None:
    """Check the set-up, the databases and every skill folder, and clear away what an interrupted write left."""
    from prowess.build import examine
    from prowess.interfaces.cli.printing import clean, print_json

    with patience("Looking at everything …"):
        findings = examine(workspace=workspace or click.get_current_context().find_root().obj)
    worst = any(finding.status == "error" for finding in findings)
    if as_json:
        print_json({"ok": not worst, "checks": [asdict(finding) for finding in findings]})
    else:
        for finding in findings:
            mark, colour = _MARKS[finding.status]
            click.echo(f"{click.style(mark, fg=colour)} {finding.name}: {clean(finding.detail)}")
            if finding.hint:
                click.echo(f"    {clean(finding.hint)}")
        click.echo("Something needs your attention." if worst else "All is well.")
    if worst:
        raise click.exceptions.Exit(1)
