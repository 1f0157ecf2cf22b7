"""An agent with Anthropic's SDK that uses skills. Needs `pip install 'prowess[anthropic]'` and ANTHROPIC_API_KEY.

    python examples/frameworks/with_anthropic.py "Do my notes about Mara contradict each other?"
"""

import asyncio
import os
import sys
from pathlib import Path

from prowess import Prowess
from prowess.adapters.agent_skills import AgentSkills, PendingApproval

try:
    from anthropic import AsyncAnthropic

    from prowess.adapters.anthropic import run_tools
except ImportError as error:
    sys.exit(f"{error}.\n\n{__doc__}")

WORKSPACE = Path(__file__).parents[1] / "workspace"


async def ask(approval: PendingApproval) -> bool:
    """Ask the person at the terminal."""
    print(approval.text)
    return input("Approve? [y/N] ").strip().lower() == "y"


async def main(message: str) -> None:
    async with Prowess.open(WORKSPACE, trusted_folders=[WORKSPACE / ".agents"]) as prowess, AsyncAnthropic() as client:
        skills = AgentSkills(prowess, conversation="anthropic-example")
        done = await run_tools(
            client,
            skills,
            [{"role": "user", "content": message}],
            model=os.environ.get("MODEL", "claude-haiku-5-5"),
            system="You help a writer with a world of notes.",
            ask=ask,
        )
        print(done.text)


if __name__ == "__main__":
    if not (os.environ.get("ANTHROPIC_API_KEY") or os.environ.get("ANTHROPIC_AUTH_TOKEN")):
        sys.exit("Set ANTHROPIC_API_KEY to an API key of Anthropic.")
    asyncio.run(main(" ".join(sys.argv[1:]) or "Do my notes about Mara contradict each other?"))
