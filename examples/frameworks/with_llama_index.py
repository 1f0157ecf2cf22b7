"""A LlamaIndex agent that uses skills. Needs `pip install 'prowess[llama-index]' llama-index-llms-openai` and OPENAI_API_KEY.

    python examples/frameworks/with_llama_index.py "Do my notes about Mara contradict each other?"
"""

import asyncio
import os
import sys
from pathlib import Path

from prowess import Prowess

try:
    from llama_index.core.workflow import Context, HumanResponseEvent, InputRequiredEvent
    from llama_index.llms.openai import OpenAI

    from prowess.adapters.llama_index import SkillAgent
except ImportError as error:
    sys.exit(f"{error}.\n\n{__doc__}")

WORKSPACE = Path(__file__).parents[1] / "workspace"


def ask(event: InputRequiredEvent) -> HumanResponseEvent:
    """Ask the person at the terminal."""
    print(event.prefix)
    approved = input("Approve? [y/N] ").strip().lower() == "y"
    return HumanResponseEvent(approval_id=event.approval_id, approved=approved)


async def main(message: str) -> None:
    async with Prowess.open(WORKSPACE, trusted_folders=[WORKSPACE / ".agents"]) as prowess:
        agent = SkillAgent(
            prowess,
            llm=OpenAI(model=os.environ.get("MODEL", "gpt-5-mini"), api_base=os.environ.get("OPENAI_BASE_URL")),
            system_prompt="You help a writer with a world of notes.",
        )
        run = agent.run(message, ctx=Context(agent))
        async for event in run.stream_events():
            if isinstance(event, InputRequiredEvent):
                run.ctx.send_event(ask(event))
        print(await run)


if __name__ == "__main__":
    if not os.environ.get("OPENAI_API_KEY"):
        sys.exit("Set OPENAI_API_KEY to an API key of OpenAI.")
    asyncio.run(main(" ".join(sys.argv[1:]) or "Do my notes about Mara contradict each other?"))
