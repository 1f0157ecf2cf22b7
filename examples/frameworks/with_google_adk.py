"""A Google ADK agent that uses skills. Needs `pip install 'prowess[google-adk]' anthropic` and ANTHROPIC_API_KEY.

    python examples/frameworks/with_google_adk.py "Do my notes about Mara contradict each other?"
"""

import asyncio
import os
import sys
from pathlib import Path

from prowess import Prowess

try:
    from google.adk.agents import LlmAgent
    from google.adk.models.anthropic_llm import AnthropicLlm
    from google.adk.runners import InMemoryRunner
    from google.genai import types

    from prowess.adapters.google_adk import SkillToolset
except ImportError as error:
    sys.exit(f"{error}.\n\n{__doc__}")

WORKSPACE = Path(__file__).parents[1] / "workspace"
CONFIRMATION = "adk_request_confirmation"


def ask(call: types.FunctionCall) -> types.Part:
    """Ask the person at the terminal about a tool confirmation."""
    print(call.args["toolConfirmation"]["hint"])
    confirmed = input("Approve? [y/N] ").strip().lower() == "y"
    answer = types.FunctionResponse(id=call.id, name=call.name, response={"confirmed": confirmed})
    return types.Part(function_response=answer)


async def main(message: str) -> None:
    async with Prowess.open(WORKSPACE, trusted_folders=[WORKSPACE / ".agents"]) as prowess:
        agent = LlmAgent(
            name="writer",
            model=AnthropicLlm(model=os.environ.get("MODEL", "claude-haiku-5-5")),
            instruction="You help a writer with a world of notes.",
            tools=[SkillToolset(prowess)],
        )
        async with InMemoryRunner(agent, app_name="example") as runner:
            session = await runner.session_service.create_session(app_name="example", user_id="writer")
            parts = [types.Part(text=message)]
            while parts:
                questions: list[types.FunctionCall] = []
                content = types.Content(role="user", parts=parts)
                async for event in runner.run_async(user_id="writer", session_id=session.id, new_message=content):
                    questions += [call for call in event.get_function_calls() if call.name == CONFIRMATION]
                    if event.is_final_response() and event.content:
                        print("".join(part.text or "" for part in event.content.parts), end="")
                parts = [ask(call) for call in questions]
        print()


if __name__ == "__main__":
    if not (os.environ.get("ANTHROPIC_API_KEY") or os.environ.get("ANTHROPIC_AUTH_TOKEN")):
        sys.exit("Set ANTHROPIC_API_KEY to an API key of Anthropic.")
    asyncio.run(main(" ".join(sys.argv[1:]) or "Do my notes about Mara contradict each other?"))
