"""The agents that skills can be installed for: where each reads its skills, in a project and in a home folder.

The table itself is `prowess.catalog.discovery.AGENTS`: what is installed is found again by the same rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from prowess.catalog.discovery import AGENTS, PLAIN_NAMES, AgentFolders
from prowess.errors import Invalid, NotFound
from prowess.suggestions import did_you_mean

SHARED_FOLDER = ".agents/skills"
"""The folder that most agents read. Skills are kept here, and other agents get links to them."""
UNIVERSAL = "universal"
"""The agent that stands for all agents that read the shared folder."""

_BY_ID = {agent.agent: agent for agent in AGENTS}


def find_agent(name: str) -> AgentFolders:
    """Return an agent by its id; raise `NotFound` with a near one."""
    agent = _BY_ID.get(name.strip().lower())
    if agent is None:
        raise NotFound(
            f"Unknown agent {name[:80]!r}.",
            hint=did_you_mean(name, _BY_ID) or f"Use one of: {', '.join(sorted(_BY_ID))}.",
        )
    return agent


def parse_agents(values: Iterable[str]) -> tuple[str, ...]:
    """Return agent ids from options such as `claude-code,cursor`, each once; `*` stands for all agents."""
    names = [name for value in values for name in value.split(",") if name.strip()]
    if "*" in (name.strip() for name in names):
        return tuple(_BY_ID)
    return tuple(dict.fromkeys(find_agent(name).agent for name in names))


def reads_shared_folder(agent: str) -> bool:
    """Return True if an agent reads `.agents/skills` of a project. The skills CLI calls these universal."""
    return find_agent(agent).project == SHARED_FOLDER


def project_skills_folder(agent: str, project: Path) -> Path:
    """Return where an agent reads the skills of a project."""
    return project / find_agent(agent).project


def user_skills_folder(agent: str, home: Path, environment: Mapping[str, str]) -> Path:
    """Return where an agent reads the skills of a user: where its variable points, or a folder in the home folder.

    Raise `Invalid` if the agent has no such folder. Agents that read the shared folder of a project share that of the user too,
    as in the skills CLI.
    """
    row = find_agent(agent)
    if not row.user:
        raise Invalid(f"The agent {agent!r} has no skills for all projects.", hint="Leave out --global.")
    if row.project == SHARED_FOLDER:
        return home / SHARED_FOLDER
    places: list[Path] = []
    for place in row.user:
        head, _, rest = place.partition("/")
        if head == "~":
            places.append(home / rest)
        # A relative path would mean another folder in every working directory.
        elif os.path.isabs(environment.get(head[1:]) or ""):  # noqa: PTH117  (text of a variable, maybe '')
            return Path(environment[head[1:]]) / rest
    # An agent that was renamed keeps using the folder it already has.
    return next((place for place in places if place.parent.is_dir()), places[0])


def detect_agents(base: Path, *, home: Path, environment: Mapping[str, str], user: bool) -> tuple[str, ...]:
    """Return the agents to install for if none is named: the shared folder, and every agent with its own folder here.

    An agent counts if the hidden folder for its settings exists, such as `.claude`.
    """
    found = [UNIVERSAL]
    for agent in AGENTS:
        if agent.project == SHARED_FOLDER or agent.project in PLAIN_NAMES or (user and not agent.user):
            continue
        folder = user_skills_folder(agent.agent, home, environment) if user else base / agent.project
        top = folder.parent if user else base / agent.project.partition("/")[0]
        if top.is_dir():
            found.append(agent.agent)
    return tuple(_first_of_each_folder(found, base, home, environment, user=user))


def _first_of_each_folder(
    agents: Iterable[str], base: Path, home: Path, environment: Mapping[str, str], *, user: bool
) -> list[str]:
    """Return one agent for each folder: several read the same."""
    seen: dict[Path, str] = {}
    for agent in agents:
        folder = user_skills_folder(agent, home, environment) if user else project_skills_folder(agent, base)
        seen.setdefault(folder, agent)
    return list(seen.values())
