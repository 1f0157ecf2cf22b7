"""Who sends a request. This module knows no protocol, so that every interface can use it."""

from __future__ import annotations

from dataclasses import dataclass

from prowess.policy.actor import Actor

SCOPE_KEY = "prowess.caller"
"""The key in an ASGI scope under which `RequestGuard` stores the caller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """An agent that sends requests, and the person at its client who may answer questions.

    Without a `person` nobody is asked: a request that needs approval is refused until somebody approves it elsewhere.
    `conversation` is the default for requests that name none. With `named_by_client` the agent takes the name that its
    client reports, so that records tell two clients of one person apart.
    """

    actor: Actor
    person: Actor | None = None
    conversation: str = ""
    named_by_client: bool = False

    @property
    def key(self) -> str:
        """A text that two requests share if and only if they come from the same caller."""
        return "\x00".join((self.actor.organization, self.actor.user, self.actor.label))
