"""`prowess prune`, `backup`, `restore` and `database`: maintain the account's database."""

from __future__ import annotations

import getpass
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from prowess.interfaces.cli.engine import Cli, common_options, spinner
from prowess.interfaces.cli.options import command, group
from prowess.interfaces.cli.output import clean, escape_path, one_line, print_json, print_table
from prowess.interfaces.cli.person import at_terminal, require_person, token_option

if TYPE_CHECKING:
    from prowess.engine.maintenance import Maintenance
    from prowess.policy.retention import PruneReport
    from prowess.storage.backup import Contents


def _maintenance(cli: Cli, scope: Literal["account", "workspace"] = "account") -> Maintenance:
    from prowess.engine.maintenance import Maintenance

    return Maintenance(cli.workspace, scope)


_scope_option = click.option(
    "--scope",
    type=click.Choice(("account", "workspace")),
    default="account",
    show_default=True,
    help="Database to use: the account's, or the workspace's, which stores the skills imported into it.",
)


@command("prune", "prowess prune --dry-run", "prowess prune", "prowess prune --json")
@click.option("--dry-run", is_flag=True, help="Only show what would be deleted.")
@click.option(
    "--accept-key",
    is_flag=True,
    help="Accept that the audit log was last pruned with another key. Needs a terminal or the approver token.",
)
@token_option
@common_options
def prune_command(dry_run: bool, accept_key: bool, token_file: Path | None, cli: Cli) -> None:
    """Delete events, audit rows, idle sessions and traces that have passed the retention period of their organization.

    The settings event_days, audit_days, session_days and trace_days set these periods; see `prowess policy`. A server
    prunes by itself.
    """
    if accept_key:
        require_person("accept an audit log that was pruned with another key", token_file)
    with spinner("Pruning …"):
        reports = (
            _maintenance(cli).preview_pruning()
            if dry_run
            else _maintenance(cli).prune(by=_operator(), channel="cli", any_key=accept_key)
        )
    if cli.as_json:
        print_json({"dry_run": dry_run, "organizations": reports})
    elif not any(report.total for report in reports):
        click.echo("Nothing is old enough to be deleted.")
    else:
        rows = [_report_cells(report) for report in reports if report.total]
        head = ("organization", "events", "audit rows", "sessions", "web sessions", "drafts", "traces")
        print_table(head, rows, flexible=0)
        click.echo("Nothing was deleted. Run `prowess prune` to delete these records." if dry_run else "Deleted.")
    problems = [report for report in reports if report.problem]
    for report in problems:
        name = f" of {clean(report.organization)}" if report.organization else ""
        click.echo(f"The audit log{name} was not pruned: {clean(report.problem)} Run `prowess audit verify`.", err=True)
    if problems:
        raise click.exceptions.Exit(1)


def _operator() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # in a container, the user may have no name
        return "operator"


def _report_cells(report: PruneReport) -> tuple[str, ...]:
    numbers = (
        report.events,
        report.audit,
        report.sessions,
        report.web_sessions,
        report.compositions,
        report.traces,
    )
    return (one_line(report.organization) or "(this machine)", *(f"{number:,}" for number in numbers))


@command("backup", "prowess backup prowess-backup.db", "prowess backup prowess-backup.db --replace --json")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--replace", is_flag=True, help="Overwrite the file.")
@common_options
def backup_command(file: Path, replace: bool, cli: Cli) -> None:
    """Write a copy of the account's database to FILE, even while it is in use.

    For SQLite. For PostgreSQL, the command prints how to use pg_dump. FILE does not contain the key of the database: back up
    PROWESS_SECRET_KEY, or the file database.key in PROWESS_HOME, as well.
    """
    with spinner("Copying …"):
        contents = _maintenance(cli).back_up(file, replace=replace)
    cli.print({"file": str(file), **asdict(contents)}, f"Wrote {escape_path(file)}: {_describe(contents)}.")


