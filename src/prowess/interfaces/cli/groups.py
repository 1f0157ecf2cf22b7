"""Commands that do something themselves and have further commands below them."""

from __future__ import annotations

import click


def hand_down(ctx: click.Context, workspace: str | None, *, as_json: bool) -> bool:
    """Whether a further command is named; then what was given before its name counts for it as well."""
    if ctx.invoked_subcommand is None:
        return False
    given = {"workspace": workspace, "as_json": as_json or None}
    ctx.default_map = {ctx.invoked_subcommand: {name: value for name, value in given.items() if value is not None}}
    return True
