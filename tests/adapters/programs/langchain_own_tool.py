"""Two calls that wait at once, beside a tool of the agent's own; the graph continues from a stored checkpoint."""

import asyncio
import json
import sys

from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from prowess import Prowess
from prowess.adapters.agent_skills import AgentSkills, PendingApproval
from prowess.adapters.langchain import ProwessMiddleware, answer_interrupts

made: list[str] = []


@tool
def search_skills(query: str) -> str:
    """A tool of the agent's own, with a name that Prowess has too."""
    made.append(query)
    return "mine"


async def approve(_: PendingApproval) -> bool:
    return True


async def main(workspace: str) -> None:
    trusted, saver = [f"{workspace}/.agents"], InMemorySaver()
    config = {"configurable": {"thread_id": "1"}}
    given: object = {"messages": [HumanMessage("Good morning")]}
    asked: list[str] = []
    while given is not None:
        # A new engine and a new graph each time, as after a restart.
        async with Prowess.open(workspace, trusted_folders=trusted) as prowess:
            middleware = ProwessMiddleware(AgentSkills(prowess, conversation="chat"))
            agent = create_agent("openai:m", tools=[search_skills], middleware=[middleware], checkpointer=saver)
            result = await agent.ainvoke(given, config, version="v2")
            given = None
            if result.interrupts:
                asked += sorted(one.value["name"] for one in result.interrupts)
                given = Command(resume=await answer_interrupts(result.interrupts, approve))
    sys.stdout.write(json.dumps({"asked": asked, "made": made, "answer": result.value["messages"][-1].text}) + "\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
