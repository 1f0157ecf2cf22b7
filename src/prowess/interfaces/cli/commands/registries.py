"""`prowess prompts` and `rubrics`: the registries of versioned prompts and rubrics."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from prowess.errors import Invalid
from prowess.interfaces.cli.engine import Cli, common_options
from prowess.interfaces.cli.error_output import EXIT_CODES, print_problems
from prowess.interfaces.cli.options import CommandGroup
from prowess.interfaces.cli.options import group as make_group
from prowess.interfaces.cli.output import clean, escape_path, one_line, print_json, print_json_line
from prowess.view import entry_json, to_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prowess.open import Prowess
    from prowess.prompts.shelf import EntryKind, RegistryEntry


def registry_group(kind: EntryKind, summary: str) -> CommandGroup:
    """Return the command group `prowess prompts` or `prowess rubrics` with all its subcommands."""

    @make_group(f"{kind}s", f"prowess {kind}s", f"prowess {kind}s add {kind}.yaml", default="list", help=summary)
    def group() -> None:
        pass

    _add_read_commands(group, kind)
    _add_write_commands(group, kind)
    return group


def _add_read_commands(group: CommandGroup, kind: EntryKind) -> None:
    @group.subcommand(
        "list",
        f"prowess {kind}s list",
        f"prowess {kind}s list --json",
        help=f"List the available {kind}s: from the workspace, the home folder, the database and skills.",
    )
    @common_options
    def list_(cli: Cli) -> None:
        found = cli.call(lambda prowess: prowess.registry.list(kind))
        has_table = cli.print_table(
            found,
            ("id", "version", "from", "about"),
            lambda row: (
                one_line(row.id, 48),
                one_line(row.version, 20),
                one_line(row.origin, 40),
                one_line(_describe(row)),
            ),
            flexible=3,
            empty=f"No {kind}s here. Create files in {kind}s/, or run `prowess {kind}s add FILE`.",
            view=entry_json,
        )
        bad = sum(row.value is None for row in found)
        if has_table and bad:
            click.echo(f"{bad} of these cannot be used. `prowess {kind}s validate` shows why.", err=True)

    @group.subcommand(
        "show",
        f"prowess {kind}s show my-{kind}",
        f"prowess {kind}s show my-{kind}@1.2.0",
        help=f"Show one {kind}: the latest release, or the version given.",
    )
    @click.argument("reference", metavar="ID[@VERSION]")
    @click.option("--skill", metavar="SLUG", default="", help="Resolve it as this skill does, its own files first.")
    @common_options
    def show(reference: str, skill: str, cli: Cli) -> None:
        from prowess.prompts.registry import unusable_entry

        named, _, version = reference.partition("@")
        entry = cli.call(lambda prowess: prowess.registry.get(kind, named, version or None, skill=skill))
        if entry.value is None:
            raise unusable_entry(entry)
        _print_entry(entry, cli)

    @group.subcommand(
        "validate",
        f"prowess {kind}s validate",
        f"prowess {kind}s validate {kind}s/",
        help=f"Check {kind} files, or all available {kind}s, and show how to fix problems.",
    )
    @click.argument("paths", nargs=-1, metavar="[PATH]...")
    @common_options
    def validate(paths: tuple[str, ...], cli: Cli) -> None:
        def work(prowess: Prowess) -> Any:
            return prowess.registry.check(kind, *map(Path, paths)) if paths else prowess.registry.list(kind)

        _print_checks(kind, cli.call(work), cli)


def _add_write_commands(group: CommandGroup, kind: EntryKind) -> None:
    @group.subcommand(
        "add",
        f"prowess {kind}s add {kind}.yaml",
        f"prowess {kind}s add {kind}.yaml --json",
        help=f"Store a {kind} from a file for the organization. A stored version never changes.",
    )
    @click.argument("file", metavar="FILE")
    @common_options
    def add(file: str, cli: Cli) -> None:
        entry, new = cli.call(lambda prowess: prowess.registry.add(kind, Path(file)))
        _print_outcome(entry.label, "added" if new else "unchanged", kind, cli)

    @group.subcommand(
        "remove",
        f"prowess {kind}s remove my-{kind}@1.0.0",
        f"prowess {kind}s remove my-{kind}@1.0.0 --json",
        help=f"Remove one stored version of a {kind}. Files are not touched.",
    )
    @click.argument("reference", metavar="ID@VERSION")
    @common_options
    def remove(reference: str, cli: Cli) -> None:
        named, mark, version = reference.partition("@")
        if not (mark and version):
            raise click.UsageError(f"Missing version. Write it after an @, for example {reference}@1.0.0.")
        cli.call(lambda prowess: prowess.registry.remove(kind, named, version))
        _print_outcome(reference, "removed", kind, cli)


def _describe(entry: RegistryEntry) -> str:
    if entry.value is None:
        return "✗ " + next((problem.message for problem in entry.problems if problem.severity == "error"), "")
    return entry.value.description


def _print_entry(entry: RegistryEntry, cli: Cli) -> None:
    value: dict[str, Any] = to_json(entry.value) or {}
    if cli.as_json:
        print_json({**entry_json(entry), entry.kind: value})
        return
    click.secho(one_line(entry.label), bold=True)
    click.echo(one_line(f"from {entry.origin}" + (f", {entry.location}" if entry.location else "")))
    if value.get("description"):
        click.echo(one_line(value["description"]))
    click.echo()
    click.echo(clean(value["template"]) if entry.kind == "prompt" else _format_criteria(value))


def _format_criteria(rubric: dict[str, Any]) -> str:
    threshold = rubric["pass_threshold"]
    lines = [rubric["scoring_mode"] + (f", pass threshold {threshold:g}" if threshold is not None else "")]
    for criterion in rubric["criteria"]:
        lines.append(f"\n{one_line(criterion['id'])} (weight {criterion['weight']:g}): {one_line(criterion['name'])}")
        lines.append(f"  {one_line(criterion['description'])}")
        lines.append(f"  pass: {one_line(criterion['pass_condition'])}")
        lines.append(f"  fail: {one_line(criterion['fail_condition'])}")
    return "\n".join(lines)


def _print_checks(kind: EntryKind, entries: Sequence[RegistryEntry], cli: Cli) -> None:
    for entry in entries:
        if cli.as_json:
            print_json_line(entry_json(entry))
            continue
        mark = click.style("✗", fg="red") if entry.value is None else click.style("✓", fg="green")
        click.echo(f"{mark} {escape_path(entry.label)} ({escape_path(entry.location or entry.origin)})")
        print_problems(entry.problems)
    bad = sum(entry.value is None for entry in entries)
    if not cli.as_json:
        verdict = f"{bad} with errors" if bad else "no errors"
        click.echo(f"{len(entries)} {kind}{'s' * (len(entries) != 1)} checked, {verdict}.")
    if bad:
        raise click.exceptions.Exit(EXIT_CODES[Invalid])


def _print_outcome(label: str, outcome: str, kind: EntryKind, cli: Cli) -> None:
    named, _, version = label.partition("@")
    verb = {"added": "Added", "unchanged": "Unchanged:", "removed": "Removed"}[outcome]
    fields = {"kind": kind, "id": named, "version": version, "outcome": outcome}
    cli.print(fields, f"{verb} {kind} {one_line(label)}.")


prompts_command = registry_group(
    "prompt", "List, show, check and store the prompts that skills refer to by id and version."
)


rubrics_command = registry_group(
    "rubric", "List, show, check and store the rubrics that skills refer to by id and version."
)
