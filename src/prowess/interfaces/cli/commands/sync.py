"""`prowess sync`: push a person's own skills to a location, and pull them on another device."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from prowess.interfaces.cli.engine import Cli, common_options, spinner
from prowess.interfaces.cli.options import group
from prowess.interfaces.cli.output import clean, escape_path, one_line, print_table

if TYPE_CHECKING:
    from prowess.engine.device_bundle import DeviceChange, DeviceSync

F = TypeVar("F", bound=Callable[..., Any])

_STATES = {
    ("here", "pending"): "to push",
    ("there", "pending"): "to pull",
    ("here", "done"): "pushed",
    ("there", "done"): "pulled",
    ("both", "done"): "pulled",
}


def _location_options(function: F) -> F:
    """Add the location, and the name of the workspace there."""
    function = click.option(
        "--name",
        default="",
        metavar="NAME",
        help="Name of this workspace at the location (default: its folder's name).",
    )(function)
    return click.argument("location", default="", required=False)(function)


@group("sync", "prowess sync push ~/Dropbox/prowess", "prowess sync pull", "prowess sync status")
def sync_command() -> None:
    """Keep your own skills the same on all your devices, through a folder, a git repository or a bucket.

    LOCATION is a folder, a git address such as git@host:me/skills.git, or s3://BUCKET/PREFIX. You give it once. Skills of
    the account and of this workspace are synced; skills that come from a source are not, because each device syncs them
    from there.
    """


@sync_command.subcommand(
    "push",
    "prowess sync push ~/Dropbox/prowess",
    "prowess sync push git@github.com:me/my-skills.git",
    "prowess sync push s3://my-bucket/prowess",
)
@_location_options
@common_options
def push(location: str, name: str, cli: Cli) -> None:
    """Store the skills of this device at LOCATION.

    The first push creates a key that only you have. A push to a location that was written with another key is refused.
    """
    with spinner("Pushing …"):
        result = cli.call(lambda prowess: prowess.devices.push(location, name=name))
    _report(result, "Nothing to push", cli)
    if result.new_key and not cli.as_json:
        click.echo("A sync key was created. Run `prowess sync key` to copy it to your other devices.")


@sync_command.subcommand(
    "pull", "prowess sync pull ~/Dropbox/prowess", "prowess sync pull", "prowess sync pull --theirs release-notes"
)
@_location_options
@click.option("--theirs", multiple=True, metavar="SLUG", help="Resolve a conflict: take the skill from LOCATION.")
@click.option("--mine", multiple=True, metavar="SLUG", help="Resolve a conflict: keep the skill of this device.")
@common_options
def pull(location: str, name: str, theirs: tuple[str, ...], mine: tuple[str, ...], cli: Cli) -> None:
    """Apply the changes that your other devices have pushed to LOCATION.

    A skill that has changed on both sides stays as it is, and the differences are shown. If a pull replaces or deletes a
    skill, its content is kept as an earlier version: `prowess history SLUG` lists them.
    """
    with spinner("Pulling …"):
        result = cli.call(lambda prowess: prowess.devices.pull(location, name=name, theirs=theirs, mine=mine))
    _report(result, "Nothing to pull", cli)
    if result.with_outcome("conflict") or result.with_outcome("failed"):
        raise click.exceptions.Exit(1)


@sync_command.subcommand("status", "prowess sync status", "prowess sync status ~/Dropbox/prowess --json")
@_location_options
@common_options
def status(location: str, name: str, cli: Cli) -> None:
    """Show what differs between this device and LOCATION. Changes nothing."""
    with spinner("Comparing …"):
        result = cli.call(lambda prowess: prowess.devices.status(location, name=name))
    _report(result, "Nothing differs", cli)


@sync_command.subcommand("key", "prowess sync key", "prowess sync key --set")
@click.option(
    "--set", "to_set", is_flag=True, help="Use the key of another device. Prowess asks for it, or reads it from stdin."
)
@common_options
def key(to_set: bool, cli: Cli) -> None:
    """Show the key of your sync locations, or set it on another device.

    Anyone with the key and write access to a location can change what your devices accept. Treat it like a password.
    """
    if to_set:
        typed: str = click.prompt("Sync key", hide_input=True) if sys.stdin.isatty() else sys.stdin.readline(1_000)
        cli.call(lambda prowess: prowess.devices.set_key(typed))
        cli.print({"set": True}, "Saved the sync key.")
        return
    found = cli.call(lambda prowess: prowess.devices.key())
    cli.print({"key": found}, found)


def _report(result: DeviceSync, nothing: str, cli: Cli) -> None:
    """Print a result. `nothing` says that there are no changes."""
    count = f"{result.skills} skill{'' if result.skills == 1 else 's'}"
    same = f"{nothing}: {count} the same here and at {escape_path(result.location)}."
    cli.print(result, (lambda: _print_changes(result)) if result.changes else same)
    if result.unknown_workspace:
        click.echo(
            f"Nothing was pushed for the workspace {result.unknown_workspace!r}. If its folder has another name on your other "
            "device, add --name NAME.",
            err=True,
        )


def _print_changes(result: DeviceSync) -> None:
    rows = [(one_line(change.slug), change.scope, change.change, _describe_state(change)) for change in result.changes]
    print_table(("skill", "scope", "change", "state"), rows, flexible=3)
    if result.device:
        click.echo(
            f"{escape_path(result.location)}: last pushed from {one_line(result.device)}, {result.pushed_at[:16]}Z."
        )
    for change in result.with_outcome("conflict"):
        click.echo(f"\n{one_line(change.slug)} changed on both sides.")
        if change.diff:
            click.echo(clean(change.diff))
        click.echo(f"Run `prowess sync pull --theirs {change.slug}` or `prowess sync pull --mine {change.slug}`.")
    taken = [row for row in result.changes if row.outcome == "done" and row.side != "here" and row.change != "deleted"]
    if any(not change.accepted for change in taken):
        click.echo("Some skills were not accepted on the other device. Run `prowess trust` to review them.")


def _describe_state(change: DeviceChange) -> str:
    if change.error is not None:
        return one_line(f"failed: {change.error.message} {change.error.hint}")
    return _STATES.get((change.side, change.outcome), "conflict")
