"""`prowess sidecar`: the DSPy sidecar, where it is installed, and its templates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from prowess.interfaces.cli.engine import Cli, common_options, spinner
from prowess.interfaces.cli.options import group
from prowess.interfaces.cli.output import escape_path, one_line, print_json, print_table

if TYPE_CHECKING:
    from prowess.sidecar.environment import SidecarEnvironment
    from prowess.sidecar.protocol import Manifest


@group("sidecar", "prowess sidecar", "prowess sidecar install", default="status")
def sidecar_command() -> None:
    """Show, install or try the DSPy sidecar, which runs artifacts of the kind dspy_module."""


@sidecar_command.command("status", examples=("prowess sidecar status", "prowess sidecar status --json"))
@common_options
def show_status(cli: Cli) -> None:
    """Show whether the sidecar is installed, where, and its version of DSPy."""
    _print_status(_read_environment(cli), cli)


@sidecar_command.command("install", examples=("prowess sidecar install", "prowess sidecar install --json"))
@common_options
def install_sidecar(cli: Cli) -> None:
    """Install the sidecar now instead of at the first run: about 35 MB to download, 180 MB on disk."""
    environment = _read_environment(cli)
    with spinner("Installing …"):
        environment.ensure(lambda _: None, again=True)
    _print_status(environment, cli)


@sidecar_command.command("templates", examples=("prowess sidecar templates", "prowess sidecar templates --json"))
@common_options
def list_templates(cli: Cli) -> None:
    """List the templates that a dspy_module can name, with their options and default signatures."""
    import asyncio

    manifest = asyncio.run(_read_manifest(_read_environment(cli)))
    if cli.as_json:
        print_json({"dspy": manifest.dspy, "templates": manifest.templates, "optimizers": list(manifest.optimizers)})
        return
    rows = [
        (one_line(name), one_line(_options(template)), one_line(str(template.get("description", ""))))
        for name, template in manifest.templates.items()
    ]
    print_table(("template", "options", "what it does"), rows)


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
    from prowess.settings import read_settings

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
