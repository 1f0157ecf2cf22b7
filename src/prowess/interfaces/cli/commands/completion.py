"""`prowess completion`: print a completion script for a shell."""

from __future__ import annotations

import click

from prowess.interfaces.cli.options import command

SHELLS = ("bash", "zsh", "fish")


@command(
    "completion",
    'eval "$(prowess completion bash)"',
    "prowess completion zsh > ~/.zfunc/_prowess",
    "prowess completion fish > ~/.config/fish/completions/prowess.fish",
)
@click.argument("shell", type=click.Choice(SHELLS))
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
