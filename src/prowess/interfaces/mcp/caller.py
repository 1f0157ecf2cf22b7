"""Who a request comes from, and which conversation it belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mcp.server.context import ServerRequestContext

from prowess.policy.actor import Actor

Context = ServerRequestContext[Any, Any]

SCOPE_KEY = "prowess.caller"
"""Where the HTTP guard leaves the caller in the scope of a request."""

CONVERSATION_META = "prowess/conversation"
"""The key of `_meta` by which a client without a session says which conversation a request belongs to."""

_CONVERSATION_LIMIT = 200
_SESSION_LIMIT = _CONVERSATION_LIMIT - len("mcp:")


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The agent that calls, and the person who sits before its client and may answer questions.

    Without a `person` no question is asked: what needs approval is refused until somebody approves it elsewhere.
    `conversation` is the one that requests belong to which name none.
    """

    actor: Actor
    person: Actor | None = None
    conversation: str = ""

    @property
    def key(self) -> str:
        """The same for two requests if and only if they come from the same caller."""
        return "\x00".join((self.actor.organization, self.actor.user, self.actor.label))


def caller_of(context: Context, default: Caller) -> Caller:
    """The caller that the HTTP guard let in, or the one that this process serves."""
    request = context.request
    return default if request is None else request.scope[SCOPE_KEY]


def conversation_of(context: Context, caller: Caller) -> str:
    """The conversation of a request: the one it names, that of its connection, or else the caller's own."""
    named = (context.meta or {}).get(CONVERSATION_META)
    if isinstance(named, str) and 0 < len(named) <= _CONVERSATION_LIMIT:
        return named
    return session_conversation(context) or caller.conversation or f"mcp:{caller.actor.label}"


def session_conversation(context: Context) -> str:
    """The conversation of the session over HTTP that a request belongs to; '' where it belongs to none."""
    session = context.request.headers.get("mcp-session-id") if context.request is not None else None
    return f"mcp:{session[:_SESSION_LIMIT]}" if session else ""
