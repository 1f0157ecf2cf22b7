"""`prowess doctor`, `plugins` and `completion`: check the installation, list its plugins, and complete commands in a shell."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from prowess.interfaces.cli.engine import choose_workspace, common_options, spinner
from prowess.interfaces.cli.options import command
from prowess.interfaces.cli.output import clean, one_line, print_json, print_table, print_wrapped
from prowess.interfaces.cli.person import TYPED, require_person, token_option
from prowess.view import plugin_json

if TYPE_CHECKING:
    from prowess.catalog.diagnosis import Finding
    from prowess.plugins import InstalledPlugin


_MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "error": ("✗", "red")}


@command("doctor", "prowess doctor", "prowess doctor --index", "prowess doctor --json")
@click.option(
    "--adopt-database", is_flag=True, help="Use the database in this workspace, which another machine created."
)
@click.option("--index", is_flag=True, help="First update the match index and compute all missing vectors.")
@token_option
@common_options
def doctor_command(
    workspace: str | None, as_json: bool, adopt_database: bool, index: bool, token_file: Path | None
) -> None:
    """Check the installation, the databases and every skill folder, and clean up after interrupted writes."""
    from prowess.engine.doctor import prepare_index, run_checks

    if adopt_database:
        _adopt_database(workspace, token_file)
    if index:
        with spinner("Computing vectors …"):
            prepare_index(workspace=choose_workspace(workspace))
    with spinner("Checking …"):
        findings = run_checks(workspace=choose_workspace(workspace))
    worst = any(finding.status == "error" for finding in findings)
    if as_json:
        print_json({"ok": not worst, "checks": findings})
    else:
        for finding in findings:
            mark, colour = _MARKS[finding.status]
            click.echo(click.style(mark, fg=colour), nl=False)
            print_wrapped(f" {clean(finding.name)}: {clean(finding.detail)}")
            if finding.hint:
                print_wrapped(clean(finding.hint), 4)
        click.echo(_summarize(findings))
    if worst:
        raise click.exceptions.Exit(1)


def _adopt_database(workspace: str | None, token_file: Path | None) -> None:
    """Use the database of the workspace from now on, after a person has confirmed it."""
    from prowess.engine.doctor import adopt_database

    if require_person("adopt a database", token_file) is TYPED:
        question = (
            "Use the database that came with this workspace? You still have to accept its skills before they run."
        )
        click.confirm(question, abort=True)
    click.echo(f"Now using {adopt_database(choose_workspace(workspace))}.", err=True)


def _summarize(findings: list[Finding]) -> str:
    errors, warnings = (sum(finding.status == status for finding in findings) for status in ("error", "warning"))
    if errors:
        return f"{errors} error{'s' * (errors != 1)} to fix."
    return f"No errors, {warnings} warning{'s' * (warnings != 1)}." if warnings else "No problems found."


@command("plugins", "prowess plugins", "prowess plugins --json")
@common_options
def plugins_command(workspace: str | None, as_json: bool) -> None:  # noqa: ARG001  (plugins are the same in every workspace)
    """List the installed plugins, what each provides, and why any were skipped."""
    from prowess.plugins import installed_plugins

    found = installed_plugins()
    if as_json:
        print_json([plugin_json(plugin) for plugin in found])
    else:
        _print_plugins(found)


def _print_plugins(found: tuple[InstalledPlugin, ...]) -> None:
    if not found:
        click.echo("No plugins installed. A plugin is a Python package with the entry point `prowess.plugins`.")
        return
    rows = [
        (
            one_line(one.name, 40),
            one_line(one.distribution, 40),
            one_line(one.version, 16),
            one_line(_describe_plugin(one)),
        )
        for one in found
    ]
    print_table(("name", "distribution", "version", "provides"), rows, flexible=3)
    broken = sum(one.plugin is None for one in found)
    click.echo(f"\n{len(found)} plugin{'s' * (len(found) != 1)}, {broken} skipped.")


def _describe_plugin(one: InstalledPlugin) -> str:
    # A plugin that could not be loaded is still listed, so that its problem is visible.
    return f"skipped: {one.problem}" if one.plugin is None else one.brings


@command(
    "completion",
    'eval "$(prowess completion bash)"',
    "prowess completion zsh > ~/.zfunc/_prowess",
    "prowess completion fish > ~/.config/fish/completions/prowess.fish",
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> None:
    """Print a script that completes the commands and options of prowess.

    For bash, add `eval "$(prowess completion bash)"` to ~/.bashrc; for zsh, `eval "$(prowess completion zsh)"` to ~/.zshrc.
    For fish, save the script as ~/.config/fish/completions/prowess.fish.
    """
    from click.shell_completion import get_completion_class

    from prowess.interfaces.cli.main import cli

    completer = get_completion_class(shell)
    assert completer is not None  # noqa: S101  (click has all three)
    click.echo(completer(cli, {}, "prowess", "_PROWESS_COMPLETE").source())
