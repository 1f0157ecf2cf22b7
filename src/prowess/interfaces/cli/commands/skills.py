"""`prowess list`, `show` and `skills`: the skills in reach, one skill in detail, and unused skills."""

from __future__ import annotations

import base64
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from prowess.interfaces.cli.engine import common_options, spinner, with_engine
from prowess.interfaces.cli.options import Period, delegate_to_subcommand
from prowess.interfaces.cli.prompt_size import note_too_long, read_prompt_limit
from prowess.view import to_json, usage_json

if TYPE_CHECKING:
    from prowess.catalog.scans import FindingRow
    from prowess.catalog.store import Fault
    from prowess.feed.usage import SkillUsage
    from prowess.open import Prowess
    from prowess.skill.kinds import Kind
    from prowess.skill.model import Skill, SkillCard


SCANNED_AT_ONCE = 40
"""How many skills one `prowess list` scans; more would be felt."""
SCOPES = ("session", "workspace", "user", "org", "account", "system")


@click.command("list")
@click.option("--tag", "tags", multiple=True, help="Only skills with this tag (may be given again).")
@click.option("--scope", type=click.Choice(SCOPES), help="Only skills of this scope.")
@common_options
def list_command(tags: tuple[str, ...], scope: str | None, workspace: str | None, as_json: bool) -> None:
    """Show the skills that are in reach, nearest scope first where two share a slug."""
    from prowess.interfaces.cli.output import print_json

    async def work(prowess: Prowess) -> tuple[list[SkillCard], list[Fault], dict[str, int], int]:
        cards, faults = await prowess.skills.look()
        dangers = await prowess.skills.dangers(cards, scan=SCANNED_AT_ONCE)
        return cards, faults, dangers, await read_prompt_limit(prowess, [card.chars for card in cards])

    with spinner("Reading skills …"):
        cards, faults, dangers, limit = with_engine(workspace, work)
    chosen = [card for card in cards if set(tags) <= set(card.tags) and scope in (None, card.scope)]
    if as_json:
        print_json([{**to_json(card), "dangers": dangers.get(card.digest)} for card in chosen])
    else:
        _print_cards(chosen, len(cards), dangers)
        note_too_long([(card.slug, card.chars) for card in chosen], limit)
    _warn_faults(len(faults))


def _print_cards(cards: list[SkillCard], total: int, dangers: dict[str, int]) -> None:
    from prowess.interfaces.cli.output import one_line, print_table

    if not cards and total:
        click.echo("The one skill here does not fit." if total == 1 else f"None of the {total} skills here fits.")
        return
    if not cards:
        click.echo(NO_SKILLS)
        return
    rows = [
        (
            one_line(card.slug, 48),
            f"{'[DANGER] ' if dangers.get(card.digest) else ''}{one_line(card.description)}",
            one_line(card.version, 16),
            _format_scope(card),
        )
        for card in cards
    ]
    print_table(("slug", "description", "version", "scope"), rows, flexible=1)
    click.echo(f"\n{len(cards)} skill{'s' if len(cards) != 1 else ''}. `prowess show SLUG` shows one.")
    found = sum(card.trust == "found" for card in cards)
    if found:
        click.echo(f"Nobody has accepted {found} of them yet. `prowess trust` shows what they can do, and asks once.")
    _note_dangers(cards, dangers)


def _note_dangers(cards: list[SkillCard], dangers: dict[str, int]) -> None:
    grave = sum(bool(dangers.get(card.digest)) for card in cards)
    unknown = sum(card.digest not in dangers for card in cards)
    if grave:
        click.echo(f"{grave} with dangerous findings; `prowess show SLUG` says which.")
    if unknown:
        click.echo(f"{unknown} not scanned yet; each `prowess list` scans {SCANNED_AT_ONCE} more.")


