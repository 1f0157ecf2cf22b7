"""An agent with a tool of its own that needs an approval, beside its skills; it continues from a stored state."""

import asyncio
import json
import sys

from agents import Runner, RunState, function_tool

from prowess import Prowess
from prowess.adapters.agent_skills import AgentSkills, PendingApproval
from prowess.adapters.openai_agents import SkillAgent, answer_interruptions


@function_tool(needs_approval=True)
def send_mail() -> str:
    """Send a mail."""
    return "sent"


async def approve(_: PendingApproval) -> bool:
    return True


def make_agent(prowess: Prowess) -> SkillAgent:
    skills = AgentSkills(prowess, conversation="chat")
    return SkillAgent(name="Writer's help", model="m", tools=[send_mail], skills=skills)


async def main(workspace: str) -> None:
    trusted = [f"{workspace}/.agents"]
    async with Prowess.open(workspace, trusted_folders=trusted) as prowess:
        result = await Runner.run(make_agent(prowess), "Good morning")
        both = sorted(item.tool_name for item in result.interruptions)
        stored = (await answer_interruptions(result, approve)).to_json()
    async with Prowess.open(workspace, trusted_folders=trusted) as prowess:
        agent = make_agent(prowess)
        result = await Runner.run(agent, await RunState.from_json(agent, stored))
        left = [item.tool_name for item in result.interruptions]
        state = result.to_state()
        state.reject(result.interruptions[0])
        result = await Runner.run(agent, state)
    sys.stdout.write(json.dumps({"both": both, "left": left, "answer": result.final_output}) + "\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
