"""Actors (a person, or an agent on a person's behalf), actions, and the permission that each action needs."""

from __future__ import annotations

import getpass
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, get_args

from prowess.errors import Invalid, Refused
from prowess.lazy_dataclass import dataclass
from prowess.policy.text import clean_text, has_control_chars
from prowess.storage.owner import Owner

Permission = Literal["skills.read", "skills.write", "skills.run", "approvals.resolve", "admin"]
PERMISSIONS: frozenset[Permission] = frozenset(get_args(Permission))
AGENT_PERMISSIONS: frozenset[Permission] = frozenset({"skills.read", "skills.write", "skills.run"})
"""All permissions that an agent can have. Agents never approve and never configure."""

AGENT_PREFIX = "agent:"
_NAME_LIMIT = 200
_LOOP_PREFIX = "agent:"
_REMOTE_CHANNELS = ("http", "web")
REMOTE_MCP = "mcp-remote:"
"""The beginning of the channel of an MCP client that may be on another machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """One person or agent, acting for one user of one organization ('' and '' for the embedded single user).

    An agent never has `approvals.resolve` or `admin`, even if they are passed; every actor that is not a person is an
    agent. Names are checked so that no `label` can be mistaken for another one. `channel` is how the actor connected
    (`library`, `cli`, `terminal`, `mcp:CLIENT`, `mcp-remote:CLIENT`, `http`, `web`, or `agent:CHANNEL` for the agent of a
    conversation that a person has through this channel); it gives no rights and is recorded with everything the actor does. `token` is the id of the token
    that the actor acts with, if there is one; tokens that are created with it do not outlive it.
    """

    name: str
    kind: Literal["person", "agent"] = "person"
    organization: str = ""
    user: str = ""
    role: str = ""
    permissions: frozenset[Permission] = PERMISSIONS
    channel: str = "library"
    token: str = ""

    def __post_init__(self) -> None:
        _check_name(self.name, person=self.is_person)
        for part in (self.organization, self.user, self.role, self.channel):
            if len(part) > _NAME_LIMIT or has_control_chars(part):
                raise Invalid(
                    f"Invalid organization, user, role or channel {part[:80]!r}.",
                    hint="Use a plain name or id without control characters.",
                )
        # Cut here and not where actors are made, so that no caller can create an agent that approves its own requests.
        allowed = PERMISSIONS if self.is_person else AGENT_PERMISSIONS
        object.__setattr__(self, "permissions", frozenset(self.permissions) & allowed)

    @property
    def is_person(self) -> bool:
        """True if the actor is a person."""
        return self.kind == "person"

    @property
    def is_remote(self) -> bool:
        """True if the actor may be on another machine, whose files and paths are not those of this one.

        Over MCP, that is every member of an organization: only a server has them.
        """
        channel = self.channel.removeprefix(_LOOP_PREFIX)
        return channel in _REMOTE_CHANNELS or (bool(self.organization) and channel.startswith(("mcp:", REMOTE_MCP)))

    @property
    def can_use_paths(self) -> bool:
        """True if the actor is certainly at this machine, so that paths of its files are useful.

        A single user's MCP client on another machine may do the same as one at this machine, but has other files.
        """
        return not self.is_remote and not self.channel.removeprefix(_LOOP_PREFIX).startswith(REMOTE_MCP)

    @property
    def is_tenant(self) -> bool:
        """True for a member of an organization of a server, whose machine and folders belong to its operator."""
        return self.is_remote and bool(self.organization)

    @property
    def is_hosted(self) -> bool:
        """True for an agent that runs in the application's own process, which opens sessions for it."""
        return not self.is_person and (self.channel == "library" or self.channel.startswith(_LOOP_PREFIX))

    @property
    def admin(self) -> bool:
        """True for a person with `admin`."""
        return self.is_person and "admin" in self.permissions

    @property
    def visible_user(self) -> str | None:
        """The user whose records this actor sees; None for an administrator, who sees those of the whole organization."""
        return None if self.admin else self.user

    @property
    def owner(self) -> Owner:
        """The owner whose rows this actor reads and writes."""
        return Owner(organization_id=self.organization, user_id=self.user)

    @property
    def party(self) -> str:
        """A text that is equal for two actors if and only if they are the same, for `shares.py`."""
        return "\x00".join((self.organization, self.user, self.label))

    @property
    def label(self) -> str:
        """The name that is recorded: a person's name, or `agent:NAME`, followed by `@USER` if there is a user.

        Within an organization, agents of different users never share a label, nor do a person and an agent.
        """
        if self.is_person:
            return self.name
        return f"{AGENT_PREFIX}{self.name}@{self.user}" if self.user else f"{AGENT_PREFIX}{self.name}"

    def require(self, permission: Permission) -> None:
        """Raise `Refused` if the actor lacks a permission."""
        if permission not in self.permissions:
            raise Refused(
                f"{self.name} lacks the permission {permission}.", hint=f"Ask an administrator to grant {permission}."
            )


