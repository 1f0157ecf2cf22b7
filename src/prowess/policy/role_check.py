"""Whether a role that an organization has written down can be used as it stands."""

from __future__ import annotations

from typing import cast

from prowess.errors import Problem
from prowess.policy.actions import ACTIONS

LISTS = ("tools", "actions", "skill_tags")
_KEYS = frozenset({*LISTS, "description"})
_NAME_LIMIT = 64
_LIST_LIMIT = 200


def role_problems(name: object, entry: object) -> list[Problem]:
    """Everything that is wrong with a role; empty for one that can be used."""
    if not isinstance(name, str) or not name.strip() or len(name) > _NAME_LIMIT:
        return [_problem(str(name), f"A role's name is a text of 1 to {_NAME_LIMIT} characters")]
    if not isinstance(entry, dict):
        return [_problem(name, f"The role {name!r} is not a mapping")]
    fields = cast("dict[object, object]", entry)
    unknown = [key for key in fields if key not in _KEYS]
    wrong = [key for key in LISTS if not _is_list_of_texts(fields.get(key, []))]
    problems = [_problem(name, f"The role {name!r} has the unknown field {str(key)[:40]!r}") for key in unknown]
    problems += [_problem(name, f"`{key}` of the role {name!r} is not a list of texts") for key in wrong]
    if not isinstance(fields.get("description", ""), str):
        problems.append(_problem(name, f"`description` of the role {name!r} is not a text"))
    if "actions" not in wrong:
        problems += _unknown_actions(name, cast("list[str]", fields.get("actions", [])))
    return problems


def _unknown_actions(name: str, actions: list[str]) -> list[Problem]:
    unknown = [action for action in actions if action not in (*ACTIONS, "*")]
    return [_problem(name, f"The role {name!r} has the unknown action {action[:40]!r}") for action in unknown]


def _is_list_of_texts(value: object) -> bool:
    if not isinstance(value, list):
        return False
    items = cast("list[object]", value)
    return len(items) <= _LIST_LIMIT and all(isinstance(item, str) and item for item in items)


def _problem(name: str, message: str) -> Problem:
    return Problem(
        code="role",
        severity="error",
        message=f"{message}.",
        hint=f"A role has {', '.join(sorted(_KEYS))}; the actions are {', '.join(ACTIONS)}, or *.",
        field=f"roles.{name[:_NAME_LIMIT]}",
    )
