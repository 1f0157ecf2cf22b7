"""The commands of a registry, alike for prompts and rubrics."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prowess.interfaces.cli.groups import hand_down
from prowess.interfaces.cli.opening import common_options, with_engine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prowess.build.opening import Prowess
    from prowess.templates.shelves import Entry, EntryKind


def registry_group(kind: EntryKind, summary: str) -> click.Group:
    """`prowess prompts` or `prowess rubrics`, with everything below it."""

    @click.group(f"{kind}s", invoke_without_command=True, help=summary)
    @common_options
    @click.pass_context
    def group(ctx: click.Context, workspace: str | None, as_json: bool) -> None:
        if not hand_down(ctx, workspace, as_json=as_json):
            _list(kind, workspace, as_json=as_json)

    _add_reading(group, kind)
    _add_writing(group, kind)
    return group


def _add_reading(group: click.Group, kind: EntryKind) -> None:
    @group.command(
        "list", help=f"List every {kind} in reach: of the workspace, the home folder, the database and skills."
    )
    @common_options
    def list_(workspace: str | None, as_json: bool) -> None:
        _list(kind, workspace, as_json=as_json)

    @group.command("show", help=f"Show one {kind}: its latest release, or exactly the version named.")
    @click.argument("reference", metavar="ID[@VERSION]")
    @click.option("--skill", metavar="SLUG", default="", help="As this skill finds it, its own first.")
    @common_options
    def show(reference: str, skill: str, workspace: str | None, as_json: bool) -> None:
        from prowess.templates.registry import broken

        named, _, version = reference.partition("@")
        entry = with_engine(
            workspace, lambda prowess: prowess.registry_entry(kind, named, version or None, skill=skill)
        )
        if entry.value is None:
            raise broken(entry)
        _show(entry, as_json=as_json)

    @group.command("validate", help=f"Check {kind} files, or all {kind}s in reach, and say what to mend.")
    @click.argument("paths", nargs=-1, metavar="[PATH]...")
    @common_options
    def validate(paths: tuple[str, ...], workspace: str | None, as_json: bool) -> None:
        def work(prowess: Prowess) -> Any:
            return prowess.check_entries(kind, *map(Path, paths)) if paths else prowess.registered(kind)

        _judge(kind, with_engine(workspace, work), as_json=as_json)


def _add_writing(group: click.Group, kind: EntryKind) -> None:
    @group.command("add", help=f"Keep a {kind} from a file for the organization; a version never changes.")
    @click.argument("file", metavar="FILE")
    @common_options
    def add(file: str, workspace: str | None, as_json: bool) -> None:
        entry, new = with_engine(workspace, lambda prowess: prowess.register(kind, Path(file)))
        _told(entry.label, "added" if new else "unchanged", kind, as_json=as_json)

    @group.command("remove", help=f"Forget one version of a {kind} that the organization keeps; files are left alone.")
    @click.argument("reference", metavar="ID@VERSION")
    @common_options
    def remove(reference: str, workspace: str | None, as_json: bool) -> None:
        named, mark, version = reference.partition("@")
        if not (mark and version):
            raise click.UsageError(f"Name the version as well: {reference}@1.0.0.")
        with_engine(workspace, lambda prowess: prowess.unregister(kind, named, version))
        _told(reference, "removed", kind, as_json=as_json)


def _list(kind: EntryKind, workspace: str | None, *, as_json: bool) -> None:
    from prowess.interfaces.cli.printing import one_line, print_json, print_table

    found = with_engine(workspace, lambda prowess: prowess.registered(kind))
    if as_json:
        print_json([as_object(entry) for entry in found])
        return
    if not found:
        click.echo(f"There are no {kind}s here. Put files into {kind}s/, or `prowess {kind}s add FILE`.")
        return
    rows = [
        (one_line(entry.id, 48), one_line(entry.version, 20), one_line(entry.origin, 40), one_line(_about(entry)))
        for entry in found
    ]
    print_table(("id", "version", "from", "about"), rows, flexible=3)
    bad = sum(entry.value is None for entry in found)
    if bad:
        click.echo(f"{bad} cannot be used; `prowess {kind}s validate` says why.", err=True)


def _about(entry: Entry) -> str:
    if entry.value is None:
        return "✗ " + next((problem.message for problem in entry.problems if problem.severity == "error"), "")
    return entry.value.description


def _show(entry: Entry, *, as_json: bool) -> None:
    from prowess.interfaces.cli.printing import clean, one_line, print_json

    value = entry.value.as_json() if entry.value is not None else {}
    if as_json:
        print_json({**as_object(entry), entry.kind: value})
        return
    click.secho(one_line(entry.label), bold=True)
    click.echo(one_line(f"from {entry.origin}" + (f", {entry.location}" if entry.location else "")))
    if value.get("description"):
        click.echo(one_line(value["description"]))
    click.echo()
    click.echo(clean(value["template"]) if entry.kind == "prompt" else _criteria(value))


def _criteria(rubric: dict[str, Any]) -> str:
    from prowess.interfaces.cli.printing import one_line

    threshold = rubric["pass_threshold"]
    lines = [rubric["scoring_mode"] + (f", passes from {threshold:g} on" if threshold is not None else "")]
    for criterion in rubric["criteria"]:
        lines.append(f"\n{one_line(criterion['id'])} (weight {criterion['weight']:g}): {one_line(criterion['name'])}")
        lines.append(f"  {one_line(criterion['description'])}")
        lines.append(f"  pass: {one_line(criterion['pass_condition'])}")
        lines.append(f"  fail: {one_line(criterion['fail_condition'])}")
    return "\n".join(lines)


def _judge(kind: EntryKind, entries: Sequence[Entry], *, as_json: bool) -> None:
    from prowess.errors import Invalid
    from prowess.interfaces.cli.failures import EXIT_CODES, print_problems
    from prowess.interfaces.cli.printing import print_json_line, shown_path

    for entry in entries:
        if as_json:
            print_json_line(as_object(entry))
            continue
        mark = click.style("✗", fg="red") if entry.value is None else click.style("✓", fg="green")
        click.echo(f"{mark} {shown_path(entry.label)} ({shown_path(entry.location or entry.origin)})")
        print_problems(entry.problems)
    bad = sum(entry.value is None for entry in entries)
    if not as_json:
        verdict = f"{bad} not in order" if bad else "all are in order"
        click.echo(f"{len(entries)} {kind}{'s' * (len(entries) != 1)} checked: {verdict}.")
    if bad:
        raise click.exceptions.Exit(EXIT_CODES[Invalid])


def _told(label: str, outcome: str, kind: EntryKind, *, as_json: bool) -> None:
    from prowess.interfaces.cli.printing import one_line, print_json

    named, _, version = label.partition("@")
    if as_json:
        print_json({"kind": kind, "id": named, "version": version, "outcome": outcome})
        return
    words = {"added": "is kept", "unchanged": "is kept already, just so", "removed": "is forgotten"}
    click.echo(f"The {kind} {one_line(label)} {words[outcome]}.")


def as_object(entry: Entry) -> dict[str, Any]:
    """The shape that scripts rely on."""
    return {
        "kind": entry.kind,
        "id": entry.id,
        "version": entry.version,
        "origin": entry.origin,
        "location": entry.location,
        "description": entry.value.description if entry.value is not None else "",
        "ok": entry.value is not None,
        "problems": [asdict(problem) for problem in entry.problems],
    }
