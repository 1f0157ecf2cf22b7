"""`prowess policy`, `switch` and `env`: the organization's policy, its skills that are off, and the variables they may read."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from prowess.interfaces.cli.engine import Cli, common_options
from prowess.interfaces.cli.options import command, delegate_to_subcommand, group
from prowess.interfaces.cli.output import clean, one_line, print_json, print_table
from prowess.interfaces.cli.run_attempt import ENV_STATES
from prowess.skill.json_values import json_value

if TYPE_CHECKING:
    from prowess.open import Prowess
    from prowess.policy.organization import OrgPolicy


@group(
    "policy",
    "prowess policy",
    "prowess policy set skill_enablement_policy prompt-user",
    invoke_without_command=True,
)
@common_options
def policy_command(cli: Cli) -> None:
    """Show the policy: who may enable and run skills, and how much of a prompt skills may use."""
    if not delegate_to_subcommand(cli):
        _print_policy(cli.call(lambda prowess: prowess.policy.get(), quick=True), cli)


@policy_command.subcommand(
    "set", "prowess policy set skill_enablement_policy prompt-user", "prowess policy set skills_max_prompt_chars 32000"
)
@click.argument("name")
@click.argument("value")
@common_options
def set_setting(name: str, value: str, cli: Cli) -> None:
    """Change one setting.

    VALUE is parsed as JSON if possible: a number, true or false, a list or an object. Otherwise it is text.
    """
    _change_setting(name, _parse_value(value), cli)


@policy_command.subcommand(
    "reset", "prowess policy reset skill_enablement_policy", "prowess policy reset skills_max_prompt_chars --json"
)
@click.argument("name")
@common_options
def reset_setting(name: str, cli: Cli) -> None:
    """Restore the default of one setting."""
    _change_setting(name, None, cli)


@policy_command.subcommand("roles", "prowess policy roles", "prowess policy roles --json")
@common_options
def list_roles(cli: Cli) -> None:
    """List the roles, with the actions that each allows and on which skills."""
    from prowess.policy.roles import find_role, role_names

    policy = cli.call(lambda prowess: prowess.policy.get(), quick=True)
    found = [find_role(name, policy) for name in role_names(policy)]
    if cli.as_json:
        print_json(found)
        return
    rows = [
        (one_line(role.name), ", ".join(role.actions), ", ".join(role.skill_tags) or "all", one_line(role.description))
        for role in found
    ]
    print_table(("role", "actions", "skills tagged", "description"), rows, flexible=3)


def _change_setting(name: str, value: Any, cli: Cli) -> None:

    async def work(prowess: Prowess) -> tuple[OrgPolicy, OrgPolicy]:
        return await prowess.policy.get(), await prowess.policy.set(name, value)

    before, after = cli.call(work)
    if cli.as_json:
        _print_policy(after, cli)
        return
    was, now = (one_line(_format_value(getattr(policy, name)), 200) for policy in (before, after))
    click.echo(f"{name} is already {now}." if was == now else f"Set {name} to {now} (was {was}).")


def _parse_value(text: str) -> Any:
    """Parse a value as JSON, or return the text if it is not JSON. `null` stays text: only `reset` sets the default."""
    value = json_value(text)
    return text if value is None else value


def _print_policy(policy: OrgPolicy, cli: Cli) -> None:
    from prowess.policy.organization import OrgPolicy

    values, defaults = asdict(policy), asdict(OrgPolicy())
    faults = values.pop("faults")
    if cli.as_json:
        print_json(values)
        return
    rows = [
        (
            name,
            one_line(_format_value(value)),
            "" if value == defaults[name] else one_line(_format_value(defaults[name])),
        )
        for name, value in values.items()
    ]
    print_table(("setting", "value", "default, if different"), rows, flexible=1)
    for name in faults:
        click.echo(
            f"{name} is unreadable, so its strictest value applies. Run `prowess policy reset {name}` to fix it.",
            err=True,
        )


def _format_value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@group("env", "prowess env", "prowess env allow my-skill GITHUB_TOKEN", default="list")
def env_command() -> None:
    """Show which environment variables skills may read, and allow or forbid one.

    Values are never shown.
    """


@env_command.subcommand("list", "prowess env list", "prowess env list my-skill")
@click.argument("slug", required=False, default="")
@common_options
def list_env(slug: str, cli: Cli) -> None:
    """List the allowed variables; with a SLUG, also those that the skill requests."""
    nothing = "No skill may read environment variables. `prowess env list SLUG` shows what a skill requests."
    cli.print_table(
        cli.call(lambda prowess: prowess.env.list(slug), quick=True),
        ("skill", "name", "state"),
        lambda row: (row.slug, row.name, ENV_STATES[row.state]),
        flexible=2,
        empty=f"{clean(slug)} requests no environment variables." if slug else nothing,
    )


@env_command.subcommand(
    "allow", "prowess env allow my-skill GITHUB_TOKEN", "prowess env allow my-skill GITHUB_TOKEN --json"
)
@click.argument("slug")
@click.argument("name")
@common_options
def allow_env(slug: str, name: str, cli: Cli) -> None:
    """Allow a skill, exactly as it is now, to read a variable.

    If the skill changes, you have to allow it again.
    """
    grant = cli.call(lambda prowess: prowess.env.allow(slug, name))
    if cli.as_json:
        print_json(grant)
    else:
        click.echo(f"{grant.slug} may now read {grant.name}, until its files change.")
        if grant.state == "unset":
            click.echo(f"{grant.name} is not set in this environment.", err=True)


@env_command.subcommand(
    "forbid", "prowess env forbid my-skill GITHUB_TOKEN", "prowess env forbid my-skill GITHUB_TOKEN --json"
)
@click.argument("slug")
@click.argument("name")
@common_options
def forbid_env(slug: str, name: str, cli: Cli) -> None:
    """Stop allowing a skill to read a variable."""
    cli.call(lambda prowess: prowess.env.forbid(slug, name))
    cli.print({"slug": slug, "name": name, "state": "forbidden"}, f"{clean(slug)} may no longer read {clean(name)}.")


@command("switch", "prowess switch", "prowess switch off my-skill", "prowess switch on my-skill other-skill")
@click.argument("words", nargs=-1, metavar="[on|off SLUG...]")
@common_options
def switch_command(words: tuple[str, ...], cli: Cli) -> None:
    """Switch skills off for the whole organization, or on again; without arguments, list those that are off.

    Nobody can find, enable, load or run a skill that is off, and it is removed from every prompt. Its files stay where they are.
    Only an administrator can do this.
    """
    if not words:
        _list_switched_off(cli)
        return
    # `switch my-skill off` means the same.
    state, *slugs = words if words[0] in ("on", "off") else (words[-1], *words[:-1])
    if state not in ("on", "off") or not slugs:
        raise click.UsageError("Name the skills to switch: `prowess switch off SLUG`, or `prowess switch on SLUG`.")

    async def work(prowess: Prowess) -> OrgPolicy:
        return await prowess.policy.switch(*slugs, on=state == "on")

    policy = cli.call(work)
    off = list(policy.disabled_skills or ())
    if cli.as_json:
        print_json({"disabled_skills": off})
        return
    click.echo(f"Switched {state}: {', '.join(one_line(slug, 48) for slug in slugs)}.")
    if state == "off":
        click.echo(f"To switch it on again, run `prowess switch on {one_line(slugs[0], 48)}`.")


def _list_switched_off(cli: Cli) -> None:
    policy = cli.call(lambda prowess: prowess.policy.get(), quick=True)
    off = list(policy.disabled_skills or ())
    unknown = "The list of skills that are off is unreadable, so all skills count as off. `prowess policy reset disabled_skills` fixes it."
    nothing = unknown if policy.disabled_skills is None else "No skill is switched off."
    cli.print({"disabled_skills": off}, "\n".join(map(one_line, off)) or nothing)
