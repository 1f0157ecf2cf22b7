"""`prowess trust`: accept skills that were found, by their exact bytes or by a rule for a folder, and take that back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from prowess.interfaces.cli.engine import common_options, with_engine
from prowess.interfaces.cli.options import DefaultGroup, delegate_to_subcommand
from prowess.interfaces.cli.person import token_option

if TYPE_CHECKING:
    from prowess.engine.trust import TrustList, TrustPreview


class _TrustGroup(DefaultGroup):
    default = "accept"


@click.group("trust", cls=_TrustGroup, invoke_without_command=True)
@token_option
@common_options
@click.pass_context
def trust_command(ctx: click.Context, token_file: Path | None, workspace: str | None, as_json: bool) -> None:
    """Show the skills in reach that nobody has accepted, and ask once whether to trust them, exactly as they are now.

    `prowess trust TARGET` is about one skill, or the skills in one folder.
    """
    if not delegate_to_subcommand(ctx, workspace, as_json=as_json):
        _accept("", token_file, workspace, as_json=as_json)


@trust_command.command("accept")
@click.argument("target", default="", required=False)
@click.option("--always", is_flag=True, help="Trust everything in the folder TARGET, also after every change.")
@token_option
@common_options
def accept(target: str, always: bool, token_file: Path | None, workspace: str | None, as_json: bool) -> None:
    """Trust a skill, or the skills in a folder, exactly as they are now; without a TARGET, all that are in reach.

    Later changes ask again. With --always, whatever lies in the folder is trusted: for a folder that only you edit.
    """
    if always:
        _add_folder(target, token_file, workspace, as_json=as_json)
    else:
        _accept(target, token_file, workspace, as_json=as_json)


@trust_command.command("show")
@click.argument("target", default="", required=False)
@common_options
def show(target: str, workspace: str | None, as_json: bool) -> None:
    """Show what `prowess trust` would ask about, and change nothing."""
    from prowess.interfaces.cli.output import print_json
    from prowess.interfaces.cli.trust_prompt import print_preview

    preview = with_engine(workspace, lambda prowess: prowess.trust.preview(target))
    if as_json:
        print_json(preview)
    elif preview.skills:
        print_preview(preview.skills)
    else:
        _print_nothing(preview)


@trust_command.command("list")
@common_options
def list_trusted(workspace: str | None, as_json: bool) -> None:
    """List what was accepted: skills by their bytes, and folders."""
    from prowess.interfaces.cli.output import print_json

    found = with_engine(workspace, lambda prowess: prowess.trust.list())
    if as_json:
        print_json(found)
    else:
        _print_list(found)


@trust_command.command("revoke")
@click.argument("target")
@common_options
def revoke(target: str, workspace: str | None, as_json: bool) -> None:
    """Take back what was accepted of a skill, a digest or a folder. It leaves the prompts that it is in.

    This makes things safer, so it needs neither a terminal nor a token.
    """
    from prowess.interfaces.cli.output import one_line, print_json

    count = with_engine(workspace, lambda prowess: prowess.trust.revoke(target))
    if as_json:
        print_json({"target": target, "revoked": count})
    else:
        click.echo(f"{one_line(target)} is no longer trusted.")


def _accept(target: str, token_file: Path | None, workspace: str | None, *, as_json: bool) -> None:
    from prowess.interfaces.cli.output import print_json
    from prowess.interfaces.cli.person import TYPED, require_person
    from prowess.interfaces.cli.trust_prompt import accept_preview, ask_to_trust, format_previewed, print_outcome

    proof = require_person("trust skills", token_file)
    preview = with_engine(workspace, lambda prowess: prowess.trust.preview(target))
    if not preview.skills and not as_json:
        _print_nothing(preview)
        return
    shown = {skill.slug: format_previewed(skill) for skill in preview.skills}
    if proof is TYPED:
        yes, shown = ask_to_trust(preview, workspace)
        if not yes:
            click.echo("Nothing was trusted.")
            raise click.exceptions.Exit(1)
    outcome = accept_preview(preview, workspace, proof=proof, shown=shown)
    if as_json:
        print_json({"preview": preview.as_json(), **outcome.as_json()})
    else:
        print_outcome(outcome)


def _add_folder(target: str, token_file: Path | None, workspace: str | None, *, as_json: bool) -> None:
    from prowess.interfaces.cli.output import escape_path, print_json
    from prowess.interfaces.cli.person import TYPED, require_person

    if not target:
        raise click.UsageError("--always goes with a folder: `prowess trust FOLDER --always`.")
    proof = require_person("trust a folder", token_file)
    if proof is TYPED:
        place = escape_path(Path(target).expanduser().resolve())
        click.echo(f"Every skill in {place} will be trusted, now and after every change, whoever writes it.")
        if not click.confirm("Do only you edit this folder, and do you want that?", default=False):
            click.echo("Nothing was trusted.")
            raise click.exceptions.Exit(1)
    rule = with_engine(
        workspace, lambda prowess: prowess.trust.add_folder(target, proof=proof.words), channel=proof.channel
    )
    if as_json:
        print_json(rule)
    else:
        click.echo(f"The skills in {escape_path(rule.folder)} are trusted from now on.")


def _print_nothing(preview: TrustPreview) -> None:
    already = f" {preview.already} trusted already." if preview.already else ""
    click.echo(f"There is nothing to trust here.{already}")


def _print_list(found: TrustList) -> None:
    from prowess.interfaces.cli.approval_card import format_time
    from prowess.interfaces.cli.output import escape_path, one_line, print_table

    for folder in found.operator_folders:
        click.echo(f"folder {escape_path(folder)}, by the setting PROWESS_TRUSTED_FOLDERS")
    for rule in found.folders:
        click.echo(one_line(f"folder {escape_path(rule.folder)}, by {rule.actor}, {format_time(rule.created_at)}"))
    rows = [
        (
            one_line(one.slug, 40),
            one.digest[:12],
            one.how,
            one_line(one.actor, 24),
            format_time(one.created_at),
            one_line(f"{one.channel} ({one.proof})" if one.proof else one.channel),
        )
        for one in found.skills
    ]
    if rows:
        print_table(("skill", "digest", "how", "by", "when", "through"), rows, flexible=5)
    elif not (found.folders or found.operator_folders):
        click.echo("Nothing was accepted yet.")
