"""`prowess sync`: push a person's own skills to a location, and pull them on another device."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from prowess.interfaces.cli.engine import common_options, spinner, with_engine
from prowess.interfaces.cli.options import group
from prowess.interfaces.cli.output import clean, escape_path, one_line, print_json, print_table

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

    LOCATION is a folder, a git address such as git@host:me/skills.git, or s3://BUCKET/PREFIX. It is needed once. Skills of
    the account and of this workspace are synced; skills that come from a source come to each device from there.
    """


@sync_command.command(
    "push",
    examples=(
        "prowess sync push ~/Dropbox/prowess",
        "prowess sync push git@github.com:me/my-skills.git",
        "prowess sync push s3://my-bucket/prowess",
    ),
)
@_location_options
@common_options
def push(location: str, name: str, workspace: str | None, as_json: bool) -> None:
    """Store the skills of this device at LOCATION.

    The first push creates a key, which only you have: a location that was pushed to with another key belongs to someone else.
    """
    with spinner("Pushing …"):
        result = with_engine(workspace, lambda prowess: prowess.devices.push(location, name=name))
    if as_json or not _print_changes(result, as_json=as_json):
        _finish(result, "Nothing to push", as_json=as_json)
    if result.new_key and not as_json:
        click.echo("A sync key was created. Run `prowess sync key` to copy it to your other devices.")


@sync_command.command(
    "pull",
    examples=("prowess sync pull ~/Dropbox/prowess", "prowess sync pull", "prowess sync pull --theirs release-notes"),
)
@_location_options
@click.option("--theirs", multiple=True, metavar="SLUG", help="Resolve a conflict: take the skill from LOCATION.")
@click.option("--mine", multiple=True, metavar="SLUG", help="Resolve a conflict: keep the skill of this device.")
@common_options
def pull(
    location: str,
    name: str,
    theirs: tuple[str, ...],
    mine: tuple[str, ...],
    workspace: str | None,
    as_json: bool,
) -> None:
    """Take over what your other devices have pushed to LOCATION.

    A skill that has changed on both sides stays as it is, and the differences are shown. What a pull replaces or deletes
    stays an earlier version: `prowess history SLUG` lists them.
    """
    with spinner("Pulling …"):
        result = with_engine(
            workspace, lambda prowess: prowess.devices.pull(location, name=name, theirs=theirs, mine=mine)
        )
    if as_json or not _print_changes(result, as_json=as_json):
        _finish(result, "Nothing to pull", as_json=as_json)
    if result.with_outcome("conflict") or result.with_outcome("failed"):
        raise click.exceptions.Exit(1)


@sync_command.command("status", examples=("prowess sync status", "prowess sync status ~/Dropbox/prowess --json"))
@_location_options
@common_options
def status(location: str, name: str, workspace: str | None, as_json: bool) -> None:
    """Show what differs between this device and LOCATION. Changes nothing."""
    with spinner("Comparing …"):
        result = with_engine(workspace, lambda prowess: prowess.devices.status(location, name=name))
    if as_json or not _print_changes(result, as_json=as_json):
        _finish(result, "Nothing differs", as_json=as_json)


@sync_command.command("key", examples=("prowess sync key", "prowess sync key --set"))
@click.option(
    "--set", "to_set", is_flag=True, help="Use the key of another device. It is asked for, or read from stdin."
)
@common_options
def key(to_set: bool, workspace: str | None, as_json: bool) -> None:
    """Show the key of your sync locations, or set it on another device.

    The key, with write access to a location, decides what your devices accept. Keep it like a password.
    """
    if to_set:
        given: str = click.prompt("Sync key", hide_input=True) if sys.stdin.isatty() else sys.stdin.readline(1_000)
        with_engine(workspace, lambda prowess: prowess.devices.set_key(given))
        if as_json:
            print_json({"set": True})
        else:
            click.echo("Saved the sync key.")
        return
    found = with_engine(workspace, lambda prowess: prowess.devices.key())
    if as_json:
        print_json({"key": found})
    else:
        click.echo(found)


def _finish(result: DeviceSync, nothing: str, *, as_json: bool) -> None:
    if as_json:
        print_json(result)
        return
    count = f"{result.skills} skill{'' if result.skills == 1 else 's'}"
    click.echo(f"{nothing}: {count} the same here and at {escape_path(result.location)}.")


def _print_changes(result: DeviceSync, *, as_json: bool) -> bool:
    """Print the changes, and return True if there are any."""
    if as_json or not result.changes:
        return False
    rows = [(one_line(one.slug), one.scope, one.change, _describe_state(one)) for one in result.changes]
    print_table(("skill", "scope", "change", "state"), rows, flexible=3)
    if result.device:
        click.echo(
            f"{escape_path(result.location)}: last pushed from {one_line(result.device)}, {result.pushed_at[:16]}Z."
        )
    for one in result.with_outcome("conflict"):
        click.echo(f"\n{one_line(one.slug)} changed on both sides.")
        if one.diff:
            click.echo(clean(one.diff))
        click.echo(f"Run `prowess sync pull --theirs {one.slug}` or `prowess sync pull --mine {one.slug}`.")
    asked = [one for one in result.changes if one.outcome == "done" and one.side != "here" and one.change != "deleted"]
    if any(not one.accepted for one in asked):
        click.echo("Some skills were not accepted on the other device. Run `prowess trust` to review them.")
    return True


def _describe_state(one: DeviceChange) -> str:
    if one.error is not None:
        return one_line(f"failed: {one.error.message} {one.error.hint}")
    return _STATES.get((one.side, one.outcome), "conflict")
