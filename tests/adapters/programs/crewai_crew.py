"""A crew of CrewAI whose agent has skills."""

import asyncio
import os
import sys
from pathlib import Path

from crewai import LLM, Crew, Task

from prowess import Prowess
from prowess.adapters.agent_skills import AgentSkills
from prowess.adapters.crewai import SkillAgent

WORKSPACE = Path(__file__).parents[3] / "examples/workspace"


async def main(message: str) -> None:
    async with Prowess.open(WORKSPACE, trusted_folders=[WORKSPACE / ".agents"]) as prowess:
        agent = SkillAgent(
            AgentSkills(prowess, conversation="crew"),
            role="Writer's help",
            goal="Answer questions about the notes.",
            backstory="You help a writer with a world of notes.",
            llm=LLM(model=os.environ["MODEL"]),
        )
        task = Task(description=message, expected_output="An answer", agent=agent)
        sys.stdout.write(f"{await Crew(agents=[agent], tasks=[task]).akickoff()}\n")


asyncio.run(main(sys.argv[1]))
