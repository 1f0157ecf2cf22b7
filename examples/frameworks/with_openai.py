"""An agent with OpenAI's SDK that uses skills. Needs `pip install 'prowess[openai]'` and OPENAI_API_KEY.

    python examples/frameworks/with_openai.py "Do my notes about Mara contradict each other?"
"""

import asyncio
import os
import sys
from pathlib import Path

from prowess import Prowess
from prowess.adapters.agent_skills import AgentSkills, PendingApproval

try:
    from openai import AsyncOpenAI

    from prowess.adapters.openai import run_tools
except ImportError as error:
    sys.exit(f"{error}.\n\n{__doc__}")

WORKSPACE = Path(__file__).parents[1] / "workspace"


async def ask(approval: PendingApproval) -> bool:
    """Ask the person at the terminal."""
    print(approval.text)
    return input("Approve? [y/N] ").strip().lower() == "y"


async def main(message: str) -> None:
    async with Prowess.open(WORKSPACE, trusted_folders=[WORKSPACE / ".agents"]) as prowess, AsyncOpenAI() as client:
        skills = AgentSkills(prowess, conversation="openai-example")
        done = await run_tools(
            client,
            skills,
            [{"role": "user", "content": message}],
            model=os.environ.get("MODEL", "gpt-6-mini"),
            instructions="You help a writer with a world of notes.",
            ask=ask,
        )
        print(done.text)


if __name__ == "__main__":
    if not os.environ.get("OPENAI_API_KEY"):
        sys.exit("Set OPENAI_API_KEY to an API key of OpenAI.")
    asyncio.run(main(" ".join(sys.argv[1:]) or "Do my notes about Mara contradict each other?"))
