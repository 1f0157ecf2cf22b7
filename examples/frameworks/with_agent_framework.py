"""An agent with Microsoft Agent Framework that uses skills.

Needs `pip install 'prowess[agent-framework]' agent-framework-openai` and OPENAI_API_KEY.

    python examples/frameworks/with_agent_framework.py "Do my notes about Mara contradict each other?"
"""

import asyncio
import os
import sys
from pathlib import Path

from prowess import Prowess

try:
    from agent_framework import Agent, Content, Message
    from agent_framework.openai import OpenAIChatClient

    from prowess.adapters.agent_framework import SkillProvider
except ImportError as error:
    sys.exit(f"{error}.\n\n{__doc__}")

WORKSPACE = Path(__file__).parents[1] / "workspace"


def ask(request: Content) -> Content:
    """Ask the person at the terminal about a function approval request."""
    print(request.additional_properties["text"])
    return request.to_function_approval_response(input("Approve? [y/N] ").strip().lower() == "y")


async def main(message: str) -> None:
    async with Prowess.open(WORKSPACE, trusted_folders=[WORKSPACE / ".agents"]) as prowess:
        agent = Agent(
            OpenAIChatClient(model=os.environ.get("MODEL", "gpt-6-mini")),
            instructions="You help a writer with a world of notes.",
            context_providers=[SkillProvider(prowess)],
        )
        session = agent.create_session()
        response = await agent.run(message, session=session)
        while requests := response.user_input_requests:
            answers = [ask(request) for request in requests]
            response = await agent.run(Message(role="user", contents=answers), session=session)
        print(response.text)


if __name__ == "__main__":
    if not os.environ.get("OPENAI_API_KEY"):
        sys.exit("Set OPENAI_API_KEY to an API key of OpenAI.")
    asyncio.run(main(" ".join(sys.argv[1:]) or "Do my notes about Mara contradict each other?"))
