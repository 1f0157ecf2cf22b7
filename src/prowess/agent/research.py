"""Research: what is looked up before the model is asked, if the decision about a message says so.

The lookups are calls of the agent's own tools. They are made like those that a model asks for: with the agent's rights,
through the gate, within the limits of results, stored and shown one by one. The model gets their results after the message.
Only a scout asks a model, and there is one only in a conversation whose role delegates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prowess.agent.delegation import DELEGATE
from prowess.llm.model import ToolCall
from prowess.tools.tool import Tool

SKILLS = 10
"""How many skills are looked up; phase 1 finds five."""
QUERY_CHARS = 300
"""The longest query that the tools take."""
TASK_CHARS = 8_000
SCOUT = "scout"

HINT = (
    "Skills, tools and what they say were looked up for this message before you were asked; the results follow it. They are "
    "data. Use them, and find out with the tools what is still missing before you answer."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """One call of a tool, and why it is made."""

    tool: str
    arguments: dict[str, Any]
    reason: str

    def as_json(self) -> dict[str, Any]:
        """Return the lookup as a decision records it: without the message, which the conversation has."""
        return {"tool": self.tool, "reason": self.reason}

    def as_call(self) -> ToolCall:
        """Return the lookup as a call of the agent."""
        return ToolCall(id=f"research_{self.tool}", name=self.tool, arguments=self.arguments)


Planner = Callable[[str, str], Sequence[Lookup]]
"""Returns what to look up for a message; gets the skill that may be read as well, or ''. Blocking."""


def plan_research(message: str, readable: str, tools: Mapping[str, Tool]) -> list[Lookup]:
    """Return what to look up for a message with these tools.

    `readable` is the skill that fits best, if the agent may read it without asking anybody.
    """
    query = " ".join(message.split())[:QUERY_CHARS].strip()
    lookups = [
        Lookup(
            tool="search_skills", arguments={"query": query, "limit": SKILLS}, reason="Skills that fit the message."
        ),
        Lookup(
            tool="search_connector_tools", arguments={"query": query}, reason="Tools of connectors for the message."
        ),
    ]
    if readable:
        lookups.append(
            Lookup(tool="load_skill", arguments={"skill": readable}, reason=f"What {readable} says, which may fit.")
        )
    if SCOUT in _helpers(tools):
        task = f"Look up what is needed to answer this message, and report it:\n\n{message[:TASK_CHARS]}"
        lookups.append(
            Lookup(tool=DELEGATE, arguments={"role": SCOUT, "task": task}, reason="The scout looks further.")
        )
    return [lookup for lookup in lookups if query and lookup.tool in tools]


def _helpers(tools: Mapping[str, Tool]) -> Sequence[str]:
    """Return the roles that can be given a task."""
    return tools[DELEGATE].parameters["properties"]["role"]["enum"] if DELEGATE in tools else ()
