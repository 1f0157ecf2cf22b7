"""`prowess registry`: search registries of skills, and preview what they have before anything is installed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from prowess.errors import Refused
from prowess.interfaces.cli.commands.registry_server import SERVER_COMMANDS
from prowess.interfaces.cli.engine import common_options, spinner, with_engine
from prowess.interfaces.cli.options import group
from prowess.interfaces.cli.output import clean, escape_path, format_count, one_line, print_json, print_table
from prowess.interfaces.cli.person import at_terminal

if TYPE_CHECKING:
    from prowess.engine.registry_results import RegistryHit, RegistryPreview
    from prowess.skill.model import Scope

registry_option = click.option(
    "--registry",
    "registry",
    default="",
    metavar="NAME",
    help="Registry to ask (default: PROWESS_REGISTRY, or skills.sh).",
)
_SEVERITY_COLOURS = {"danger": "red", "warning": "yellow"}
_SHOWN_FILES = 20


@group(
    "registry",
    "prowess registry search postgres slow queries",
    "prowess registry trending --registry clawhub",
    "prowess registry show owner/repo/skill",
)
def registry_command() -> None:
    """Search registries of skills, and preview a skill before it is installed.

    Nobody here has accepted what a registry lists. Nothing but your request is sent to it. `serve` runs a registry of your
    own, and `publish` adds skills to one.
    """


for _command in SERVER_COMMANDS:
    registry_command.add_command(_command)


@registry_command.command(
    "search", examples=("prowess registry search postgres slow queries", "prowess registry search git --limit 3 --json")
)
@click.argument("query", nargs=-1, required=True)
@click.option("--limit", type=click.IntRange(1, 50), default=10, show_default=True, help="How many to show.")
@registry_option
@common_options
def search_registry(query: Sequence[str], limit: int, registry: str, workspace: str | None, as_json: bool) -> None:
    """Search a registry, best first: by how well each skill fits, the registry's own order, and its installs."""
    text = " ".join(query)
    with spinner("Asking the registry …"):
        found = with_engine(workspace, lambda prowess: prowess.registries.search(text, limit=limit, registry=registry))
    if as_json:
        print_json([hit.as_json() for hit in found])
    elif not found:
        click.echo("No matching skill. Try other words, or `prowess registry trending`.")
    else:
        _print_hits(found, first="score")
        click.echo(f"\nShow one before you install it: prowess registry show {_reference(found[0])}", err=True)


@registry_command.command(
    "trending", examples=("prowess registry trending", "prowess registry trending --registry clawhub --json")
)
@click.option("--limit", type=click.IntRange(1, 50), default=20, show_default=True, help="How many to show.")
@registry_option
@common_options
def list_trending(limit: int, registry: str, workspace: str | None, as_json: bool) -> None:
    """List the skills that a registry calls trending, in its order."""
    with spinner("Asking the registry …"):
        found = with_engine(workspace, lambda prowess: prowess.registries.trending(limit=limit, registry=registry))
    if as_json:
        print_json([hit.as_json() for hit in found])
    elif not found:
        click.echo("The registry lists no skill.")
    else:
        _print_hits(found, first="place")


@registry_command.command(
    "show", examples=("prowess registry show owner/repo/skill", "prowess registry show clawhub:gifgrep --text")
)
@click.argument("id")
@click.option("--text", is_flag=True, help="Also print its document, with hidden characters written out.")
@registry_option
@common_options
def show_registry_skill(id: str, text: bool, registry: str, workspace: str | None, as_json: bool) -> None:
    """Download a skill, check and scan it, and show what it would bring. Nothing is installed.

    ID is that of a search, REGISTRY:ID, or the address of the skill's page.
    """
    with spinner("Asking the registry …"):
        found = with_engine(workspace, lambda prowess: prowess.registries.metadata(id, registry=registry))
    if as_json:
        print_json(found.as_json())
        return
    _print_preview(found)
    if text:
        from prowess.skill.text.hidden import show_hidden

        click.echo(f"\n{clean(show_hidden(found.content))}")


