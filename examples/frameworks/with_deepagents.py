"""A deep agent of LangChain that uses skills. Needs `pip install 'prowess[langchain]' deepagents langchain-openai` and OPENAI_API_KEY.

    python examples/frameworks/with_deepagents.py "Do my notes about Mara contradict each other?"
"""

import asyncio
import os
import sys
from pathlib import Path

from prowess import Prowess
from prowess.adapters.agent_skills import AgentSkills, PendingApproval

try:
    from deepagents import create_deep_agent
    from langchain_core.messages import HumanMessage
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.types import Command

    from prowess.adapters.langchain import ProwessMiddleware, answer_interrupts
except ImportError as error:
    sys.exit(f"{error}.\n\n{__doc__}")

WORKSPACE = Path(__file__).parents[1] / "workspace"


async def ask(approval: PendingApproval) -> bool:
    """Ask the person at the terminal."""
    print(approval.text)
    return input("Approve? [y/N] ").strip().lower() == "y"


async def main(message: str) -> None:
    async with Prowess.open(WORKSPACE, trusted_folders=[WORKSPACE / ".agents"]) as prowess:
        skills = AgentSkills(prowess, conversation="deepagents-example")
        agent = create_deep_agent(
            os.environ.get("MODEL", "openai:gpt-6-mini"),
            system_prompt="You help a writer with a world of notes.",
            middleware=[ProwessMiddleware(skills)],
            checkpointer=InMemorySaver(),
        )
        config = {"configurable": {"thread_id": skills.conversation}}
        result = await agent.ainvoke({"messages": [HumanMessage(message)]}, config, version="v2")
        while result.interrupts:
            answers = await answer_interrupts(result.interrupts, ask)
            result = await agent.ainvoke(Command(resume=answers), config, version="v2")
        print(result.value["messages"][-1].text)


if __name__ == "__main__":
    if not (os.environ.get("OPENAI_API_KEY") or os.environ.get("MODEL")):
        sys.exit("Set OPENAI_API_KEY to an API key of OpenAI, or MODEL to a model of another provider.")
    asyncio.run(main(" ".join(sys.argv[1:]) or "Do my notes about Mara contradict each other?"))
