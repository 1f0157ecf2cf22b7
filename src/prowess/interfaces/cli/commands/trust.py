"""`prowess trust`: accept found skills by their exact bytes or by folder, and revoke that."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from prowess.interfaces.cli.approval_card import format_time
from prowess.interfaces.cli.engine import Cli, common_options
from prowess.interfaces.cli.options import DefaultGroup, group
from prowess.interfaces.cli.output import escape_path, one_line, print_table
from prowess.interfaces.cli.person import TYPED, require_person, token_option
from prowess.interfaces.cli.trust_prompt import (
    accept_preview,
    ask_to_trust,
    format_previewed,
    print_outcome,
    print_preview,
)
from prowess.paths import expand_user, real_path

if TYPE_CHECKING:
    from prowess.engine.trust import TrustList, TrustPreview


class _TrustGroup(DefaultGroup):
    default = "accept"


@group(
    "trust",
    "prowess trust",
    "prowess trust my-skill",
    "prowess trust .agents/skills --always",
    cls=_TrustGroup,
    default="accept",
)
@token_option
def trust_command() -> None:
    """Show the skills that nobody has accepted yet, and ask once whether to trust them.

    Trust covers the exact files; after a change, Prowess asks again. `prowess trust TARGET` accepts one skill, or the skills
    in one folder.
    """


@trust_command.subcommand("accept", "prowess trust accept my-skill", "prowess trust accept .agents/skills --always")
@click.argument("target", default="", required=False)
@click.option("--always", is_flag=True, help="Trust everything in the folder TARGET, including future changes.")
@token_option
@common_options
def accept(target: str, always: bool, token_file: Path | None, cli: Cli) -> None:
    """Trust a skill, the skills in a folder, or without a TARGET all available skills, exactly as they are now.

    After a change, Prowess asks again. With --always, everything in the folder is trusted: use this only for a folder that
    only you edit.
    """
    if always:
        _add_folder(target, token_file, cli)
    else:
        _accept(target, token_file, cli)


@trust_command.subcommand("show", "prowess trust show", "prowess trust show my-skill --json")
@click.argument("target", default="", required=False)
@common_options
def show(target: str, cli: Cli) -> None:
    """Show what `prowess trust` would ask about, without changing anything."""
    preview = cli.call(lambda prowess: prowess.trust.preview(target))
    cli.print(preview, lambda: print_preview(preview.skills) if preview.skills else _print_nothing(preview))


@trust_command.subcommand("list", "prowess trust list", "prowess trust list --json")
@common_options
def list_trusted(cli: Cli) -> None:
    """List the accepted skills and folders."""
    found = cli.call(lambda prowess: prowess.trust.list(), quick=True)
    cli.print(found, lambda: _print_list(found))


@trust_command.subcommand("revoke", "prowess trust revoke my-skill", "prowess trust revoke .agents/skills")
@click.argument("target")
@common_options
def revoke(target: str, cli: Cli) -> None:
    """Stop trusting a skill, a digest or a folder, and remove its skills from all prompts.

    This needs neither a terminal nor a token.
    """
    count = cli.call(lambda prowess: prowess.trust.revoke(target))
    cli.print({"target": target, "revoked": count}, f"Stopped trusting {one_line(target)}.")


def _accept(target: str, token_file: Path | None, cli: Cli) -> None:
    proof = require_person("trust skills", token_file)
    preview = cli.call(lambda prowess: prowess.trust.preview(target))
    if not preview.skills:
        cli.print(
            {"preview": preview.as_json(), "accepted": (), "changed": ()},
            lambda: _print_nothing(preview),
        )
        return
    shown = {skill.slug: format_previewed(skill) for skill in preview.skills}
    if proof is TYPED:
        preview, shown = ask_to_trust(preview, cli)
        if not preview.skills:
            click.echo("Nothing accepted.")
            raise click.exceptions.Exit(1)
    outcome = accept_preview(preview, cli, proof=proof, shown=shown)
    cli.print({"preview": preview.as_json(), **outcome.as_json()}, lambda: print_outcome(outcome))


def _add_folder(target: str, token_file: Path | None, cli: Cli) -> None:
    if not target:
        raise click.UsageError("--always requires a folder: `prowess trust FOLDER --always`.")
    proof = require_person("trust a folder", token_file)
    if proof is TYPED:
        folder = escape_path(real_path(expand_user(target)))
        click.echo(f"This trusts every skill in {folder}, including future changes by anyone.")
        if not click.confirm("Are you the only one who edits this folder, and do you want this?", default=False):
            click.echo("Nothing accepted.")
            raise click.exceptions.Exit(1)
    rule = cli.call(lambda prowess: prowess.trust.add_folder(target, proof=proof.words), channel=proof.channel)
    cli.print(rule, f"Trusted all skills in {escape_path(rule.folder)}, including future changes.")


def _print_nothing(preview: TrustPreview) -> None:
    already = f" {preview.already} skill{'s' * (preview.already != 1)} already trusted." if preview.already else ""
    click.echo(f"Nothing to accept.{already}")


def _print_list(found: TrustList) -> None:
    for folder in found.operator_folders:
        click.echo(f"folder {escape_path(folder)}, set in PROWESS_TRUSTED_FOLDERS")
    for rule in found.folders:
        click.echo(one_line(f"folder {escape_path(rule.folder)}, by {rule.actor}, {format_time(rule.created_at)}"))
    rows = [
        (
            one_line(row.slug, 40),
            row.digest[:12],
            row.how,
            one_line(row.actor, 24),
            format_time(row.created_at),
            one_line(f"{row.channel} ({row.proof})" if row.proof else row.channel),
        )
        for row in found.skills
    ]
    if rows:
        print_table(("skill", "digest", "how", "by", "when", "channel"), rows, flexible=5)
    elif not (found.folders or found.operator_folders):
        click.echo("No accepted skills or folders.")
