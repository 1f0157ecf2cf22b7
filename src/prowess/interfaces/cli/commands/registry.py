"""`prowess registry`: search registries of skills, and preview what they have before anything is installed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from prowess.errors import Refused
from prowess.interfaces.cli.commands.registry_server import SERVER_COMMANDS
from prowess.interfaces.cli.engine import Cli, common_options, spinner
from prowess.interfaces.cli.options import group
from prowess.interfaces.cli.output import clean, escape_path, format_count, one_line, print_facts, print_json
from prowess.interfaces.cli.person import at_terminal
from prowess.match.recommendation import format_score

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

    Nobody here has accepted the skills that a registry lists. Only your request is sent to it. `serve` runs your own
    registry, and `publish` adds skills to one.
    """


for _command in SERVER_COMMANDS:
    registry_command.add_command(_command)


@registry_command.subcommand(
    "search", "prowess registry search postgres slow queries", "prowess registry search git --limit 3 --json"
)
@click.argument("query", nargs=-1, required=True)
@click.option("--limit", type=click.IntRange(1, 50), default=10, show_default=True, help="Maximum number to show.")
@registry_option
@common_options
def search_registry(query: Sequence[str], limit: int, registry: str, cli: Cli) -> None:
    """Search a registry. Results are ranked by fit, the registry's own order and the number of installs."""
    text = " ".join(query)
    with spinner("Asking the registry …"):
        found = cli.call(lambda prowess: prowess.registries.search(text, limit=limit, registry=registry))
    empty = "No matching skill. Try other words, or `prowess registry trending`."
    if _print_hits(found, cli, first="score", empty=empty):
        click.echo(f"\nShow one before you install it: prowess registry show {_reference(found[0])}", err=True)


@registry_command.subcommand(
    "trending", "prowess registry trending", "prowess registry trending --registry clawhub --json"
)
@click.option("--limit", type=click.IntRange(1, 50), default=20, show_default=True, help="Maximum number to show.")
@registry_option
@common_options
def list_trending(limit: int, registry: str, cli: Cli) -> None:
    """List the trending skills of a registry, in its order."""
    with spinner("Asking the registry …"):
        found = cli.call(lambda prowess: prowess.registries.trending(limit=limit, registry=registry))
    _print_hits(found, cli, first="place", empty="The registry lists no skill.")


@registry_command.subcommand(
    "show", "prowess registry show owner/repo/skill", "prowess registry show clawhub:gifgrep --text"
)
@click.argument("id")
@click.option("--text", is_flag=True, help="Also print its document, with hidden characters written out.")
@registry_option
@common_options
def show_registry_skill(id: str, text: bool, registry: str, cli: Cli) -> None:
    """Download a skill, check and scan it, and show what it contains. Nothing is installed.

    ID is an id from a search, REGISTRY:ID, or the address of the skill's page.
    """
    with spinner("Asking the registry …"):
        found = cli.call(lambda prowess: prowess.registries.metadata(id, registry=registry))
    if cli.as_json:
        print_json(found)
        return
    _print_preview(found)
    if text:
        from prowess.skill.text.hidden import show_hidden

        click.echo(f"\n{clean(show_hidden(found.content))}")


@registry_command.subcommand(
    "install",
    "prowess registry install owner/repo/skill",
    "prowess registry install clawhub:gifgrep --digest SHA256 --json",
)
@click.argument("id")
@click.option(
    "--scope", type=click.Choice(("account", "org", "user")), help="Scope to install into (default: account)."
)
@click.option(
    "--digest", default="", metavar="SHA256", help="Install only if the files have this digest, as printed by `show`."
)
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@registry_option
@common_options
def install_registry_skill(id: str, scope: Scope | None, digest: str, yes: bool, registry: str, cli: Cli) -> None:
    """Show a skill as `show` does, ask, and install exactly the files that were shown.

    A skill that was installed from the same page is replaced; earlier versions stay in its history. The skill counts as
    synced: the first use asks, unless the policy `skill_synced_policy` says otherwise.
    """
    sha256 = digest.removeprefix("sha256:")
    if not sha256:
        with spinner("Asking the registry …"):
            preview = cli.call(lambda prowess: prowess.registries.metadata(id, registry=registry))
        sha256 = preview.digest
        if not yes:
            _ask_to_install(preview, cli)
    with spinner("Installing …"):
        skill = cli.call(lambda prowess: prowess.registries.install(id, registry=registry, scope=scope, digest=sha256))
    source = skill.provenance.model_dump(include={"source_type", "source_url", "source_ref"})
    slug = one_line(skill.slug)
    cli.print(
        {"slug": skill.slug, "scope": skill.scope, "digest": skill.digest, **source},
        f"Installed {slug} ({skill.scope}). The first use asks: prowess enable {slug}",
    )


