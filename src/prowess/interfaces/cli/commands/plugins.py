"""`prowess plugins`: what is installed beside Prowess, what it brings, and what is broken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from prowess.interfaces.cli.opening import common_options

if TYPE_CHECKING:
    from prowess.plugins import Installed


@click.command("plugins")
@common_options
def command(workspace: str | None, as_json: bool) -> None:  # noqa: ARG001  (plugins are the same in every workspace)
    """Show the installed plugins, what each brings, and what is wrong with those that are skipped."""
    from prowess.interfaces.cli.printing import print_json
    from prowess.plugins import installed

    found = installed()
    if as_json:
        print_json([_as_object(one) for one in found])
    else:
        _show(found)


def _as_object(one: Installed) -> dict[str, Any]:
    plugin = one.plugin
    return {
        "name": one.name,
        "distribution": one.distribution,
        "version": one.version,
        "ok": plugin is not None,
        "packs": [str(pack) for pack in plugin.packs] if plugin else [],
        "stores": [{"scope": store.scope, "location": store.location} for store in plugin.stores] if plugin else [],
        "handlers": [handler.kind for handler in plugin.handlers] if plugin else [],
        "problem": one.problem,
    }


def _show(found: tuple[Installed, ...]) -> None:
    from prowess.interfaces.cli.printing import one_line, print_table

    if not found:
        click.echo(
            "No plugins are installed. A package brings skills or handlers along by the entry point prowess.plugins."
        )
        return
    rows = [
        (one_line(one.name, 40), one_line(one.distribution, 40), one_line(one.version, 16), one_line(_told(one)))
        for one in found
    ]
    print_table(("name", "distribution", "version", "brings"), rows, flexible=3)
    broken = sum(one.plugin is None for one in found)
    click.echo(f"\n{len(found)} plugin{'s' * (len(found) != 1)}, {broken} skipped.")


def _told(one: Installed) -> str:
    return f"skipped: {one.problem}" if one.plugin is None else one.brings
