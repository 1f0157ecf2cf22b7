"""`prowess source`: add, list, show, sync, remove and switch the sources that skills are copied from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prowess.errors import Conflict, Invalid, NotFound
from prowess.interfaces.cli.engine import common_options, progress_bar, spinner, with_engine
from prowess.interfaces.cli.error_output import exit_code
from prowess.interfaces.cli.options import delegate_to_subcommand, group
from prowess.interfaces.cli.output import one_line, print_json, print_table
from prowess.interfaces.cli.person import at_terminal
from prowess.interfaces.cli.source_output import print_acceptance, print_result, summarize

if TYPE_CHECKING:
    from prowess.open import Prowess
    from prowess.skill.model import Scope
    from prowess.sources.sync_result import SyncResult
    from prowess.storage.sources import Source

_id_argument = click.argument("id", metavar="ID")


@group("source", "prowess source", "prowess source add acme/runbooks", invoke_without_command=True)
@common_options
@click.pass_context
def source_command(ctx: click.Context, workspace: str | None, as_json: bool) -> None:
    """Copy skills from repositories and URLs, and keep them in step."""
    if not delegate_to_subcommand(ctx, workspace, as_json=as_json):
        _list_sources(workspace, as_json=as_json)


@source_command.command(
    "add",
    examples=(
        "prowess source add acme/runbooks",
        "prowess source add acme/runbooks --path skills --ref main --auto",
        "prowess source add https://example.com/skill.md --dry-run",
    ),
)
@click.argument("place", metavar="SOURCE")
@click.option("--name", default="", metavar="NAME", help="Name to show (default: the address).")
@click.option("--ref", default="", metavar="REF", help="Branch, tag or commit of a repository.")
@click.option("--path", default="", metavar="PATH", help="Folder of a repository.")
@click.option("--registry", is_flag=True, help="SOURCE is the address of a registry with a signed index.")
@click.option("--key", default="", metavar="KEY", help="Public key that must have signed the index of the registry.")
@click.option("--auto", is_flag=True, help="Sync in the background, at the interval.")
@click.option("--every", type=click.IntRange(5, 43_200), metavar="MINUTES", help="The interval (default: 360).")
@click.option("--keep-removed", is_flag=True, help="Keep skills that the source no longer has.")
@click.option(
    "--scope",
    type=click.Choice(["account", "org", "user"]),
    help="For all of your workspaces (default), for your organization (default with --server), or for yourself.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would come.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@common_options
def add_source(
    place: str,
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
    workspace: str | None,
    as_json: bool,
) -> None:
    """Show what a source has, add it, and copy its skills.

    SOURCE is a repository (owner/repo or a URL), or the URL of a file, an archive or a site. Nothing of the skills is used
    before the policy allows it.
    """
    source_type, config = _read_place(place, ref=ref, path=path, registry=registry)
    config |= {"sync_policy": "auto"} if auto else {}
    config |= {"sync_interval_minutes": every} if every else {}
    config |= {"on_removed": "keep"} if keep_removed else {}
    config |= {"key": key} if key else {}

    async def preview(prowess: Prowess) -> SyncResult:
        if not dry_run:
            _check_new(await prowess.sources.list(), source_type, config, scope)
        return await prowess.sources.preview(source_type=source_type, config=config, scope=scope)

    async def add(prowess: Prowess) -> Source:
        return await prowess.sources.create(name or place, source_type, config, scope=scope)

    with spinner("Fetching …"):
        found = with_engine(workspace, preview)
    if dry_run or found.error is not None:
        _report(found, as_json=as_json)
        _exit_if_failed(found)
        return
    if not as_json:
        print_result(found)
    if not (yes or as_json) and at_terminal():
        click.confirm("Add this source and copy these skills?", default=True, abort=True)
    source = with_engine(workspace, add)
    result = _sync(source.id, (), workspace)
    if as_json:
        print_json({"source": source.as_json(), "sync": result.as_json()})
    else:
        click.echo(f"Added the source {source.id[:8]}. {summarize(result)}")
        click.echo(f"Sync it again: prowess source sync {source.id[:8]}")
        print_acceptance(result)
    _exit_if_failed(result)


def _check_new(known: Sequence[Source], source_type: str, config: Mapping[str, Any], scope: Scope | None) -> None:
    """Raise `Conflict` if there is a source of this place already: two would copy the same skills."""

    def place(config: Mapping[str, Any]) -> list[Any]:
        return [config.get(key) or "" for key in ("repo", "ref", "path", "url", "base_url")]

    for one in known:
        is_same = one.source_type == source_type and place(one.config) == place(config)
        if is_same and scope in (None, one.scope):
            hint = f"Sync it: `prowess source sync {one.id[:8]}`."
            raise Conflict(f"This place is a source already: {one.name!r}.", hint=hint)


def _read_place(place: str, *, ref: str, path: str, registry: bool) -> tuple[str, dict[str, Any]]:
    from prowess.sources.reference import parse_source

    if registry:
        return "marketplace", {"base_url": place}
    reference = parse_source(place)
    if reference.kind == "local":
        if not Path(reference.url).exists():
            raise NotFound(
                f"{place!r} does not exist.",
                hint="Pass a repository (owner/repo or a URL), or the URL of a file, an archive or a site.",
            )
        raise Invalid(
            f"{place!r} is a path of this machine, not a source.", hint=f"Import it: `prowess import {place}`."
        )
    if reference.skill:
        raise Invalid(
            "A source has all skills of a repository or folder.",
            hint=f"Leave out {'@' + reference.skill!r}, or name its folder with `--path`.",
        )
    if not reference.is_git:
        return "url", {"url": reference.url}
    chosen = {"ref": ref or reference.ref, "path": path or reference.path}
    config = {"repo": reference.source, **{name: value for name, value in chosen.items() if value}}
    return "github", config


@source_command.command("list", examples=("prowess source list", "prowess source list --json"))
@common_options
def list_sources(workspace: str | None, as_json: bool) -> None:
    """List the sources, and how their last sync ended."""
    _list_sources(workspace, as_json=as_json)


def _list_sources(workspace: str | None, *, as_json: bool) -> None:
    found = with_engine(workspace, lambda prowess: prowess.sources.list(), quick=True)
    if as_json:
        print_json([source.as_json() for source in found])
        return
    if not found:
        click.echo("No sources. Add one: prowess source add owner/repo")
        return
    rows = [
        (
            source.id[:8],
            one_line(source.name, 40),
            source.source_type,
            one_line(_address(source), 60),
            _state(source),
            "never" if source.last_sync_at is None else source.last_sync_at[:16].replace("T", " "),
        )
        for source in found
    ]
    print_table(("id", "name", "type", "address", "state", "last sync"), rows, flexible=3, optional=("type",))


def _state(source: Source) -> str:
    if source.is_syncing:
        return "syncing"
    if not source.enabled:
        return "disabled"
    return source.last_sync_status or "new"


def _address(source: Source) -> str:
    config = source.config
    where = str(config.get("repo") or config.get("url") or config.get("base_url") or "")
    return "".join(
        (where, f"/{config['path']}" if config.get("path") else "", f"#{config['ref']}" if config.get("ref") else "")
    )


@source_command.command("show", examples=("prowess source show 3f2a91c0", "prowess source show 3f2a91c0 --json"))
@_id_argument
@common_options
def show_source(id: str, workspace: str | None, as_json: bool) -> None:
    """Show a source, the result of its last sync, and what is in the way.

    ID is the id of the source, or its first four or more characters, or its name.
    """
    source = with_engine(workspace, lambda prowess: find_source(prowess, id))
    if as_json:
        print_json(source.as_json())
        return
    config = source.config
    every = f"every {source.interval_minutes} minutes" if source.is_automatic else "by hand"
    fields = {
        "id": source.id,
        "name": source.name,
        "address": f"{source.source_type}: {_address(source)}",
        "scope": source.scope,
        "sync": f"{every}; removed skills are {'kept' if config.get('on_removed') == 'keep' else 'deleted'}",
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


@source_command.command(
    "sync",
    examples=(
        "prowess source sync 3f2a91c0",
        "prowess source sync --stale",
        "prowess source sync 3f2a91c0 --take restart-db",
    ),
)
@click.argument("id", required=False, metavar="[ID]")
@click.option("--stale", is_flag=True, help="Sync every source whose interval has passed.")
@click.option(
    "--take", multiple=True, metavar="SLUG", help="Replace this skill, although it was edited or deleted here."
)
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@common_options
def sync_source(
    id: str | None, stale: bool, take: tuple[str, ...], dry_run: bool, workspace: str | None, as_json: bool
) -> None:
    """Fetch a source, and bring its skills up to date. Skills that were edited here stay as they are.

    ID is the id of the source, or its first four or more characters, or its name.
    """
    if stale == bool(id):
        raise click.UsageError("Give the ID of a source, or --stale.")
    if stale:
        with spinner("Syncing …"):
            results = with_engine(workspace, lambda prowess: prowess.sources.sync_stale())
        if as_json:
            print_json([result.as_json() for result in results])
            return
        for result in results:
            click.echo(f"{result.source.name}: {summarize(result)}")
        click.echo(f"{len(results)} source{'s' * (len(results) != 1)} synced.")
        return
    if dry_run:
        result = with_engine(workspace, lambda prowess: _preview(prowess, id or ""))
    else:
        result = _sync(id or "", take, workspace)
    _report(result, as_json=as_json)
    _exit_if_failed(result)


async def _preview(prowess: Prowess, id: str) -> SyncResult:
    return await prowess.sources.preview((await find_source(prowess, id)).id)


def _sync(id: str, take: tuple[str, ...], workspace: str | None) -> SyncResult:
    from prowess.catalog.importer import Progress

    with progress_bar("Syncing") as watch:

        async def work(prowess: Prowess) -> SyncResult:
            source = await find_source(prowess, id)
            return await prowess.sources.sync(
                source.id, take=take, watch=lambda done, total: watch(Progress(done=done, total=total))
            )

        return with_engine(workspace, work)


@source_command.command(
    "remove", examples=("prowess source remove 3f2a91c0", "prowess source remove 3f2a91c0 --with-skills")
)
@_id_argument
@click.option("--with-skills", is_flag=True, help="Also delete its skills, except those that were edited here.")
@common_options
def remove_source(id: str, with_skills: bool, workspace: str | None, as_json: bool) -> None:
    """Remove a source. Its skills stay, unless --with-skills is given.

    ID is the id of the source, or its first four or more characters, or its name.
    """

    async def work(prowess: Prowess) -> Source:
        source = await find_source(prowess, id)
        await prowess.sources.delete(source.id, remove_skills=with_skills)
        return source

    source = with_engine(workspace, work)
    if as_json:
        print_json({"removed": source.id, "with_skills": with_skills})
    else:
        click.echo(f"Removed the source {source.name}. Its skills {'were deleted' if with_skills else 'stay'}.")


@source_command.command("enable", examples=("prowess source enable 3f2a91c0", "prowess source enable Runbooks --json"))
@_id_argument
@common_options
def enable_source(id: str, workspace: str | None, as_json: bool) -> None:
    """Let a source be synced again."""
    _switch(id, workspace, enabled=True, as_json=as_json)


@source_command.command(
    "disable", examples=("prowess source disable 3f2a91c0", "prowess source disable Runbooks --json")
)
@_id_argument
@common_options
def disable_source(id: str, workspace: str | None, as_json: bool) -> None:
    """Stop syncing a source. Its skills stay."""
    _switch(id, workspace, enabled=False, as_json=as_json)


def _switch(id: str, workspace: str | None, *, enabled: bool, as_json: bool) -> None:

    async def work(prowess: Prowess) -> Source:
        return await prowess.sources.update((await find_source(prowess, id)).id, enabled=enabled)

    source = with_engine(workspace, work)
    if as_json:
        print_json(source.as_json())
    else:
        click.echo(f"The source {source.name} is {'enabled' if enabled else 'disabled'}.")


async def find_source(prowess: Prowess, text: str) -> Source:
    """Return the source with an id, the beginning of one, or a name; raise `NotFound` or `Invalid`."""
    every = await prowess.sources.list()
    matching = [one for one in every if text in (one.id, one.name)]
    matching = matching or [one for one in every if len(text) >= 4 and one.id.startswith(text.lower())]
    if len(matching) > 1:
        ids = ", ".join(one.id[:8] for one in matching[:5])
        raise Invalid(f"{len(matching)} sources match {text[:40]!r}: {ids}.", hint="Give one of these ids.")
    return matching[0] if matching else await prowess.sources.get(text)


def _report(result: SyncResult, *, as_json: bool) -> None:
    if as_json:
        print_json(result.as_json())
    else:
        print_result(result)


def _exit_if_failed(result: SyncResult) -> None:
    if result.error is not None:
        raise click.exceptions.Exit(exit_code(result.error))