def _ask_to_install(preview: RegistryPreview, cli: Cli) -> None:
    """Show the preview and ask the person at the terminal. Fail without one."""
    if cli.as_json or not at_terminal():
        raise Refused(
            "This skill has to be reviewed before it is installed.",
            hint=f"Run `prowess registry show`, then install exactly these files: --digest {preview.digest}",
        )
    _print_preview(preview)
    click.echo("")
    click.confirm("Install exactly these files?", abort=True)


def _reference(hit: RegistryHit) -> str:
    from prowess.sources.registries.table import DEFAULT_REGISTRY

    return one_line(hit.id if hit.registry == DEFAULT_REGISTRY else f"{hit.registry}:{hit.id}")


def _print_hits(hits: Sequence[RegistryHit], cli: Cli, *, first: str, empty: str) -> bool:
    """Print hits, and return True if it was a table. `first` is its first column: `score` or `place`."""
    return cli.print_table(
        hits,
        (first, "id", "installs", "state", "description"),
        lambda hit: (
            str(hit.trending) if first == "place" else format_score(hit.score or 0),
            _reference(hit),
            format_count(hit.installs) if hit.installs is not None else "",
            ", ".join([*(["installed"] if hit.installed else ()), *(one_line(mark, 20) for mark in hit.warnings)]),
            one_line(hit.description or hit.name),
        ),
        flexible=4,
        optional=("state", "installs"),
        empty=empty,
    )


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
    print_facts(facts, width)
    click.secho(f"Files ({len(found.files)})", bold=True)
    for file in found.files[:_SHOWN_FILES]:
        click.echo(f"  {escape_path(file['path'])}  {file['size']:,} bytes")
    if len(found.files) > _SHOWN_FILES:
        click.echo(f"  and {len(found.files) - _SHOWN_FILES} more")
    _print_remarks("Findings", found.findings)
    _print_remarks("Problems", found.problems)


def _print_remarks(head: str, remarks: Sequence[dict[str, Any]]) -> None:
    shown = [remark for remark in remarks if remark["severity"] != "info"]
    if not shown:
        return
    click.secho(f"{head} ({len(shown)})", bold=True)
    for remark in shown:
        severity = click.style(remark["severity"], fg=_SEVERITY_COLOURS.get(remark["severity"], "red"))
        place = f"{remark['path']}:{remark.get('line') or 1}: " if remark.get("path") else ""
        click.echo(f"  {severity}  {one_line(place + str(remark['message']))}")


def _describe_reach(found: RegistryPreview) -> str:
    return {"": "", "outside": "reaches outside the sandbox"}.get(found.reach, "runs as a process on this machine")


def _describe_installed(found: RegistryPreview) -> str:
    if found.installed is None:
        return "no"
    where = f"{found.installed['scope']}:{found.installed['slug']}"
    if found.installed["same"]:
        return f"yes, {where} has exactly these files"
    if found.installed["source_url"] == found.entry.url:
        return f"{where} came from here with other files: installing replaces it"
    return f"{where} has this name and other files"


def _describe_audit(audit: dict[str, Any]) -> str:
    details = ", ".join(str(audit[name]) for name in ("risk", "summary") if audit[name])
    return f"{audit['provider']}: {audit['status']}" + (f" ({details})" if details else "")
