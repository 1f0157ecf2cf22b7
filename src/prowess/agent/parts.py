"""What an application can set for all its conversations. Imports nothing: every engine has one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prowess.agent.agent import Agent
    from prowess.agent.conversation import Conversation
    from prowess.agent.decision import Decider
    from prowess.agent.memory import Memory
    from prowess.tools.tool import Tool


@dataclass(slots=True, kw_only=True)
class AgentParts:
    """Parts of the agent that an application can replace. All actors of an engine share them.

    `memory` and `graph_context` know things about a message: by default the facts that people had remembered, and no
    graph. `policies` is a text for every agent. `decider` decides about a message instead of the ranking. `tools` returns
    tools for a conversation, besides those of the toolbox.
    """

    memory: Memory | None = None
    graph_context: Memory | None = None
    policies: str = ""
    decider: Decider | None = None
    tools: Callable[[Agent, Conversation], Sequence[Tool]] | None = None
