"""`prowess doctor`, `plugins`, `completion` and `sidecar`: check the installation, list its plugins, complete commands, and install DSPy."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prowess.interfaces.cli.engine import Cli, common_options, spinner
from prowess.interfaces.cli.error_output import adapt_install_commands
from prowess.interfaces.cli.options import command, group
from prowess.interfaces.cli.output import clean, escape_path, one_line, print_json, print_table, print_wrapped
from prowess.interfaces.cli.person import TYPED, require_person, token_option
from prowess.plugins import installed_plugins
from prowess.settings import read_settings
from prowess.view import plugin_json

if TYPE_CHECKING:
    from prowess.catalog.diagnosis import Finding
    from prowess.sidecar.environment import SidecarEnvironment
    from prowess.sidecar.protocol import Manifest


_MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "error": ("✗", "red")}


@command("doctor", "prowess doctor", "prowess doctor --index", "prowess doctor --json")
@click.option(
    "--adopt-database", is_flag=True, help="Use the database in this workspace, which another machine created."
)
@click.option("--index", is_flag=True, help="First update the match index and compute all missing vectors.")
@token_option
@common_options
def doctor_command(cli: Cli, adopt_database: bool, index: bool, token_file: Path | None) -> None:
    """Check the installation, the databases and every skill folder, and clean up after interrupted writes."""
    from prowess.engine.doctor import prepare_index, run_checks

    if adopt_database:
        _adopt_database(cli, token_file)
    if index:
        with spinner("Computing vectors …"):
            prepare_index(workspace=cli.workspace)
    with spinner("Checking …"):
        findings = run_checks(workspace=cli.workspace)
    has_errors = any(finding.status == "error" for finding in findings)
    if cli.as_json:
        print_json({"ok": not has_errors, "checks": findings})
    else:
        for finding in findings:
            mark, colour = _MARKS[finding.status]
            click.echo(click.style(mark, fg=colour), nl=False)
            print_wrapped(f" {clean(finding.name)}: {clean(finding.detail)}")
            if finding.hint:
                print_wrapped(clean(adapt_install_commands(finding.hint)), 4)
        click.echo(_summarize(findings))
    if has_errors:
        raise click.exceptions.Exit(1)


def _adopt_database(cli: Cli, token_file: Path | None) -> None:
    """Use the database of the workspace from now on, after a person has confirmed it."""
    from prowess.engine.doctor import adopt_database

    if require_person("adopt a database", token_file) is TYPED:
        question = (
            "Use the database that came with this workspace? You still have to accept its skills before they run."
        )
        click.confirm(question, abort=True)
    click.echo(f"Now using {adopt_database(cli.workspace)}.", err=True)


def _summarize(findings: list[Finding]) -> str:
    errors, warnings = (sum(finding.status == status for finding in findings) for status in ("error", "warning"))
    if errors:
        return f"{errors} error{'s' * (errors != 1)} to fix."
    return f"No errors, {warnings} warning{'s' * (warnings != 1)}." if warnings else "No problems found."


@command("plugins", "prowess plugins", "prowess plugins --json")
@common_options
def plugins_command(cli: Cli) -> None:
    """List the installed plugins, what each provides, and why any were skipped."""
    found = installed_plugins()
    has_table = cli.print_table(
        found,
        ("name", "distribution", "version", "provides"),
        lambda row: (
            one_line(row.name, 40),
            one_line(row.distribution, 40),
            one_line(row.version, 16),
            # A plugin that could not be loaded is still listed, so that its problem is visible.
            one_line(row.brings if row.plugin else f"skipped: {row.problem}"),
        ),
        flexible=3,
        empty="No plugins installed. A plugin is a Python package with the entry point `prowess.plugins`.",
        view=plugin_json,
    )
    if has_table:
        broken = sum(row.plugin is None for row in found)
        click.echo(f"\n{len(found)} plugin{'s' * (len(found) != 1)}, {broken} skipped.")


_SHELLS = ("bash", "zsh", "fish")


@command(
    "completion",
    'eval "$(prowess completion bash)"',
    "prowess completion zsh > ~/.zfunc/_prowess",
    "prowess completion fish > ~/.config/fish/completions/prowess.fish",
)
@click.argument("shell", type=click.Choice(_SHELLS), required=False)
def completion_command(shell: str | None) -> None:
    """Print a script that completes the commands and options of prowess, by default for the shell that you use.

    For bash, add `eval "$(prowess completion bash)"` to ~/.bashrc; for zsh, `eval "$(prowess completion zsh)"` to ~/.zshrc.
    For fish, save the script as ~/.config/fish/completions/prowess.fish.
    """
    from click.shell_completion import get_completion_class

    from prowess.interfaces.cli.main import cli

    shell = shell or Path(os.environ.get("SHELL", "")).name
    if shell not in _SHELLS:
        raise click.UsageError(f"Name the shell: {', '.join(_SHELLS)}.")
    completer = get_completion_class(shell)
    assert completer is not None  # noqa: S101  (click has all three)
    click.echo(completer(cli, {}, "prowess", "_PROWESS_COMPLETE").source())


@group("sidecar", "prowess sidecar", "prowess sidecar install", default="status")
def sidecar_command() -> None:
    """Show, install or try the DSPy sidecar, which runs artifacts of the kind dspy_module."""


@sidecar_command.subcommand("status", "prowess sidecar status", "prowess sidecar status --json")
@common_options
def show_status(cli: Cli) -> None:
    """Show whether the sidecar is installed, where, and its version of DSPy."""
    _print_status(_read_environment(cli), cli)


@sidecar_command.subcommand("install", "prowess sidecar install", "prowess sidecar install --json")
@common_options
def install_sidecar(cli: Cli) -> None:
    """Install the sidecar now instead of at the first run: about 35 MB to download, 180 MB on disk."""
    environment = _read_environment(cli)
    with spinner("Installing …"):
        environment.ensure(lambda _: None, again=True)
    _print_status(environment, cli)


@sidecar_command.subcommand("templates", "prowess sidecar templates", "prowess sidecar templates --json")
@common_options
def list_templates(cli: Cli) -> None:
    """List the templates that a dspy_module can name, with their options and default signatures."""
    import asyncio

    manifest = asyncio.run(_read_manifest(_read_environment(cli)))
    if cli.as_json:
        print_json({"dspy": manifest.dspy, "templates": manifest.templates, "optimizers": list(manifest.optimizers)})
        return
    rows = [
        (
            one_line(name),
            one_line(str(template.get("signature", ""))),
            one_line(_options(template)),
            one_line(str(template.get("description", ""))),
        )
        for name, template in manifest.templates.items()
    ]
    print_table(("template", "signature", "options", "what it does"), rows)


async def _read_manifest(environment: SidecarEnvironment) -> Manifest:
    from prowess.sidecar.process import ProcessSidecar

    def note(message: str) -> None:
        click.echo(message, err=True)

    sidecar = ProcessSidecar(lambda: environment.ensure(note))
    try:
        return await sidecar.manifest()
    finally:
        await sidecar.close()


def _options(template: dict[str, Any]) -> str:
    return ", ".join(template.get("options", {})) or "-"


def _read_environment(cli: Cli) -> SidecarEnvironment:
    from prowess.engine.runtime import make_sidecar_environment

    return make_sidecar_environment(read_settings(workspace=cli.workspace))


def _print_status(environment: SidecarEnvironment, cli: Cli) -> None:
    state = "off" if environment.is_off else "installed" if environment.find() else "not installed"
    failure = environment.failure if state == "not installed" else ""
    if cli.as_json:
        where = None if environment.is_off else str(environment.location)
        print_json({"state": state, "program": where, "dspy": environment.dspy, "failure": failure})
    elif state == "off":
        click.echo("Switched off. Fallbacks run instead of dspy_modules. Unset PROWESS_SIDECAR to use the sidecar.")
    elif state == "installed":
        click.echo(f"Installed at {escape_path(environment.location)}. It starts with the first run of a dspy_module.")
    else:
        click.echo(f"Not installed. {one_line(failure, 300)}".strip())
        click.echo("The first run of a dspy_module installs it, or run `prowess sidecar install` now.")