def _format_scope(card: SkillCard) -> str:
    notes = [] if card.enabled else ["off"]
    notes += [card.trust] if card.trust not in ("", "local") else []
    notes += [f"hides {', '.join(other.scope for other in card.hides)}"] if card.hides else []
    return f"{card.scope} ({'; '.join(notes)})" if notes else card.scope


def _warn_faults(count: int) -> None:
    if count:
        things = "1 thing here is" if count == 1 else f"{count} things here are"
        click.echo(f"{things} not served; `prowess doctor` says why.", err=True)


NO_SKILLS = """There are no skills here yet. You can:
  prowess import PATH     keep skills from a folder, a file or a .skill archive
  mkdir -p .agents/skills/my-skill && $EDITOR .agents/skills/my-skill/SKILL.md
                          write one; it is seen at once
  prowess -w DIR list     look in another workspace
Skills in .agents/skills, .claude/skills and the folders of other agents are found by themselves."""


@click.command("show")
@click.argument("slug")
@click.option("--reference", metavar="F", help="Print this reference.")
@click.option("--script", metavar="F", help="Print this script.")
@click.option("--artifact", metavar="A", help="Print this artifact (NAME, or NAME@VARIANT).")
@common_options
def show_command(
    slug: str,
    reference: str | None,
    script: str | None,
    artifact: str | None,
    workspace: str | None,
    as_json: bool,
) -> None:
    """Show one skill, or one file or artifact of it.

    SLUG may be SCOPE:SLUG to see a skill that a nearer one hides.
    """
    wanted = [name for name in (reference, script, artifact) if name]
    if len(wanted) > 1:
        raise click.UsageError("Choose one of --reference, --script and --artifact.")
    if wanted:
        kind = "reference" if reference else "script" if script else None
        _print_part(slug, wanted[0], kind, workspace=workspace, as_json=as_json)
        return

    async def work(prowess: Prowess) -> tuple[Skill, tuple[FindingRow, ...]]:
        return await prowess.skills.get(slug), await prowess.skills.findings(slug)

    with spinner("Reading skills …"):
        skill, findings = with_engine(workspace, work)
    if as_json:
        from prowess.interfaces.cli.output import print_json

        print_json({**to_json(skill), "findings": list(findings)})
    else:
        _print_skill(skill, findings)


def _print_part(slug: str, name: str, kind: Kind | None, *, workspace: str | None, as_json: bool) -> None:
    from prowess.interfaces.cli.output import clean, print_json

    async def work(prowess: Prowess) -> tuple[str, bytes]:
        found, data = await prowess.skills.part(slug, name, kind=kind)
        return found.path or found.name, data

    path, data = with_engine(workspace, work)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = None
    if as_json:
        content = {"content": text} if text is not None else {"base64": base64.b64encode(data).decode()}
        print_json({"slug": slug, kind or "artifact": name, "path": path, **content})
    elif text is None or not sys.stdout.isatty():
        # A pipe or file gets the exact bytes; only a terminal has to be protected from control characters.
        sys.stdout.buffer.write(data)
    else:
        click.echo(clean(text))


def _print_skill(skill: Skill, findings: Sequence[FindingRow]) -> None:
    from prowess.interfaces.cli.error_output import print_findings
    from prowess.interfaces.cli.output import clean, escape_path, one_line, print_table, print_wrapped

    click.echo(f"{click.style(one_line(skill.title), bold=True)}  {skill.slug} {one_line(skill.version)}")
    print_wrapped(one_line(skill.description))
    facts = {
        "tags": ", ".join(skill.tags),
        "triggers": "; ".join((*skill.trigger_phrases, *skill.intent_patterns)),
        "author": skill.author,
        "license": skill.license,
        "asks for tools": " ".join(skill.allowed_tools),
        **_code_facts(skill),
        "scope": skill.scope,
        "form": skill.form,
        "where": escape_path(skill.location),
        "digest": skill.digest,
    }
    click.echo()
    for name, value in facts.items():
        if value:
            print_wrapped(f"{name}: {one_line(str(value))}")
    if skill.artifacts:
        rows = [
            (
                one_line(f"{part.name}@{part.variant}" if part.variant else part.name),
                part.kind,
                escape_path(part.path or ""),
            )
            for part in skill.artifacts
        ]
        click.echo()
        print_table(("artifact", "kind", "file"), rows)
    if any(row["severity"] != "info" for row in findings):
        click.echo("\nfindings")
        print_findings(findings, indent=2)
    if skill.body.strip():
        click.echo()
        click.echo(clean(skill.body).strip())


