"""An agent of the OpenAI Agents SDK that uses skills. Needs `pip install 'prowess[openai-agents]'` and OPENAI_API_KEY.

    python examples/frameworks/with_openai_agents.py "Do my notes about Mara contradict each other?"
"""

import asyncio
import os
import sys
from pathlib import Path

from prowess import Prowess
from prowess.adapters.agent_skills import AgentSkills, PendingApproval

try:
    from agents import Runner

    from prowess.adapters.openai_agents import SkillAgent, answer_interruptions
except ImportError as error:
    sys.exit(f"{error}.\n\n{__doc__}")

WORKSPACE = Path(__file__).parents[1] / "workspace"


async def ask(approval: PendingApproval) -> bool:
    """Ask the person at the terminal."""
    print(approval.text)
    return input("Approve? [y/N] ").strip().lower() == "y"


async def main(message: str) -> None:
    async with Prowess.open(WORKSPACE, trusted_folders=[WORKSPACE / ".agents"]) as prowess:
        skills = AgentSkills(prowess, conversation="openai-agents-example")
        agent = SkillAgent(
            name="Writer's help",
            model=os.environ.get("MODEL", "gpt-6-mini"),
            instructions="You help a writer with a world of notes.",
            skills=skills,
        )
        result = await Runner.run(agent, message)
        while result.interruptions:
            result = await Runner.run(agent, await answer_interruptions(result, ask))
        print(result.final_output)


if __name__ == "__main__":
    if not os.environ.get("OPENAI_API_KEY"):
        sys.exit("Set OPENAI_API_KEY to an API key of OpenAI.")
    asyncio.run(main(" ".join(sys.argv[1:]) or "Do my notes about Mara contradict each other?"))
