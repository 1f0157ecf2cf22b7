"""An agent with the Claude Agent SDK that uses skills. Needs `pip install 'prowess[claude-agent]'` and ANTHROPIC_API_KEY.

    python examples/frameworks/with_claude_agent.py "Do my notes about Mara contradict each other?"
"""

import asyncio
import os
import sys
from pathlib import Path

from prowess import Prowess
from prowess.adapters.agent_skills import AgentSkills, PendingApproval

try:
    from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, ResultMessage

    from prowess.adapters.claude_agent import add_skills
except ImportError as error:
    sys.exit(f"{error}.\n\n{__doc__}")

WORKSPACE = Path(__file__).parents[1] / "workspace"


async def ask(approval: PendingApproval) -> bool:
    """Ask the person at the terminal."""
    print(approval.text)
    return input("Approve? [y/N] ").strip().lower() == "y"


async def main(message: str) -> None:
    async with Prowess.open(WORKSPACE, trusted_folders=[WORKSPACE / ".agents"]) as prowess:
        skills = AgentSkills(prowess, conversation="claude-agent-example")
        # No tools and no settings of Claude Code itself: only skills.
        options = ClaudeAgentOptions(
            model=os.environ.get("MODEL", "claude-haiku-5-5"),
            system_prompt="You help a writer with a world of notes.",
            tools=[],
            setting_sources=[],
        )
        async with ClaudeSDKClient(await add_skills(options, skills, ask)) as client:
            await client.query(message)
            async for said in client.receive_response():
                if isinstance(said, ResultMessage):
                    print(said.result)


if __name__ == "__main__":
    asyncio.run(main(" ".join(sys.argv[1:]) or "Do my notes about Mara contradict each other?"))