def _code_facts(skill: Skill) -> dict[str, str]:
    """Return what to know about the code of a skill: its tool, its runtimes, and what it asks for."""
    from prowess.skill.kinds import Function, kind_info
    from prowess.skill.needs import read_needs
    from prowess.skill.profiles.permissions import describe_needs
    from prowess.skill.slug import tool_name

    needs = read_needs(skill)
    functions = [artifact for artifact in skill.artifacts if isinstance(artifact, Function) and artifact.content]
    runtimes: list[str] = []
    if functions:  # importing the handler is slow, and most skills have no functions
        from prowess.handlers.function import choose_runtime

        runtimes = list(dict.fromkeys(choose_runtime(function, needs) for function in functions))
    return {
        "tool": tool_name(skill.slug) if any(kind_info(kind).is_tool for kind in skill.kinds) else "",
        "runtime": ", ".join(runtimes),
        "asks": "; ".join(describe_needs(needs, skill.kinds)),
    }


@click.group("skills", invoke_without_command=True)
@click.option("--dead", type=Period(), metavar="PERIOD", help="Those that were not used for so long, such as 30d.")
@click.option("--all", "system", is_flag=True, help="With --dead: also those that came with Prowess or a plugin.")
@common_options
@click.pass_context
def skills_command(ctx: click.Context, dead: float | None, system: bool, workspace: str | None, as_json: bool) -> None:
    """List skills, show one, or find those that nobody uses.

    Without a command it lists them. --dead 30d shows the skills that were neither loaded nor let into a prompt for 30
    days: candidates for deprecation.
    """
    if delegate_to_subcommand(ctx, workspace, as_json=as_json):
        if dead is not None or system:
            raise click.UsageError(f"--dead and --all do not go with {ctx.invoked_subcommand!r}.")
        return
    if dead is None:
        if system:
            raise click.UsageError("--all goes with --dead.")
        ctx.invoke(list_command, workspace=workspace, as_json=as_json)
        return
    _list_unused(dead, system=system, workspace=workspace, as_json=as_json)


skills_command.add_command(list_command)
skills_command.add_command(show_command)


def _list_unused(days: float, *, system: bool, workspace: str | None, as_json: bool) -> None:
    from prowess.interfaces.cli.output import print_json

    with spinner("Reading skills …"):
        found = with_engine(workspace, lambda prowess: prowess.skills.unused(days=days, system=system))
    if as_json:
        print_json([usage_json(card, use) for card, use in found])
    else:
        _print_unused(found)


def _print_unused(found: list[tuple[SkillCard, SkillUsage]]) -> None:
    from prowess.interfaces.cli.output import one_line, print_table

    if not found:
        click.echo("No skill here was left unused for so long.")
        return
    rows = [
        (
            one_line(card.slug, 48),
            one_line(card.description),
            card.scope,
            f"{use.loads:,}",
            _format_use_time(use.last_loaded),
            _format_use_time(use.last_enabled),
        )
        for card, use in found
    ]
    head = ("slug", "description", "scope", "loads", "last load", "last in a prompt")
    print_table(head, rows, flexible=1)
    words = "skill was" if len(found) == 1 else "skills were"
    click.echo(f"\n{len(found)} {words} not used for so long.")


def _format_use_time(at: str) -> str:
    return at[:16].replace("T", " ") if at else "never"
