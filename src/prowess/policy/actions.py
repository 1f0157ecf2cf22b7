"""What can be done with a skill, as far as somebody may be asked about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

from prowess.policy.actor import Permission

Action = Literal[
    "enable", "load", "load_script", "run", "install", "update", "delete", "fetch_live", "configure", "approve"
]
ACTIONS: tuple[Action, ...] = get_args(Action)

NEEDS: Mapping[str, Permission] = {
    "enable": "skills.read",
    "load": "skills.read",
    "load_script": "skills.read",
    "run": "skills.read",
    "fetch_live": "skills.read",
    "install": "skills.write",
    "update": "skills.write",
    "delete": "skills.write",
    "configure": "skills.admin",
    "approve": "skills.approve",
}
"""The permission that each action takes."""

FOR_PERSONS: frozenset[str] = frozenset({"configure", "approve"})
"""What no agent does; these are not about one skill either."""

USES: frozenset[str] = frozenset({"enable", "load", "load_script", "run", "fetch_live"})
"""What uses a skill, as it is, from wherever it is."""

WRITES: frozenset[str] = frozenset({"install", "update", "delete"})
"""What changes the catalog instead of using a skill from it."""

_GROUPS: Mapping[str, str] = {"load": "enable", "load_script": "enable"}


def group_of(action: str) -> str:
    """What one approval is for: `enable` also covers the loading of the same bytes."""
    return _GROUPS.get(action, action)


def is_one_time(action: str) -> bool:
    """Whether an approval is used up by the first use; those of `enable` and `run` last as long as the bytes are the same."""
    return group_of(action) not in ("enable", "run")
