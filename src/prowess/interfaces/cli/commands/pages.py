"""`prowess pages`: list, search and print the markdown pages of the workspace, as scripts of skills see them."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from prowess.interfaces.cli.approval_card import format_time
from prowess.interfaces.cli.engine import Cli, common_options
from prowess.interfaces.cli.options import group, limit_option
from prowess.interfaces.cli.output import clean, escape_path, one_line, print_json
from prowess.settings import read_settings

if TYPE_CHECKING:
    from prowess.workspace.workspace import Workspace

_MAX_LINES = 20
"""The most entries of a list that are printed; the rest is only counted."""

_NAMED = 3
"""The most unreadable files that are named on stderr; the rest is only counted."""

_type_option = click.option("--type", "type_", default="", metavar="TYPE", help="Only pages of this type.")


@group(
    "pages",
    "prowess pages",
    "prowess pages search release plan",
    "prowess pages show roadmap",
    default="list",
)
@_type_option
def pages_command() -> None:
    """List, search and print the markdown pages of the workspace."""


@pages_command.subcommand("list", "prowess pages list", "prowess pages list --type decision")
@_type_option
@common_options
def list_pages(type_: str, cli: Cli) -> None:
    """List the pages."""
    with _pages(cli) as pages:
        found = pages.get_pages_by_type(type_) if type_ else pages.get_all_pages()
        empty = "" if found else _describe_missing(type_, pages)
    _print_cards(found, cli, empty=empty)


def _describe_missing(type_: str, pages: Workspace) -> str:
    types = sorted({one_line(page["type"], 40) for page in pages.get_all_pages() if page["type"]})
    if not type_ or not types:
        return "No pages here."
    return f"No pages of type {one_line(type_, 40)!r}. Types here: {', '.join(types)}."


@pages_command.subcommand("search", "prowess pages search release plan", "prowess pages search budget --limit 5 --json")
@click.argument("words", nargs=-1, required=True)
@limit_option("pages", default=20, most=200)
@click.option("--content", is_flag=True, help="With --json: print whole pages, for use as an input of a run.")
@common_options
def search(words: tuple[str, ...], limit: int, content: bool, cli: Cli) -> None:
    """Search pages by words, or by the name of a type."""
    if content and not cli.as_json:
        raise click.UsageError("--content requires --json.")
    with _pages(cli) as pages:
        found = pages.workspace_search(" ".join(words), limit)
        if content:
            found = [page for page in pages.get_pages([page["slug"] for page in found]) if page]
    _print_cards(found, cli, empty="No matching page.")


@pages_command.subcommand("show", "prowess pages show roadmap", "prowess pages show docs/roadmap.md --json")
@click.argument("slug", metavar="PAGE")
@common_options
def show(slug: str, cli: Cli) -> None:
    """Print one page, by its slug, path, title or alias."""
    with _pages(cli) as pages:
        page = pages.get_page(slug)
    cli.print(page, clean(page["content"]).rstrip("\n"))


@pages_command.subcommand("tags", "prowess pages tags", "prowess pages tags --json")
@common_options
def tags(cli: Cli) -> None:
    """List the tags and the number of pages with each."""
    with _pages(cli) as pages:
        found = pages.get_tags()
    cli.print_table(
        found, ("tag", "pages"), lambda row: (one_line(row["tag"], 60), f"{row['pages']:,}"), empty="No tags."
    )


@pages_command.subcommand("links", "prowess pages links roadmap", "prowess pages links roadmap --json")
@click.argument("slug", metavar="PAGE")
@common_options
def links(slug: str, cli: Cli) -> None:
    """Show the links from a page, the links to it, and its broken links."""
    with _pages(cli) as pages:
        found = pages.get_references(slug)
    if cli.as_json:
        print_json(found)
        return
    _print_list("Links to", [page["slug"] for page in found["links"]])
    _print_list("Linked from", [page["slug"] for page in found["backlinks"]])
    _print_list("Broken links", found["missing"])
    if not any((found["links"], found["backlinks"], found["missing"])):
        click.echo("No links from or to this page.")


@pages_command.subcommand("history", "prowess pages history roadmap", "prowess pages history roadmap --limit 5")
@click.argument("slug", metavar="PAGE")
@limit_option("commits", default=20, most=200)
@common_options
def history(slug: str, limit: int, cli: Cli) -> None:
    """List the commits that changed a page, newest first."""
    with _pages(cli) as pages:
        found = pages.get_history(slug, limit)
    cli.print_table(
        found,
        ("commit", "when", "author", "subject"),
        lambda row: (row["commit"][:12], format_time(row["at"]), one_line(row["author"], 24), one_line(row["subject"])),
        flexible=3,
        empty="No commits found for this page.",
    )


@contextmanager
def _pages(cli: Cli) -> Generator[Workspace]:
    """Yield the pages of the chosen workspace. At the end, print on stderr which files could not be read."""
    from prowess.workspace.workspace import Workspace

    pages = Workspace(read_settings(workspace=cli.workspace).workspace)
    yield pages
    # Files are read on demand, so only now it is known which of them failed.
    skipped = pages.skipped
    for file in skipped[:_NAMED]:
        click.echo(f"Skipped {escape_path(file.path)}: {one_line(file.reason)}", err=True)
    if len(skipped) > _NAMED:
        click.echo(f"… and {len(skipped) - _NAMED:,} more files skipped.", err=True)


def _print_cards(found: Sequence[dict[str, Any]], cli: Cli, *, empty: str) -> None:
    cli.print_table(
        found,
        ("page", "title", "type", "text" if found and "snippet" in found[0] else "tags"),
        lambda page: (
            one_line(page["slug"], 60),
            one_line(page["title"], 40),
            one_line(page["type"], 20),
            one_line(page.get("snippet") or ", ".join(page["tags"])),
        ),
        flexible=3,
        empty=empty,
    )


def _print_list(title: str, lines: list[str]) -> None:
    """Print a heading and at most `_MAX_LINES` lines below it. Print nothing if there are no lines."""
    if lines:
        click.secho(title, bold=True)
    for line in lines[:_MAX_LINES]:
        click.echo(f"  {one_line(line)}")
    if len(lines) > _MAX_LINES:
        click.echo(f"  … and {len(lines) - _MAX_LINES} more; --json lists all")