def local_name() -> str:
    """Return the name of the person at this machine."""
    try:
        return getpass.getuser()
    # In a container, the user may have no entry in the password database.
    except (OSError, KeyError, ImportError):
        return "me"


def local_person(name: str, *, channel: str = "library") -> Actor:
    """Return the person at this machine, who may do everything."""
    return Actor(name=name, channel=channel)


def agent_of(person: Actor, *, name: str = "agent", role: str = "") -> Actor:
    """Return an agent that works for a person: same organization, user and channel, and no more permissions."""
    return Actor(
        name=name,
        kind="agent",
        organization=person.organization,
        user=person.user,
        role=role,
        permissions=person.permissions & AGENT_PERMISSIONS,
        channel=person.channel,
    )


def conversation_agent(actor: Actor) -> Actor:
    """Return who works in a conversation of this actor: an agent of the person, or the agent itself."""
    if not actor.is_person:
        return actor
    return replace(agent_of(actor, role=actor.role), channel=f"{_LOOP_PREFIX}{actor.channel}"[:_NAME_LIMIT])


def actor_record(actor: Actor) -> dict[str, Any]:
    """Return an actor as JSON, for work that continues later."""
    return {
        "name": actor.name,
        "kind": actor.kind,
        "organization": actor.organization,
        "user": actor.user,
        "role": actor.role,
        "permissions": sorted(actor.permissions),
        "channel": actor.channel,
    }


def stored_actor(record: dict[str, Any]) -> Actor:
    """Return the actor of a record; raise `Unavailable` if another program changed it."""
    from prowess.storage.driver_errors import reading

    with reading("The actor of a job or an optimization"):
        values = {**record}
        permissions = frozenset(values.pop("permissions"))
        return Actor(**values, permissions=permissions)


def _check_name(name: str, *, person: bool) -> None:
    reason = ""
    if not name.strip():
        reason = "is empty"
    elif len(name) > _NAME_LIMIT:
        reason = f"has more than {_NAME_LIMIT} characters"
    # `splitlines` also splits at U+2028 and U+2029, which are not control characters but break lines in logs.
    elif has_control_chars(name) or clean_text(name) != name or len(name.splitlines()) > 1:
        reason = "contains control or hidden characters"
    elif person and name.startswith(AGENT_PREFIX):
        reason = f"starts with {AGENT_PREFIX!r}, which is reserved for agents"
    # `agent:a@b` must name the agent `a` of the user `b`, not an agent `a@b` without a user.
    elif not person and "@" in name:
        reason = "contains '@', which separates an agent from its user"
    if reason:
        raise Invalid(
            f"The actor's name {name[:80]!r} {reason}.", hint="Use a plain name, for example 'ann' or 'builder'."
        )


Action = Literal[
    "enable",
    "load",
    "load_script",
    "run",
    "install",
    "update",
    "delete",
    "fetch_live",
    "connect",
    "read_tool",
    "call_tool",
    "configure",
    "approve",
]
ACTIONS: tuple[Action, ...] = get_args(Action)

ACTION_PERMISSIONS: Mapping[str, Permission] = {
    "enable": "skills.read",
    "load": "skills.read",
    "load_script": "skills.read",
    "run": "skills.run",
    "fetch_live": "skills.read",
    "install": "skills.write",
    "update": "skills.write",
    "delete": "skills.write",
    "connect": "skills.read",
    "read_tool": "skills.run",
    "call_tool": "skills.run",
    "configure": "admin",
    "approve": "approvals.resolve",
}
"""The permission that each action needs."""

PERSON_ACTIONS: frozenset[str] = frozenset({"configure", "approve"})
"""Actions that only persons may take. They are not about one skill."""

USE_ACTIONS: frozenset[str] = frozenset({"enable", "load", "load_script", "run", "fetch_live"})
"""Actions that use a skill as it is."""

WRITE_ACTIONS: frozenset[str] = frozenset({"install", "update", "delete"})
"""Actions that change the catalog."""

CONNECTOR_ACTIONS: frozenset[str] = frozenset({"connect", "read_tool", "call_tool"})
"""Actions on a connector: open it, call a tool that says it only reads, call any other tool."""

_APPROVAL_GROUPS: Mapping[str, str] = {"load": "enable", "load_script": "enable", "read_tool": "call_tool"}


def approval_group(action: str) -> str:
    """Return the action that an approval is stored for: `enable` also covers loading the same bytes."""
    return _APPROVAL_GROUPS.get(action, action)


def is_single_use(action: str) -> bool:
    """Return True if an approval is consumed by its first use.

    Approvals of `enable`, `run` and `connect` last while the bytes stay the same.
    """
    return approval_group(action) not in ("enable", "run", "connect")
