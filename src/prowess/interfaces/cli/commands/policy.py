"""`prowess policy`: what the organization has decided about its skills."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from prowess.interfaces.cli.groups import hand_down
from prowess.interfaces.cli.opening import common_options, with_engine

if TYPE_CHECKING:
    from prowess.build.opening import Prowess
    from prowess.policy.organization import OrgPolicy


@click.group("policy", invoke_without_command=True)
@common_options
@click.pass_context
def command(ctx: click.Context, workspace: str | None, as_json: bool) -> None:
    """Show the policy: when skills may be enabled, by whom, and how much of a prompt they may take."""
    if not hand_down(ctx, workspace, as_json=as_json):
        _show(with_engine(workspace, lambda prowess: prowess.policy()), as_json=as_json)


@command.command("set")
@click.argument("name")
@click.argument("value")
@common_options
def put(name: str, value: str, workspace: str | None, as_json: bool) -> None:
    """Change one setting, such as `prowess policy set skill_enablement_policy prompt-user`.

    A VALUE that is JSON counts as such: a number, true or false, or an object of roles.
    """
    _change(name, _value(value), workspace, as_json=as_json)


@command.command("reset")
@click.argument("name")
@common_options
def reset(name: str, workspace: str | None, as_json: bool) -> None:
    """Go back to the default of one setting."""
    _change(name, None, workspace, as_json=as_json)


@command.command("roles")
@common_options
def roles(workspace: str | None, as_json: bool) -> None:
    """Show the roles: which tools and actions each has, and for which skills."""
    from prowess.interfaces.cli.printing import one_line, print_json, print_table
    from prowess.policy.roles import role_names, role_of

    policy = with_engine(workspace, lambda prowess: prowess.policy())
    found = [role_of(name, policy) for name in role_names(policy)]
    if as_json:
        print_json([asdict(role) for role in found])
        return
    rows = [
        (one_line(role.name), ", ".join(role.actions), ", ".join(role.skill_tags) or "all", one_line(role.description))
        for role in found
    ]
    print_table(("role", "actions", "skills tagged", "description"), rows, flexible=3)


def _change(name: str, value: Any, workspace: str | None, *, as_json: bool) -> None:
    from prowess.interfaces.cli.printing import one_line

    async def work(prowess: Prowess) -> tuple[OrgPolicy, OrgPolicy]:
        return await prowess.policy(), await prowess.set_policy(name, value)

    before, after = with_engine(workspace, work)
    if as_json:
        _show(after, as_json=True)
        return
    was, now = (one_line(_shown(getattr(policy, name)), 200) for policy in (before, after))
    click.echo(f"{name} is {now}." if was == now else f"{name} is {now}; it was {was}.")


def _value(text: str) -> Any:
    """JSON where it is JSON, else the word itself; no word stands for the default."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text if value is None else value


def _show(policy: OrgPolicy, *, as_json: bool) -> None:
    from prowess.interfaces.cli.printing import one_line, print_json, print_table
    from prowess.policy.organization import OrgPolicy

    values, defaults = asdict(policy), asdict(OrgPolicy())
    faults = values.pop("faults")
    if as_json:
        print_json(values)
        return
    rows = [
        (name, one_line(_shown(value)), "" if value == defaults[name] else one_line(_shown(defaults[name])))
        for name, value in values.items()
    ]
    print_table(("setting", "value", "default, where it is another"), rows, flexible=1)
    for name in faults:
        click.echo(
            f"{name} cannot be read and has its strictest value; `prowess policy reset {name}` mends it.", err=True
        )


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
