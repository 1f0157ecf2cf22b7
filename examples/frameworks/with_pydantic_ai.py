"""A pydantic-ai agent that uses skills. Needs `pip install 'prowess[pydantic-ai,openai]'` and OPENAI_API_KEY.

    python examples/frameworks/with_pydantic_ai.py "Do my notes about Mara contradict each other?"
"""

import asyncio
import os
import sys
from pathlib import Path

from prowess import Prowess
from prowess.adapters.agent_skills import AgentSkills, PendingApproval

try:
    from pydantic_ai import Agent, DeferredToolRequests

    from prowess.adapters.pydantic_ai import SkillToolset, answer_requests
except ImportError as error:
    sys.exit(f"{error}.\n\n{__doc__}")

WORKSPACE = Path(__file__).parents[1] / "workspace"


async def ask(approval: PendingApproval) -> bool:
    """Ask the person at the terminal."""
    print(approval.text)
    return input("Approve? [y/N] ").strip().lower() == "y"


async def main(message: str) -> None:
    async with Prowess.open(WORKSPACE, trusted_folders=[WORKSPACE / ".agents"]) as prowess:
        skills = AgentSkills(prowess, conversation="pydantic-ai-example")
        agent = Agent(
            os.environ.get("MODEL", "openai:gpt-6-mini"),
            instructions="You help a writer with a world of notes.",
            output_type=[str, DeferredToolRequests],
            toolsets=[SkillToolset(skills)],
        )
        result = await agent.run(message)
        while isinstance(result.output, DeferredToolRequests):
            answers = await answer_requests(skills, result.output, ask)
            result = await agent.run(message_history=result.all_messages(), deferred_tool_results=answers)
        print(result.output)


if __name__ == "__main__":
    if not (os.environ.get("OPENAI_API_KEY") or os.environ.get("MODEL")):
        sys.exit("Set OPENAI_API_KEY to an API key of OpenAI, or MODEL to a model of another provider.")
    asyncio.run(main(" ".join(sys.argv[1:]) or "Do my notes about Mara contradict each other?"))
