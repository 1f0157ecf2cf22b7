"""`prowess history`, `diff`, `rollback` and `delete`: the versions of a skill."""

from __future__ import annotations

import click

from prowess.interfaces.cli.engine import common_options, with_engine


@click.command("history")
@click.argument("slug")
@common_options
def history_command(slug: str, workspace: str | None, as_json: bool) -> None:
    """List the versions of a skill, oldest first; also of one that was deleted."""
    from prowess.interfaces.cli.output import one_line, print_json, print_table

    versions = with_engine(workspace, lambda prowess: prowess.skills.history(slug))
    if as_json:
        print_json(versions)
        return
    rows = [
        (
            str(version.number),
            version.change,
            version.created_at[:19].replace("T", " ") + (f" by {one_line(version.actor)}" if version.actor else ""),
            str(len(version.manifest)),
            version.digest[:12],
            one_line(version.note),
        )
        for version in versions
    ]
    print_table(("version", "change", "when", "files", "digest", "note"), rows, flexible=5)


_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@click.command("diff")
@click.argument("slug")
@click.argument("before", type=click.IntRange(min=1), required=False)
@click.argument("after", type=click.IntRange(min=1), required=False)
@common_options
def diff_command(
    slug: str,
    before: int | None,
    after: int | None,
    workspace: str | None,
    as_json: bool,
) -> None:
    """Show what changed from version BEFORE to version AFTER.

    Without AFTER, up to the skill as it is now; without both, what the last change did.
    """
    from prowess.interfaces.cli.output import clean, print_json

    found = with_engine(workspace, lambda prowess: prowess.skills.diff(slug, before, after))
    if as_json:
        print_json({"slug": found.slug, "before": found.before, "after": found.after, "changes": found.changes})
        return
    old = f"version {found.before}" if found.before else "nothing"
    new = f"version {found.after}" if found.after else "now"
    click.echo(f"{found.slug}: {old} → {new}" + ("" if found.changes else ": no difference"))
    for change in found.changes:
        click.echo(click.style(f"\n{change.change} {clean(change.path)}", bold=True))
        for line in change.text.split("\n"):
            click.echo(click.style(clean(line), fg=_COLOURS.get(line[:1])))


@click.command("rollback")
@click.argument("slug")
@click.argument("version", type=click.IntRange(min=1))
@click.option("--note", default="", help="Why; kept with the new version.")
@common_options
def rollback_command(slug: str, version: int, note: str, workspace: str | None, as_json: bool) -> None:
    """Make VERSION of a skill current again, as a new version. Nothing is lost; a deleted skill comes back."""
    from prowess.interfaces.cli.output import print_json

    skill = with_engine(workspace, lambda prowess: prowess.skills.rollback(slug, version, note=note))
    if as_json:
        print_json(skill.card)
        return
    click.echo(f"{skill.slug} is as it was in version {version}; `prowess history {skill.slug}` shows every version.")


@click.command("delete")
@click.argument("slug")
@click.option("--note", default="", help="Why; kept with the version.")
@common_options
def delete_command(slug: str, note: str, workspace: str | None, as_json: bool) -> None:
    """Remove a skill. Its versions stay, so `prowess rollback` brings it back."""
    from prowess.interfaces.cli.output import clean, print_json

    deleted = with_engine(workspace, lambda prowess: prowess.skills.delete(slug, note=note))
    if as_json:
        print_json({"slug": deleted.slug, "version": deleted.number, "digest": deleted.digest})
        return
    back = deleted.number
    click.echo(f"Deleted {clean(deleted.slug)}. `prowess rollback {clean(deleted.slug)} {back}` brings it back.")