@registry_command.command(
    "install",
    examples=(
        "prowess registry install owner/repo/skill",
        "prowess registry install clawhub:gifgrep --digest SHA256 --json",
    ),
)
@click.argument("id")
@click.option("--scope", type=click.Choice(("account", "org", "user")), help="Where to keep it (default: account).")
@click.option("--digest", default="", metavar="SHA256", help="Install only exactly these files, as `show` prints it.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@registry_option
@common_options
def install_registry_skill(
    id: str, scope: Scope | None, digest: str, yes: bool, registry: str, workspace: str | None, as_json: bool
) -> None:
    """Show a skill as `show` does, ask, and install exactly the files that were shown.

    It stays marked as coming from elsewhere: the first use asks, unless the policy `skill_synced_policy` says otherwise.
    """
    wanted = digest.removeprefix("sha256:")
    if not wanted:
        with spinner("Asking the registry …"):
            preview = with_engine(workspace, lambda prowess: prowess.registries.metadata(id, registry=registry))
        wanted = preview.digest
        if not yes:
            _ask_to_install(preview, as_json=as_json)
    with spinner("Installing …"):
        kept = with_engine(
            workspace, lambda prowess: prowess.registries.install(id, registry=registry, scope=scope, digest=wanted)
        )
    if as_json:
        source = kept.provenance.model_dump(include={"source_type", "source_url", "source_ref"})
        print_json({"slug": kept.slug, "scope": kept.scope, "digest": kept.digest, **source})
        return
    click.echo(
        f"Installed {one_line(kept.slug)} ({kept.scope}). The first use asks: prowess enable {one_line(kept.slug)}"
    )


def _ask_to_install(preview: RegistryPreview, *, as_json: bool) -> None:
    """Show the preview and ask the person at the terminal. Fail without one."""
    if as_json or not at_terminal():
        raise Refused(
            "Nobody has looked at this skill yet.",
            hint=f"Run `prowess registry show`, then install exactly that: --digest {preview.digest}",
        )
    _print_preview(preview)
    click.echo("")
    click.confirm("Install exactly these files?", abort=True)


def _reference(hit: RegistryHit) -> str:
    from prowess.sources.registries.table import DEFAULT_REGISTRY

    return one_line(hit.id if hit.registry == DEFAULT_REGISTRY else f"{hit.registry}:{hit.id}")


def _print_hits(hits: Sequence[RegistryHit], *, first: str) -> None:
    from prowess.match.recommendation import format_score

    rows = [
        (
            str(hit.trending) if first == "place" else format_score(hit.score or 0),
            _reference(hit),
            format_count(hit.installs) if hit.installs is not None else "",
            _marks(hit),
            one_line(hit.description or hit.name),
        )
        for hit in hits
    ]
    print_table((first, "id", "installs", "state", "description"), rows, flexible=4, optional=("state", "installs"))


def _marks(hit: RegistryHit) -> str:
    marks = [*(["installed"] if hit.installed else ()), *(one_line(mark, 20) for mark in hit.warnings)]
    return ", ".join(marks)


def _print_preview(found: RegistryPreview) -> None:
    hit = found.entry
    facts = [
        ("Skill", f"{found.slug or hit.skill_id}  {found.title}"),
        ("Description", found.description or hit.description),
        ("Registry", f"{hit.registry}, {hit.url}"),
        ("Version", " ".join(dict.fromkeys(part for part in (hit.version, found.revision) if part))),
        ("Installs", "" if hit.installs is None else f"{hit.installs:,}"),
        ("Digest", f"sha256:{found.digest}"),
        ("Size", f"{found.size:,} bytes, {found.content_length:,} characters in a prompt"),
        ("Runs", _describe_reach(found)),
        ("Installed", _describe_installed(found)),
        ("Registry says", ", ".join(hit.warnings)),
    ]
    facts += [("Asks for", request) for request in found.requests]
    facts += [("Audit", _describe_audit(audit)) for audit in found.audits]
    width = max(len(label) for label, _ in facts) + 2
    for label, text in facts:
        if text:
            click.echo(f"{click.style(label.ljust(width), bold=True)}{one_line(text)}")
    click.secho(f"Files ({len(found.files)})", bold=True)
    for file in found.files[:_SHOWN_FILES]:
        click.echo(f"  {escape_path(file['path'])}  {file['size']:,} bytes")
    if len(found.files) > _SHOWN_FILES:
        click.echo(f"  and {len(found.files) - _SHOWN_FILES} more")
    _print_remarks("Findings", found.findings)
    _print_remarks("Problems", found.problems)


def _print_remarks(head: str, remarks: Sequence[dict[str, Any]]) -> None:
    shown = [one for one in remarks if one["severity"] != "info"]
    if not shown:
        return
    click.secho(f"{head} ({len(shown)})", bold=True)
    for one in shown:
        mark = click.style(one["severity"], fg=_SEVERITY_COLOURS.get(one["severity"], "red"))
        place = f"{one['path']}:{one.get('line') or 1}: " if one.get("path") else ""
        click.echo(f"  {mark}  {one_line(place + str(one['message']))}")


def _describe_reach(found: RegistryPreview) -> str:
    return {"": "", "outside": "reaches outside the sandbox"}.get(found.reach, "runs as a process on this machine")


def _describe_installed(found: RegistryPreview) -> str:
    if found.installed is None:
        return "no"
    where = f"{found.installed['scope']}:{found.installed['slug']}"
    if found.installed["same"]:
        return f"yes, {where} has exactly these files"
    return f"{where} has this name and other files"


def _describe_audit(audit: dict[str, Any]) -> str:
    said = ", ".join(str(audit[name]) for name in ("risk", "summary") if audit[name])
    return f"{audit['provider']}: {audit['status']}" + (f" ({said})" if said else "")
