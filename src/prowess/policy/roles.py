"""Roles: which tools an actor is offered, what it may do, and with which skills. Roles are data, not code."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, cast

from prowess.errors import NotFound
from prowess.policy.organization import ROLE_LISTS, OrgPolicy, check_role_entry


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """What goes with a name. What is not granted is not allowed.

    `tools` are names of Prowess's own tools; one that ends in `*` stands for all that begin so. `actions` are those of
    the rules, or `*` for all. With `skill_tags`, only skills that have one of these tags can be used.
    """

    name: str
    tools: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()
    skill_tags: tuple[str, ...] = ()
    description: str = ""

    def offers(self, tool: str) -> bool:
        """Whether an actor of this role gets the tool of this name."""
        return any(tool == name or (name.endswith("*") and tool.startswith(name[:-1])) for name in self.tools)

    def may(self, action: str) -> bool:
        """Whether the action is granted at all."""
        return action in self.actions or "*" in self.actions

    def covers(self, tags: Iterable[str]) -> bool:
        """Whether a skill with these tags is one that this role is for."""
        wanted = {tag.casefold() for tag in self.skill_tags}
        return not wanted or not wanted.isdisjoint(tag.casefold() for tag in tags)


def find_role(name: str, policy: OrgPolicy) -> Role:
    """The role of that name: the organization's own, else the shipped one. `NotFound` tells the names there are.

    A role that the organization has written down in a way that cannot be read is unknown, and does not give way to the
    shipped one, for it may have been meant to narrow it.
    """
    own: object = None if policy.roles is None else policy.roles.get(name)
    if own is not None and not check_role_entry(name, own):
        return _make_role(name, cast("Mapping[str, Any]", own))
    if name in role_names(policy):
        return shipped_roles()[name]
    known = role_names(policy)
    hint = f"The roles are {', '.join(known)}." if known else "Ask an administrator to set the roles again."
    raise NotFound(f"There is no role {name[:80]!r}.", hint=hint)


def role_names(policy: OrgPolicy) -> tuple[str, ...]:
    """The names of all roles that can be used, sorted."""
    if policy.roles is None:
        return ()
    broken = {name for name, entry in policy.roles.items() if check_role_entry(name, entry)}
    return tuple(sorted({*shipped_roles(), *policy.roles} - broken))


@cache
def shipped_roles() -> Mapping[str, Role]:
    """The roles that come with Prowess, by name."""
    stored: dict[str, Any] = json.loads((files("prowess.policy") / "roles.json").read_text("utf-8"))
    return {name: _make_role(name, entry) for name, entry in stored.items()}


def _make_role(name: str, entry: Mapping[str, Any]) -> Role:
    lists = {key: tuple(entry.get(key, ())) for key in ROLE_LISTS}
    return Role(name=name, description=entry.get("description", ""), **lists)