@command("restore", "prowess restore prowess-backup.db", "prowess restore prowess-backup.db --replace")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--replace", is_flag=True, help="Replace the current database, and keep it under another name.")
@click.option(
    "--accept-key",
    is_flag=True,
    help="Accept a backup that was made with another key. Needs a terminal or the approver token.",
)
@token_option
@common_options
def restore_command(file: Path, replace: bool, accept_key: bool, token_file: Path | None, cli: Cli) -> None:
    """Replace the account's database with a backup.

    The whole backup is checked first. Stop servers and other programs that use the database.
    """
    if accept_key:
        require_person("accept a backup that was made with another key", token_file)
    maintenance = _maintenance(cli)
    with spinner("Restoring …"):
        restored = maintenance.restore(file, replace=replace, any_key=accept_key)
    contents, previous = restored.contents, restored.previous
    if cli.as_json:
        path = str(previous) if previous else None
        print_json({"database": maintenance.location, **asdict(contents), "previous": path})
        return
    click.echo(f"Restored {escape_path(maintenance.location)}: {_describe(contents)}.")
    for organization, verdict in contents.audits.items():
        name = f" of {clean(organization)}" if organization else ""
        if verdict.ok and verdict.rows:
            click.echo(f"The audit log{name} is intact. Head: {verdict.head}")
        elif not verdict.ok:
            click.echo(f"The audit log{name} was changed: {clean(verdict.problem)}", err=True)
    if previous:
        click.echo(f"The previous database is kept as {escape_path(previous)}.")


def _describe(contents: Contents) -> str:
    names = {"audit": "audit rows"}
    counted = [(number, names.get(name, name)) for name, number in contents.rows.items() if number]
    rows = ", ".join(f"{number:,} {name.removesuffix('s') if number == 1 else name}" for number, name in counted)
    return f"revision {contents.revision}, {contents.bytes:,} bytes, {rows or 'no rows'}"


@group(
    "database",
    "prowess database status",
    "prowess database upgrade",
    "prowess database downgrade --to 0010 --yes",
    default="status",
)
def database_command() -> None:
    """Show the revision of the account's database, or migrate it."""


@database_command.subcommand("status", "prowess database status", "prowess database status --json")
@_scope_option
@common_options
def database_status(scope: Literal["account", "workspace"], cli: Cli) -> None:
    """Show where the database is, its revision, and whether this version of Prowess can use it."""
    maintenance = _maintenance(cli, scope)
    status = maintenance.status()
    lines = (
        f"Database:  {escape_path(maintenance.location)}",
        f"Server:    {status.server}, {status.bytes:,} bytes",
        f"Revision:  {status.revision or 'none'} (newest: {status.newest})",
        f"State:     {_STATES[status.state]}",
    )
    cli.print({"database": maintenance.location, **asdict(status)}, "\n".join(lines))


_STATES = {
    "current": "up to date",
    "older": "older than this version of Prowess: migrated when it is next used, or by `prowess database upgrade`",
    "newer": "made by a newer version of Prowess: upgrade with `pip install -U prowess`",
    "empty": "without tables: they are created when it is first used",
    "foreign": "not a database of Prowess",
}


@database_command.subcommand("upgrade", "prowess database upgrade", "prowess database upgrade --json")
@common_options
def database_upgrade(cli: Cli) -> None:
    """Migrate the database to the newest revision. Prowess also does this when it opens an older database."""
    before, after = _maintenance(cli).upgrade()
    if before == after:
        message = f"The database is up to date (revision {after})."
    else:
        message = f"Migrated the database from revision {before or 'none'} to {after}."
    cli.print({"before": before, "after": after}, message)


@database_command.subcommand(
    "downgrade", "prowess database downgrade --to 0010", "prowess database downgrade --to 0010 --yes --delete-data"
)
@click.option("--to", required=True, metavar="REVISION", help="The revision that the older version of Prowess uses.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--delete-data", is_flag=True, help="Delete data that the older version cannot keep.")
@_scope_option
@common_options
def database_downgrade(to: str, yes: bool, delete_data: bool, scope: Literal["account", "workspace"], cli: Cli) -> None:
    """Migrate the database down, so that an older version of Prowess can use it.

    Stop all servers first. A SQLite database is backed up first. If data would be lost, the command names it and changes
    nothing, unless you pass --delete-data. A workspace into which skills were imported has its own database.
    """
    maintenance = _maintenance(cli, scope)
    if not yes:
        if not at_terminal():
            raise click.UsageError("Migrating down needs a confirmation. Pass --yes, or run the command at a terminal.")
        click.confirm(f"Migrate {escape_path(maintenance.location)} down to revision {to}?", abort=True)
    done = maintenance.downgrade(to, lose_data=delete_data)
    if cli.as_json:
        print_json(done)
        return
    click.echo(f"Migrated the database from revision {done.before} down to {done.after}.")
    for name, rows in sorted(done.deleted.items()):
        click.echo(f"Deleted {name}: {rows:,} {'row' if rows == 1 else 'rows'}.")
    if done.backup:
        click.echo(f"Backup: {escape_path(done.backup)}")
    click.echo("Install the older version now. This version migrates the database up again when it next uses it.")
