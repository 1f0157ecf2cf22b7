"""`prowess show`: one skill, or one part of it."""

from __future__ import annotations

import base64
import sys
from typing import TYPE_CHECKING

import click

from prowess.interfaces.cli.opening import common_options, patience, with_engine

if TYPE_CHECKING:
    from prowess.build.opening import Prowess
    from prowess.skill.kinds import Kind
    from prowess.skill.model import Skill


@click.command("show")
@click.argument("slug")
@click.option("--reference", metavar="F", help="Print this reference.")
@click.option("--script", metavar="F", help="Print this script.")
@click.option("--artifact", metavar="A", help="Print this artifact (NAME, or NAME@VARIANT).")
@common_options
def command(
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
        _show_part(slug, wanted[0], kind, workspace=workspace, as_json=as_json)
        return
    with patience("Reading skills …"):
        skill = with_engine(workspace, lambda prowess: prowess.skill(slug))
    if as_json:
        from prowess.interfaces.cli.printing import print_json

        print_json(skill.model_dump(mode="json"))
    else:
        _show_skill(skill)


def _show_part(slug: str, name: str, kind: Kind | None, *, workspace: str | None, as_json: bool) -> None:
    from prowess.interfaces.cli.printing import clean, print_json

    async def work(prowess: Prowess) -> tuple[str, bytes]:
        found, data = await prowess.part(slug, name, kind=kind)
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
        sys.stdout.buffer.write(data)
    else:
        click.echo(clean(text))


def _show_skill(skill: Skill) -> None:
    from prowess.interfaces.cli.printing import clean, one_line, print_table, print_wrapped, shown_path

    click.echo(f"{click.style(one_line(skill.title), bold=True)}  {skill.slug} {one_line(skill.version)}")
    print_wrapped(one_line(skill.description))
    facts = {
        "tags": ", ".join(skill.tags),
        "triggers": "; ".join((*skill.trigger_phrases, *skill.intent_patterns)),
        "author": skill.author,
        "license": skill.license,
        "asks for tools": " ".join(skill.allowed_tools),
        **_facts_of_code(skill),
        "scope": skill.scope,
        "form": skill.form,
        "where": shown_path(skill.location),
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
                shown_path(part.path or ""),
            )
            for part in skill.artifacts
        ]
        click.echo()
        print_table(("artifact", "kind", "file"), rows)
    if skill.body.strip():
        click.echo()
        click.echo(clean(skill.body).strip())


def _facts_of_code(skill: Skill) -> dict[str, str]:
    """What is to be known of the code that a skill brings: its tool, what runs it, and what it asks for outside."""
    from prowess.handlers.function import runtime_of
    from prowess.run.choose import HANDLERS
    from prowess.skill.kinds import Function
    from prowess.skill.needs import needs_of
    from prowess.skill.profiles.requests import needed
    from prowess.skill.slug import tool_name

    needs = needs_of(skill)
    runtimes = {runtime_of(one, needs): None for one in skill.artifacts if isinstance(one, Function) and one.content}
    return {
        "tool": tool_name(skill.slug) if not HANDLERS.isdisjoint(skill.kinds) else "",
        "runtime": ", ".join(runtimes),
        "asks": "; ".join(needed(needs, skill.kinds)),
    }
