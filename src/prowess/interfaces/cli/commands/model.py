"""`prowess model`: list the available models, and download one to this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from prowess.errors import Invalid
from prowess.interfaces.cli.engine import Cli, common_options, spinner
from prowess.interfaces.cli.error_output import adapt_install_commands
from prowess.interfaces.cli.options import group
from prowess.interfaces.cli.output import escape_path, one_line, print_json, print_table
from prowess.settings import read_settings

if TYPE_CHECKING:
    from prowess.llm.local import FetchableModel
    from prowess.llm.model import ModelConfig
    from prowess.llm.providers import Provider


@group("model", "prowess model", "prowess model fetch smollm2", default="list")
def model_command() -> None:
    """List the model providers, or download a model to run on this machine."""


@model_command.subcommand("list", "prowess model list", "prowess model list --json")
@common_options
def list_models(cli: Cli) -> None:
    """List the model providers, what each still needs, and the default model."""
    _print_models(_read_config(cli), cli)


@model_command.subcommand("fetch", "prowess model fetch smollm2", "prowess model fetch smollm2 --json")
@click.argument("name")
@common_options
def fetch_model(name: str, cli: Cli) -> None:
    """Download a model such as `smollm2`, verify it and keep it for `--model local:NAME`."""
    from prowess.llm.local import fetch_model, find_fetchable

    model = find_fetchable(name)
    with spinner(f"Downloading {model.bytes / 1e6:.0f} MB …"):
        file = fetch_model(model, _read_config(cli).home)
    cli.print(
        {"name": model.name, "model": f"local:{model.name}", "path": str(file), "sha256": model.sha256},
        f"Saved {escape_path(file)}. Use it with `prowess run SLUG --model local:{model.name}`.",
    )


def _read_config(cli: Cli) -> ModelConfig:
    from prowess.engine.runtime import make_model_config

    return make_model_config(read_settings(workspace=cli.workspace))


def _print_models(config: ModelConfig, cli: Cli) -> None:
    from prowess.llm.local import FETCHABLE
    from prowess.llm.providers import PROVIDERS

    if cli.as_json:
        print_json(
            {
                "model": config.default,
                "evaluation_model": config.evaluation or config.default,
                "providers": [_provider_json(provider, config) for provider in PROVIDERS.values()],
                "local": [_local_json(model, config) for model in FETCHABLE.values()],
                "faults": _config_faults(config),
            }
        )
        return
    rows = [row for provider in PROVIDERS.values() for row in _provider_rows(provider, config)]
    print_table(("model", "state"), rows)
    default = one_line(config.default, 100)
    click.echo(f"\nDefault model: {default or 'none. Set PROWESS_MODEL, or pass --model.'}")
    if config.evaluation:
        click.echo(f"Evaluation model: {one_line(config.evaluation, 100)}")
    for fault in _config_faults(config):
        click.echo(fault, err=True)


def _provider_rows(provider: Provider, config: ModelConfig) -> list[tuple[str, str]]:
    """Return one row per form of a provider's model names, with its state.

    Local models get one row for each that can be fetched, and one for a file.
    """
    needs = adapt_install_commands(provider.needs(config) or "")
    if provider.name != "local":
        return [(provider.form, needs or "ready")]
    from prowess.llm.local import FETCHABLE

    rows = [(f"local:{model.name}", needs or _local_state(model, config)) for model in FETCHABLE.values()]
    return [*rows, ("local:/path/to/model.gguf", needs or "ready")]


def _config_faults(config: ModelConfig) -> list[str]:
    """Return a message for each configured model name that is malformed."""
    from prowess.llm.models import Models

    found: list[str] = []
    for variable, name in (("PROWESS_MODEL", config.default), ("PROWESS_EVALUATION_MODEL", config.evaluation)):
        try:
            Models(config).check(name)
        except Invalid as error:
            found.append(f"{variable}: {error.message} {error.hint}")
    return found


def _local_state(model: FetchableModel, config: ModelConfig) -> str:
    return "ready" if model.file(config.home).is_file() else f"needs: {model.command}"


def _provider_json(provider: Provider, config: ModelConfig) -> dict[str, Any]:
    return {
        "name": provider.name,
        "form": provider.form,
        "extra": provider.extra,
        "installed": provider.installed,
        "key_variables": list(provider.keys),
        "has_key": provider.has_key(config),
        "needs": provider.needs(config),
    }


def _local_json(model: FetchableModel, config: ModelConfig) -> dict[str, Any]:
    file = model.file(config.home)
    return {
        "name": model.name,
        "model": f"local:{model.name}",
        "about": model.about,
        "bytes": model.bytes,
        "sha256": model.sha256,
        "path": str(file),
        "fetched": file.is_file(),
    }
