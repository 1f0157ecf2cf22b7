"""`prowess init`: set up a workspace, and show the skills that agents already have here and at home."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from prowess.interfaces.cli.engine import Cli, common_options, spinner
from prowess.interfaces.cli.options import command
from prowess.interfaces.cli.output import escape_path, print_json, print_table
from prowess.settings import Settings, read_settings

if TYPE_CHECKING:
    from prowess.catalog.store import Fault
    from prowess.open import Prowess

SKILL_FOLDER = ".agents/skills"
_NAMED_AGENTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillFolder:
    """A folder of skills, how many are in it, and the agents that read it."""

    folder: str
    scope: str
    skills: int
    agents: tuple[str, ...]


@command("init", "prowess init", "prowess -w ~/projects/shop init", "prowess init --json")
@common_options
def init_command(cli: Cli) -> None:
    """Set up a workspace and find the skills that your agents already have, here and in your home folder.

    Creates the folder .agents/skills and the home folder of Prowess, unless they exist. Running it again changes nothing.
    """
    from prowess.interfaces.cli.commands.skills import is_role_pack, warn_faults

    settings = read_settings(workspace=cli.workspace)
    created = _create_folders(settings)

    async def work(prowess: Prowess) -> tuple[int, int, list[Fault]]:
        cards = [card for card in await prowess.skills.cards() if not is_role_pack(card)]
        return len(cards), sum(card.trust == "found" for card in cards), await prowess.skills.faults()

    with spinner("Reading skills …"):
        folders = _find_folders(settings)
        available, unaccepted, faults = cli.call(work)
    if cli.as_json:
        print_json(
            {
                "workspace": str(settings.workspace),
                "home": str(settings.home),
                "created": [str(path) for path in created],
                "folders": folders,
                "skills": available,
                "not_accepted": unaccepted,
            }
        )
        return
    _print_folders(settings, created, [folder for folder in folders if folder.skills])
    warn_faults(faults)
    _print_next(available, unaccepted)


def _create_folders(settings: Settings) -> list[Path]:
    """Create the skill folder of the workspace and the home folder of Prowess. Return those that did not exist."""
    folder = settings.workspace / SKILL_FOLDER
    created = [path for path in (folder, settings.home) if not path.is_dir()]
    folder.mkdir(parents=True, exist_ok=True)
    settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    return created


def _find_folders(settings: Settings) -> list[SkillFolder]:
    from prowess.catalog.discovery import find_agents
    from prowess.engine.places import Places
    from prowess.storage.files.skill_paths import find_skills

    return [
        SkillFolder(
            folder=place.address,
            scope=place.scope,
            skills=sum(1 for _ in find_skills(Path(place.address))),
            agents=find_agents(Path(place.address), settings.user_home, settings.environment),
        )
        for place in Places(settings).present()
        if place.kind == "folder"
    ]


def _print_folders(settings: Settings, created: list[Path], folders: list[SkillFolder]) -> None:
    for path in created:
        click.echo(f"Created {escape_path(path)}")
    if not created:
        click.echo(f"{escape_path(settings.workspace)} is already set up.")
    if folders:
        click.echo("")
        rows = [
            (_shorten(row.folder, settings), f"{row.skills:,}", row.scope, _join_agents(row.agents)) for row in folders
        ]
        print_table(("folder", "skills", "scope", "read by"), rows, flexible=3)


def _shorten(folder: str, settings: Settings) -> str:
    """Return a path relative to the workspace, or with ~ for the home folder."""
    path = Path(folder)
    if path.is_relative_to(settings.workspace):
        return escape_path(path.relative_to(settings.workspace))
    if path.is_relative_to(settings.user_home):
        return escape_path(Path("~") / path.relative_to(settings.user_home))
    return escape_path(path)


def _join_agents(agents: tuple[str, ...]) -> str:
    more = len(agents) - _NAMED_AGENTS
    return ", ".join(agents[:_NAMED_AGENTS]) + (f" and {more} more" if more > 0 else "")


def _print_next(available: int, unaccepted: int) -> None:
    steps: list[tuple[str, str]] = []
    if available:
        steps.append(('prowess match "what you want to do"', "find the skill for a task"))
    steps.append(("prowess new my-skill", "create a skill"))
    if not available:
        steps.append(("prowess import PATH", "import skills from a folder or archive"))
    steps.append(("prowess mcp --install claude-code", "use these skills in Claude Code"))
    if unaccepted:
        steps.insert(0, ("prowess trust", "review and accept the skills found here"))
    count = "1 skill" if available == 1 else f"{available:,} skills"
    click.echo(f"\n{count} available{f', {unaccepted:,} not accepted yet' if unaccepted else ''}. Next steps:")
    width = max(len(line) for line, _ in steps)
    for line, what in steps:
        click.echo(f"  {line.ljust(width)}  {what}")
