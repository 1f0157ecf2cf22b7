"""Pass the gate with a connector: what a person sees when asked, and what an approval is bound to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from prowess.connectors.config import ConnectorConfig
from prowess.connectors.tool_list import ConnectorTool
from prowess.engine.context import Context
from prowess.errors import TooLarge
from prowess.policy.actor import Action
from prowess.policy.configuration import read_policy
from prowess.policy.gate import admit, judge
from prowess.policy.subject import Subject
from prowess.storage import ledger

MAX_ARGUMENT_CHARS = 32_000
"""The most characters of arguments: a person who is asked must be able to see all of them."""

ConnectorScope = Literal["org", "workspace"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Connector:
    """A configured connector. `digest` covers its configuration and the files of the workspace that it runs.

    One of the organization was accepted by the person who added it. One of the workspace is `accepted` once a person has
    allowed exactly this digest. `problem` says why it cannot be used.
    """

    name: str
    scope: ConnectorScope
    config: ConnectorConfig | None = None
    digest: str = ""
    accepted: bool = False
    problem: str = ""
    tools: tuple[tuple[str, str], ...] = ()
    """The tools that are allowed without asking, each with the digest of its definition."""

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        config = self.config
        return {
            "name": self.name,
            "scope": self.scope,
            "transport": config.transport if config else "",
            "where": config.where if config else "",
            "description": config.description if config else "",
            "variables": list(config.variables) if config else [],
            "accepted": self.accepted,
            "allowed_tools": [name for name, _ in self.tools],
            "problem": self.problem,
            "digest": self.digest,
        }


def connect_subject(connector: Connector, config: ConnectorConfig) -> Subject:
    """Return the subject of opening a connector: its whole configuration."""
    requests = [f"starts the program: {config.where}" if config.command else f"sends requests to {config.where}"]
    requests += [f"gets the environment variable {name}" for name in config.variables]
    if config.private:
        requests.append("may reach private addresses")
    return Subject(
        slug=f"connector:{connector.name}",
        digest=connector.digest,
        title=f"Connector {connector.name}",
        description=config.description,
        scope=connector.scope,
        origin=f"{connector.scope} connector {connector.name}",
        requests=tuple(requests),
        text=json.dumps(config.as_json(), indent=2, ensure_ascii=False),
        permitted=connector.accepted,
    )


def call_subject(
    connector: Connector, config: ConnectorConfig, tool: ConnectorTool, arguments: Mapping[str, Any]
) -> Subject:
    """Return the subject of one call: this configuration, this definition of the tool, and exactly these arguments."""
    arguments_text = json.dumps(arguments, indent=2, ensure_ascii=False, sort_keys=True)
    if len(arguments_text) > MAX_ARGUMENT_CHARS:
        raise TooLarge(
            f"The arguments have {len(arguments_text):,} characters, more than the limit of {MAX_ARGUMENT_CHARS:,}.",
            hint="Call the tool with less data.",
        )
    bound = json.dumps([connector.digest, tool.digest, arguments], sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(bound.encode()).hexdigest()
    requests = [f"calls the tool {tool.name} of the connector {connector.name} ({config.where})"]
    requests.append("read-only, according to the server" if tool.reads else "it may make changes")
    if dict(connector.tools).get(tool.name, tool.digest) != tool.digest:
        requests.append("its definition has changed since you allowed it")
    return Subject(
        slug=f"connector:{connector.name}/{tool.name}",
        digest=digest,
        title=f"{connector.name}: {tool.name}",
        description=f"The server's description: {tool.description}" if tool.description else "",
        scope=connector.scope,
        # Each call is its own subject: other arguments are not a change of an earlier call.
        origin=f"{connector.scope} connector {connector.name}, call {digest[:12]}",
        requests=tuple(requests),
        text=arguments_text,
        permitted=tool.allowed,
    )


def pass_gate(context: Context, action: Action, subject: Subject, *, session: str = "", reason: str = "") -> None:
    """Return if the action is allowed, or raise the reason. Blocking. Every call of a tool leaves a row in the audit."""
    actor = context.actor
    if action == "connect" and judge(actor, action, subject, context.read_policy()).answer == "allow":
        return
    with context.resources.records().write() as connection:
        policy = read_policy(connection, actor.organization)
        admission = admit(connection, actor, action, subject, policy=policy, session_id=session, reason=reason)
        ledger.append(connection, actor.organization, audits=admission.audits, events=admission.events)
    context.resources.wake(actor.organization)
    if admission.error is not None:
        raise admission.error


def mark_allowed(connector: Connector, tools: Sequence[ConnectorTool]) -> list[ConnectorTool]:
    """Return the tools, with those marked that are allowed exactly as they are defined now."""
    allowed = dict(connector.tools)
    return [replace(tool, allowed=allowed.get(tool.name) == tool.digest) for tool in tools]
