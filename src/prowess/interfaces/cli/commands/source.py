"""`prowess source`: add, list, show, sync, remove and switch the sources that skills are copied from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prowess.errors import Conflict, Invalid, NotFound
from prowess.interfaces.cli.engine import Cli, common_options, progress_bar, spinner
from prowess.interfaces.cli.error_output import exit_code, print_findings
from prowess.interfaces.cli.options import group
from prowess.interfaces.cli.output import clean, one_line, print_json
from prowess.interfaces.cli.person import at_terminal
from prowess.interfaces.cli.server import chosen_server

if TYPE_CHECKING:
    from prowess.open import Prowess
    from prowess.skill.model import Scope
    from prowess.sources.sync_result import SkillChange, SyncResult
    from prowess.storage.sources import Source


_id_argument = click.argument("id", metavar="ID")


@group("source", "prowess source", "prowess source add acme/runbooks", default="list")
def source_command() -> None:
    """Copy skills from repositories and URLs, and keep them in sync."""


@source_command.subcommand(
    "add",
    "prowess source add acme/runbooks",
    "prowess source add acme/runbooks --path skills --ref main --auto",
    "prowess source add https://example.com/skill.md --dry-run",
)
@click.argument("address", metavar="SOURCE")
@click.option("--name", default="", metavar="NAME", help="Name to show (default: the address).")
@click.option("--ref", default="", metavar="REF", help="Branch, tag or commit of a repository.")
@click.option("--path", default="", metavar="PATH", help="Folder of a repository.")
@click.option("--registry", is_flag=True, help="SOURCE is the address of a registry with a signed index.")
@click.option("--key", default="", metavar="KEY", help="Public key that must have signed the index of the registry.")
@click.option("--auto", is_flag=True, help="Sync in the background, at the interval of --interval.")
@click.option("--every", type=click.IntRange(5, 43_200), metavar="MINUTES", help="The interval (default: 360).")
@click.option("--keep-removed", is_flag=True, help="Keep skills that the source no longer has.")
@click.option(
    "--scope",
    type=click.Choice(["account", "org", "user"]),
    help="For all of your workspaces (default), for your organization (default with --server), or for yourself.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be added.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@common_options
def add_source(
    address: str,
    name: str,
    ref: str,
    path: str,
    registry: bool,
    key: str,
    auto: bool,
    every: int | None,
    keep_removed: bool,
    scope: Scope | None,
    dry_run: bool,
    yes: bool,
    cli: Cli,
) -> None:
    """Show what a source has, add it, and copy its skills.

    SOURCE is a repository (owner/repo or a URL), or the URL of a file, an archive or a site. The skills are not used
    before the policy allows it.
    """
    source_type, config = _parse_address(address, ref=ref, path=path, registry=registry)
    config |= {"sync_policy": "auto"} if auto else {}
    config |= {"sync_interval_minutes": every} if every else {}
    config |= {"on_removed": "keep"} if keep_removed else {}
    config |= {"key": key} if key else {}

    async def preview(prowess: Prowess) -> SyncResult:
        if not dry_run:
            _check_new(await prowess.sources.list(), source_type, config, scope)
        return await prowess.sources.preview(source_type=source_type, config=config, scope=scope)

    with spinner("Fetching …"):
        planned = cli.call(preview)
    if dry_run or planned.error is not None:
        _report(planned, cli)
        return
    if not cli.as_json:
        print_result(planned)
    if not (yes or cli.as_json) and at_terminal():
        click.confirm("Add this source and copy these skills?", default=True, abort=True)
    source = cli.call(lambda prowess: prowess.sources.create(name or address, source_type, config, scope=scope))
    result = _sync(source.id, (), cli)
    if cli.as_json:
        print_json({"source": source.as_json(), "sync": result.as_json()})
    else:
        click.echo(f"Added the source {source.id[:8]}. {summarize(result)}")
        click.echo(f"Sync it again: prowess source sync {source.id[:8]}")
        print_acceptance(result)
    _exit_if_failed(result)


def _check_new(known: Sequence[Source], source_type: str, config: Mapping[str, Any], scope: Scope | None) -> None:
    """Raise `Conflict` if there is a source with this address already: two would copy the same skills."""

    def address(config: Mapping[str, Any]) -> list[Any]:
        return [config.get(key) or "" for key in ("repo", "ref", "path", "url", "base_url")]

    for source in known:
        is_same = source.source_type == source_type and address(source.config) == address(config)
        if is_same and scope in (None, source.scope):
            hint = f"Sync it: `prowess source sync {source.id[:8]}`."
            raise Conflict(f"This address is already a source: {source.name!r}.", hint=hint)


def _parse_address(address: str, *, ref: str, path: str, registry: bool) -> tuple[str, dict[str, Any]]:
    """Return the type and the configuration of the source at an address, or raise `NotFound` or `Invalid`."""
    from prowess.sources.reference import parse_source

    if registry:
        return "marketplace", {"base_url": address}
    reference = parse_source(address)
    if reference.kind == "local":
        if not Path(reference.url).exists():
            raise NotFound(
                f"{address!r} does not exist.",
                hint="Pass a repository (owner/repo or a URL), or the URL of a file, an archive or a site.",
            )
        raise Invalid(
            f"{address!r} is a path on this machine, not a source.", hint=f"Import it: `prowess import {address}`."
        )
    if reference.skill:
        raise Invalid(
            "A source is a whole repository or folder, not one skill.",
            hint=f"Leave out {'@' + reference.skill!r}, or name its folder with `--path`.",
        )
    if not reference.is_git:
        return "url", {"url": reference.url}
    chosen = {"ref": ref or reference.ref, "path": path or reference.path}
    config = {"repo": reference.source, **{name: value for name, value in chosen.items() if value}}
    return "github", config


@source_command.subcommand("list", "prowess source list", "prowess source list --json")
@common_options
def list_sources(cli: Cli) -> None:
    """List the sources, and how their last sync ended."""
    cli.print_table(
        cli.call(lambda prowess: prowess.sources.list(), quick=True),
        ("id", "name", "type", "address", "state", "last sync"),
        lambda source: (
            source.id[:8],
            one_line(source.name, 40),
            source.source_type,
            one_line(_address(source), 60),
            _state(source),
            "never" if source.last_sync_at is None else source.last_sync_at[:16].replace("T", " "),
        ),
        flexible=3,
        optional=("type",),
        empty="No sources. Add one: prowess source add owner/repo",
    )


def _state(source: Source) -> str:
    settled = source.last_sync_status or "new"
    return "syncing" if source.is_syncing else settled if source.enabled else "disabled"


def _address(source: Source) -> str:
    config = source.config
    where = str(config.get("repo") or config.get("url") or config.get("base_url") or "")
    return "".join(
        (where, f"/{config['path']}" if config.get("path") else "", f"#{config['ref']}" if config.get("ref") else "")
    )


@source_command.subcommand("show", "prowess source show 3f2a91c0", "prowess source show 3f2a91c0 --json")
@_id_argument
@common_options
def show_source(id: str, cli: Cli) -> None:
    """Show a source, the result of its last sync, and any conflicts.

    ID is the id of the source, or its first four or more characters, or its name.
    """
    source = cli.call(lambda prowess: find_source(prowess, id))
    if cli.as_json:
        print_json(source)
        return
    config = source.config
    interval = f"every {source.interval_minutes} minutes" if source.is_automatic else "by hand"
    fields = {
        "id": source.id,
        "name": source.name,
        "address": f"{source.source_type}: {_address(source)}",
        "scope": source.scope,
        "sync": f"{interval}; removed skills are {'kept' if config.get('on_removed') == 'keep' else 'deleted'}",
        "state": _state(source),
        "last sync": source.last_sync_at or "never",
        "error": source.last_sync_error or "",
        "revision": source.revision,
        "signed by": source.pinned_key,
        "skills": ", ".join(f"{many} {status}" for status, many in source.counts.items()),
    }
    for label, value in fields.items():
        if value:
            click.echo(f"{label:<10} {one_line(value)}")
    # Names, paths and messages of the source itself may hold anything.
    for problem in source.problems:
        what = problem.get("slug") or problem.get("path") or ""
        text = f"{what + ': ' if what else ''}{problem['message']} {problem['hint']}"
        click.echo(f"{problem['status']:<10} {one_line(text)}".rstrip())


@source_command.subcommand(
    "sync",
    "prowess source sync 3f2a91c0",
    "prowess source sync --stale",
    "prowess source sync 3f2a91c0 --take restart-db",
)
@click.argument("id", required=False, metavar="[ID]")
@click.option("--stale", is_flag=True, help="Sync every source whose interval has passed.")
@click.option(
    "--take", multiple=True, metavar="SLUG", help="Replace this skill, even if it was edited or deleted here."
)
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@common_options
def sync_source(id: str | None, stale: bool, take: tuple[str, ...], dry_run: bool, cli: Cli) -> None:
    """Fetch a source and update its skills. Skills that were edited here stay as they are.

    ID is the id of the source, or its first four or more characters, or its name.
    """
    if stale == bool(id):
        raise click.UsageError("Give the ID of a source, or --stale.")
    if stale:
        with spinner("Syncing …"):
            results = cli.call(lambda prowess: prowess.sources.sync_stale())
        if cli.as_json:
            print_json(results)
            return
        for result in results:
            click.echo(f"{result.source.name}: {summarize(result)}")
        click.echo(f"{len(results)} source{'s' * (len(results) != 1)} synced.")
        return
    _report(_sync(id or "", take, cli, dry_run=dry_run), cli)


def _sync(id: str, take: tuple[str, ...], cli: Cli, *, dry_run: bool = False) -> SyncResult:
    with progress_bar("Syncing") as show:

        async def work(prowess: Prowess) -> SyncResult:
            from asyncio import CancelledError  # not for a list, which has no event loop

            source = await find_source(prowess, id)
            if dry_run:
                return await prowess.sources.preview(source.id)
            try:
                return await prowess.sources.sync(source.id, take=take, watch=show)
            except CancelledError:
                click.echo(f"Continue with: prowess source sync {source.id[:8]}", err=True)
                raise

        return cli.call(work)


@source_command.subcommand("remove", "prowess source remove 3f2a91c0", "prowess source remove 3f2a91c0 --with-skills")
@_id_argument
@click.option("--with-skills", is_flag=True, help="Also delete its skills, except those that were edited here.")
@common_options
def remove_source(id: str, with_skills: bool, cli: Cli) -> None:
    """Remove a source. Its skills stay, unless --with-skills is given.

    ID is the id of the source, or its first four or more characters, or its name.
    """

    async def work(prowess: Prowess) -> Source:
        source = await find_source(prowess, id)
        await prowess.sources.delete(source.id, remove_skills=with_skills)
        return source

    source = cli.call(work)
    cli.print(
        {"removed": source.id, "with_skills": with_skills},
        f"Removed the source {source.name}. Its skills {'were deleted' if with_skills else 'stay'}.",
    )


@source_command.subcommand("enable", "prowess source enable 3f2a91c0", "prowess source enable Runbooks --json")
@_id_argument
@common_options
def enable_source(id: str, cli: Cli) -> None:
    """Resume syncing a source."""
    _switch(id, cli, enabled=True)


@source_command.subcommand("disable", "prowess source disable 3f2a91c0", "prowess source disable Runbooks --json")
@_id_argument
@common_options
def disable_source(id: str, cli: Cli) -> None:
    """Stop syncing a source. Its skills stay."""
    _switch(id, cli, enabled=False)


def _switch(id: str, cli: Cli, *, enabled: bool) -> None:
    async def work(prowess: Prowess) -> Source:
        return await prowess.sources.update((await find_source(prowess, id)).id, enabled=enabled)

    source = cli.call(work)
    cli.print(source, f"The source {source.name} is {'enabled' if enabled else 'disabled'}.")


async def find_source(prowess: Prowess, text: str) -> Source:
    """Return the source with an id, the beginning of one, or a name; raise `NotFound` or `Invalid`."""
    sources = await prowess.sources.list()
    matching = [source for source in sources if text in (source.id, source.name)]
    matching = matching or [source for source in sources if len(text) >= 4 and source.id.startswith(text.lower())]
    if len(matching) > 1:
        ids = ", ".join(source.id[:8] for source in matching[:5])
        raise Invalid(f"{len(matching)} sources match {text[:40]!r}: {ids}.", hint="Give one of these ids.")
    return matching[0] if matching else await prowess.sources.get(text)


def _report(result: SyncResult, cli: Cli) -> None:
    """Print the result of a sync. End the command if the sync failed."""
    cli.print(result, lambda: print_result(result))
    _exit_if_failed(result)


def _exit_if_failed(result: SyncResult) -> None:
    if result.error is not None:
        raise click.exceptions.Exit(exit_code(result.error))


MAX_LISTED = 20
"""The most skills of one status that are listed by name."""


def print_result(result: SyncResult) -> None:
    """Print what a sync did, or would do: every skill that changes, with findings and what it asks for."""
    if result.unchanged:
        click.echo("Nothing has changed at the source.")
    shown = [change for change in result.changes if change.status != "unchanged"]
    for status in ("added", "updated", "removed", "conflict", "invalid", "refused"):
        some = [change for change in shown if change.status == status]
        for change in some[:MAX_LISTED]:
            _print_change(change)
        if len(some) > MAX_LISTED:
            click.echo(f"  … and {len(some) - MAX_LISTED} more {status}")
    for warning in result.warnings:
        click.secho(f"! {one_line(f'{warning.message} {warning.hint}')}".rstrip(), fg="yellow")
    click.echo(summarize(result))
    print_acceptance(result)


def print_acceptance(result: SyncResult) -> None:
    """Say how to accept the skills that a sync brought. On a server, an administrator or an approval does it."""
    brought = [change.slug for change in result.changes if change.status in ("added", "updated")]
    if brought and not result.preview and chosen_server() is None:
        which = brought[0] if len(brought) == 1 else "SLUG"
        click.echo(f"Accept what you want to use: prowess trust {which}")


_MARKS = {"added": ("+", "green"), "updated": ("~", "yellow"), "removed": ("-", "red")}


def _print_change(change: SkillChange) -> None:
    mark, color = _MARKS.get(change.status, ("!", "red"))
    name = change.slug or change.path
    about = change.message if change.status in ("conflict", "invalid", "refused") else change.description
    click.echo(f"{click.style(mark, fg=color)} {one_line(name, 80)}  {one_line(about, 300)}".rstrip())
    if change.hint:
        click.echo(f"    {one_line(change.hint, 300)}")
    for request in change.requests:
        click.echo(f"    asks for: {one_line(request, 200)}")
    print_findings(list(change.findings))
    for line in change.diff.splitlines():
        click.echo(f"    {clean(line)}")


def summarize(result: SyncResult) -> str:
    """Return one sentence about the result."""
    if result.error is not None:
        failed = "The source cannot be read" if result.preview else "The sync failed"
        return f"{failed}: {one_line(f'{result.error.message} {result.error.hint}')}".rstrip()
    counts = ", ".join(f"{many} {status}" for status, many in result.counts.items()) or "no skills"
    return f"{'Would be' if result.preview else 'Skills'}: {counts}."
