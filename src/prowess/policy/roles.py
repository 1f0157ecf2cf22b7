"""Roles: which tools an actor is offered, what it may do, and with which skills. Roles are data, not code."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

from prowess.errors import NotFound
from prowess.lazy_dataclass import dataclass
from prowess.policy.organization import ROLE_LISTS, OrgPolicy, check_role_entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """The rights of a role. Everything that is not granted is denied.

    `tools` are names of Prowess's own tools; a name ending in `*` is a prefix. `actions` are those of the rules, or `*` for
    all. With `skill_tags`, only skills with one of these tags can be used.
    """

    name: str
    tools: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()
    skill_tags: tuple[str, ...] = ()
    description: str = ""

    def offers(self, tool: str) -> bool:
        """Return True if the role has this tool."""
        return any(tool == name or (name.endswith("*") and tool.startswith(name[:-1])) for name in self.tools)

    def may(self, action: str) -> bool:
        """Return True if the role may take this action."""
        return action in self.actions or "*" in self.actions

    def covers(self, tags: Iterable[str]) -> bool:
        """Return True if the role may use skills with these tags."""
        allowed_tags = {tag.casefold() for tag in self.skill_tags}
        return not allowed_tags or not allowed_tags.isdisjoint(tag.casefold() for tag in tags)


def find_role(name: str, policy: OrgPolicy) -> Role:
    """Return the organization's own role of that name, or else the shipped one, or raise `NotFound`.

    If the organization's own role is unreadable, the role is unknown. It is not replaced by the shipped one, because it may
    have been meant to restrict it.
    """
    own: object = None if policy.roles is None else policy.roles.get(name)
    if own is not None and not check_role_entry(name, own):
        return _make_role(name, cast("Mapping[str, Any]", own))
    if name in role_names(policy):
        return shipped_roles()[name]
    known = role_names(policy)
    hint = f"Use one of: {', '.join(known)}." if known else "Ask an administrator to run `prowess policy reset roles`."
    raise NotFound(f"Unknown role {name[:80]!r}.", hint=hint)


def role_names(policy: OrgPolicy) -> tuple[str, ...]:
    """Return the names of all usable roles, sorted."""
    if policy.roles is None:
        return ()
    # A broken role hides the shipped role of its name as well, as `find_role` explains.
    broken = {name for name, entry in policy.roles.items() if check_role_entry(name, entry)}
    return tuple(sorted({*shipped_roles(), *policy.roles} - broken))


@cache
def shipped_roles() -> Mapping[str, Role]:
    """Return the roles that come with Prowess, by name."""
    stored: dict[str, Any] = json.loads(Path(__file__).with_name("roles.json").read_text("utf-8"))
    return {name: _make_role(name, entry) for name, entry in stored.items()}


def _make_role(name: str, entry: Mapping[str, Any]) -> Role:
    lists = {key: tuple(entry.get(key, ())) for key in ROLE_LISTS}
    return Role(name=name, description=entry.get("description", ""), **lists)
