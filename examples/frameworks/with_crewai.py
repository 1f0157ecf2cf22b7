"""A CrewAI agent that uses skills. Needs `pip install 'prowess[crewai]'` and OPENAI_API_KEY.

    python examples/frameworks/with_crewai.py "Do my notes about Mara contradict each other?"
"""

import asyncio
import os
import sys
from pathlib import Path

from prowess import Prowess
from prowess.adapters.agent_skills import AgentSkills, PendingApproval

try:
    from crewai import LLM

    from prowess.adapters.crewai import SkillAgent
except ImportError as error:
    sys.exit(f"{error}.\n\n{__doc__}")

WORKSPACE = Path(__file__).parents[1] / "workspace"


async def ask(approval: PendingApproval) -> bool:
    """Ask the person at the terminal."""
    print(approval.text)
    return (await asyncio.to_thread(input, "Approve? [y/N] ")).strip().lower() == "y"


async def main(message: str) -> None:
    async with Prowess.open(WORKSPACE, trusted_folders=[WORKSPACE / ".agents"]) as prowess:
        skills = AgentSkills(prowess, conversation="chat-4711")
        agent = SkillAgent(
            skills,
            ask=ask,
            role="Writer's help",
            goal="Answer questions about the notes.",
            backstory="You help a writer with a world of notes.",
            llm=LLM(model=os.environ.get("MODEL", "openai/gpt-6-mini")),
        )
        result = await agent.kickoff_async(message)
        print(result.raw)


if __name__ == "__main__":
    if not (os.environ.get("OPENAI_API_KEY") or os.environ.get("MODEL")):
        sys.exit("Set OPENAI_API_KEY to an API key of OpenAI, or MODEL to a model of another provider.")
    asyncio.run(main(" ".join(sys.argv[1:]) or "Do my notes about Mara contradict each other?"))
