"""The policy of an organization: its settings, their defaults, and the check of each value."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import PurePosixPath
from typing import Any, Literal, cast, get_args

from prowess.errors import Invalid, Problem
from prowess.lazy_dataclass import dataclass
from prowess.policy.actor import ACTIONS
from prowess.policy.text import has_control_chars
from prowess.skill.limits import DEFAULT_PROMPT_CHARS
from prowess.skill.needs import parse_binary, parse_env_name, parse_host
from prowess.skill.slug import is_slug
from prowess.suggestions import did_you_mean

ROLE_LISTS = ("tools", "actions", "skill_tags")
_ROLE_KEYS = frozenset({*ROLE_LISTS, "description"})
_ROLE_NAME_LIMIT = 64
_ROLE_LIST_LIMIT = 200


def check_role_entry(name: object, entry: object) -> list[Problem]:
    """Return all problems of a role; empty if it can be used."""
    if not isinstance(name, str) or not name.strip() or len(name) > _ROLE_NAME_LIMIT:
        return [_role_problem(str(name), f"A role name must have 1 to {_ROLE_NAME_LIMIT} characters")]
    if not isinstance(entry, dict):
        return [_role_problem(name, f"The role {name!r} is not a mapping")]
    fields = cast("dict[object, object]", entry)
    unknown = [key for key in fields if key not in _ROLE_KEYS]
    wrong = [key for key in ROLE_LISTS if not _is_text_list(fields.get(key, []))]
    problems = [_role_problem(name, f"Unknown field {str(key)[:40]!r} in the role {name!r}") for key in unknown]
    problems += [_role_problem(name, f"`{key}` of the role {name!r} is not a list of strings") for key in wrong]
    if not isinstance(fields.get("description", ""), str):
        problems.append(_role_problem(name, f"`description` of the role {name!r} is not a string"))
    if "actions" not in wrong:
        problems += _unknown_actions(name, cast("list[str]", fields.get("actions", [])))
    return problems


def _unknown_actions(name: str, actions: list[str]) -> list[Problem]:
    unknown = [action for action in actions if action not in (*ACTIONS, "*")]
    return [_role_problem(name, f"Unknown action {action[:40]!r} in the role {name!r}") for action in unknown]


def _is_text_list(value: object) -> bool:
    if not isinstance(value, list):
        return False
    items = cast("list[object]", value)
    return len(items) <= _ROLE_LIST_LIMIT and all(isinstance(item, str) and item for item in items)


def _role_problem(name: str, message: str) -> Problem:
    return Problem(
        code="role",
        severity="error",
        message=f"{message}.",
        hint=f"Valid fields: {', '.join(sorted(_ROLE_KEYS))}. Valid actions: {', '.join(ACTIONS)}, or *.",
        field=f"roles.{name[:_ROLE_NAME_LIMIT]}",
    )


ENTRY_LIMIT = 1_000
"""How many entries a setting may have."""

_HEX = frozenset("0123456789abcdef")


def are_slugs(value: object) -> bool:
    """Return True for a list of slugs."""
    return _is_list(value, is_slug)


def are_binaries(value: object) -> bool:
    """Return True for a list of programs, each by its plain name."""
    return _is_list(value, lambda text: parse_binary(text) == text)


def are_folders(value: object) -> bool:
    """Return True for a list of absolute folders other than `/`."""
    return _is_list(value, _is_folder)


def are_routes(value: object) -> bool:
    """Return True for a mapping of hosts to the targets of their requests."""
    return _is_mapping(value, _is_plain_host, lambda to: isinstance(to, str) and _is_route_target(to))


def are_env_grants(value: object) -> bool:
    """Return True for a mapping of slugs to variables, and of each variable to digests."""
    return _is_mapping(value, is_slug, lambda names: _is_mapping(names, _is_env, _is_digest_list))


def _is_list(value: object, fits: Callable[[str], bool]) -> bool:
    if not isinstance(value, list | tuple):
        return False
    items = cast("list[object]", value)
    return len(items) <= ENTRY_LIMIT and all(isinstance(item, str) and fits(item) for item in items)


def _is_mapping(value: object, is_key: Callable[[str], bool], fits: Callable[[object], bool]) -> bool:
    if not isinstance(value, dict):
        return False
    items = cast("dict[object, object]", value)
    return len(items) <= ENTRY_LIMIT and all(
        isinstance(key, str) and is_key(key) and fits(of) for key, of in items.items()
    )


def _is_folder(text: str) -> bool:
    path = PurePosixPath(text)
    # `/` would give skills the whole machine, and `..` could lead out of the folder that an administrator sees.
    return path.is_absolute() and len(path.parts) > 1 and ".." not in path.parts and not has_control_chars(text)


def _is_plain_host(text: str) -> bool:
    return parse_host(text) == text and ":" not in text and "*" not in text


def _is_env(text: str) -> bool:
    return parse_env_name(text) == text


def _is_digest_list(value: object) -> bool:
    return _is_list(value, lambda text: len(text) == 64 and _HEX.issuperset(text))


def _is_route_target(text: str) -> bool:
    """Return True for a target such as `http://127.0.0.1:8080`, without path or credentials."""
    from prowess.net.target import parse_route  # few organizations have routes, and it imports the network code

    try:
        parse_route(text)
    except Invalid:
        return False
    return True


Enablement = Literal["auto", "prompt-user", "admin-only"]
ENABLEMENTS: tuple[Enablement, ...] = get_args(Enablement)
"""From the most generous to the strictest."""

UNREADABLE = "unreadable"
"""Replaces a stored policy that is unknown. Nothing is allowed under it."""

_RULE_SETTINGS = (
    "skill_enablement_policy",
    "skill_synced_policy",
    "skills_dynamic_search_enabled",
    "skills_dynamic_search_policy",
    "agent_skills_live_for_all",
    "disabled_skills",
    "roles",
)
MACHINE_SETTINGS = frozenset({"host_routes", "skill_env", "allowed_binaries", "skill_roots"})
"""Settings that say what skills may reach on the machine that runs them."""

_CHARS_LIMIT = 10_000_000
_MINUTES_LIMIT = 7 * 24 * 60
_DAYS_LIMIT = 3_650
_DOLLARS_LIMIT = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class OrgPolicy:
    """The settings of one organization, with their defaults.

    `skill_enablement_policy` applies to all skills, `skill_synced_policy` to skills from elsewhere, and
    `skills_dynamic_search_policy` to skills fetched live. With `agent_skills_live_for_all`, a skill that an agent wrote is
    treated like one that the acting agent wrote itself. `approval_minutes` is how long a request stays pending, and how
    long a single-use approval can be used; an approval to enable or run a skill is valid for `approval_days` while the skill
    stays the same. `spend_per_session_usd` and `spend_per_day_usd` limit what models may cost in one session, and per day in
    the organization. `event_days`, `audit_days`, `session_days` (without use) and `trace_days` say how long records are
    kept; 0 keeps them forever. `roles` adds to the shipped roles or replaces them by name; None if they are unreadable.

    Nobody uses a skill in `disabled_skills`; None (unreadable) disables all. The others say what skills may reach outside the
    sandbox if they declare it: `host_routes` sends requests for a host elsewhere, even to a private target; `skill_env` maps
    slugs to variables to the digests that may read them; `allowed_binaries` are programs that may run; `skill_roots` are
    folders outside the workspace that may be read and written.

    `faults` names stored settings that are unreadable; each has its strictest value.
    """

    skills_max_prompt_chars: int = DEFAULT_PROMPT_CHARS
    skill_enablement_policy: str = "auto"
    skill_synced_policy: str = "prompt-user"
    skills_dynamic_search_enabled: bool = False
    skills_dynamic_search_policy: str = "prompt-user"
    agent_skills_live_for_all: bool = False
    approval_minutes: int = 60
    approval_days: int = 30
    spend_per_session_usd: float = 5
    spend_per_day_usd: float = 20
    event_days: int = 90
    audit_days: int = 0
    session_days: int = 180
    trace_days: int = 30
    disabled_skills: Sequence[str] | None = ()
    host_routes: Mapping[str, str] = field(default_factory=dict[str, str])
    skill_env: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict[str, Any])
    allowed_binaries: Sequence[str] = ()
    skill_roots: Sequence[str] = ()
    roles: Mapping[str, Any] | None = field(default_factory=dict[str, Any])
    faults: tuple[str, ...] = ()

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> OrgPolicy:
        """Return the policy of these stored settings. Never raises; settings of other parts are ignored."""
        values: dict[str, Any] = {}
        faults: list[str] = []
        for name, setting in _SETTINGS.items():
            if name not in settings:
                continue
            sound = setting.accepts(settings[name])
            values[name] = _freeze(settings[name]) if sound else setting.strictest
            if not sound:
                faults.append(name)
        # One unreadable role does not invalidate the others. `find_role` treats it as unknown, so its actors may do nothing.
        if "roles" in faults and isinstance(settings["roles"], dict):
            values["roles"] = settings["roles"]
        return cls(**values, faults=tuple(faults))

    @property
    def rules_mark(self) -> str:
        """A fingerprint of the settings that decide about skills: if it is equal, so is every ruling."""
        # Only settings that `apply_rules` reads: changing a budget must not make every enabled skill pass the gate
        # again.
        decisive = [getattr(self, name) for name in _RULE_SETTINGS]
        return hashlib.sha256(json.dumps(decisive, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _freeze(value: Any) -> Any:
    return tuple(cast("list[Any]", value)) if isinstance(value, list) else value


def check_setting_name(name: str) -> None:
    """Raise `Invalid` if there is no such setting."""
    if name not in _SETTINGS:
        raise Invalid(
            f"Unknown setting {name[:80]!r}.",
            hint=did_you_mean(name, SETTING_NAMES)
            or f"Use one of: {', '.join(SETTING_NAMES)}. Run `prowess policy` to see their values.",
        )


def check_setting(name: str, value: object) -> None:
    """Raise `Invalid` if there is no such setting, or if it cannot have this value."""
    check_setting_name(name)
    setting = _SETTINGS[name]
    if not setting.accepts(value):
        raise Invalid(
            f"Invalid value {str(value)[:80]!r} for the setting {name}.",
            hint=f"Use {setting.takes}.",
            problems=_check_roles(value) if name == "roles" else (),
        )


def describe_values(name: str) -> tuple[str, tuple[str, ...]]:
    """Return the values that a setting accepts, as a description and, if they are few, as a list."""
    setting = _SETTINGS[name]
    return setting.takes, ENABLEMENTS if setting is _POLICY else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Setting:
    """Which values a setting accepts, a description of them, and the value used instead of an unreadable one."""

    accepts: Callable[[object], bool]
    takes: str
    strictest: object


def _check_roles(value: object) -> list[Problem]:
    if not isinstance(value, dict):
        return [
            Problem(
                code="roles", severity="error", message="The roles are not a mapping of names to roles.", field="roles"
            )
        ]
    entries = cast("dict[object, object]", value)
    return [problem for name, entry in entries.items() for problem in check_role_entry(name, entry)]


def _is_enablement(value: object) -> bool:
    return isinstance(value, str) and value in ENABLEMENTS


def _number(minimum: int, maximum: int, *, strictest: int) -> _Setting:
    return _Setting(
        # `isinstance` would accept `True`, which is an `int`.
        accepts=lambda value: type(value) is int and minimum <= value <= maximum,
        takes=f"a whole number from {minimum} to {maximum:,}",
        strictest=strictest,
    )


def _retention(minimum: int) -> _Setting:
    return _Setting(
        accepts=lambda value: type(value) is int and (value == 0 or minimum <= value <= _DAYS_LIMIT),
        takes=f"a number of days from {minimum} to {_DAYS_LIMIT:,}, or 0 to keep everything",
        strictest=0,  # a damaged setting must not delete anything
    )


def _is_dollar_amount(value: object) -> bool:
    # Written so that no comparison with NaN passes.
    return type(value) in (int, float) and 0 <= cast("float", value) <= _DOLLARS_LIMIT


_DOLLARS = _Setting(
    accepts=_is_dollar_amount, takes=f"a number of US dollars from 0 to {_DOLLARS_LIMIT:,}", strictest=0
)
_POLICY = _Setting(accepts=_is_enablement, takes=f"one of {', '.join(ENABLEMENTS)}", strictest=UNREADABLE)
_SETTINGS: dict[str, _Setting] = {
    "skills_max_prompt_chars": _number(0, _CHARS_LIMIT, strictest=0),
    "skill_enablement_policy": _POLICY,
    "skill_synced_policy": _POLICY,
    "skills_dynamic_search_enabled": _Setting(
        accepts=lambda value: isinstance(value, bool), takes="true or false", strictest=False
    ),
    "skills_dynamic_search_policy": _POLICY,
    "agent_skills_live_for_all": _Setting(
        accepts=lambda value: isinstance(value, bool), takes="true or false", strictest=False
    ),
    "approval_minutes": _number(1, _MINUTES_LIMIT, strictest=1),
    "approval_days": _number(1, _DAYS_LIMIT, strictest=1),
    "spend_per_session_usd": _DOLLARS,
    "spend_per_day_usd": _DOLLARS,
    "event_days": _retention(1),
    # Not shorter: otherwise an administrator could remove the traces of what they just did.
    "audit_days": _retention(90),
    "session_days": _retention(1),
    "trace_days": _retention(1),
    "disabled_skills": _Setting(accepts=are_slugs, takes="a list of slugs", strictest=None),
    "host_routes": _Setting(
        accepts=are_routes,
        takes='a mapping from hosts to targets, for example {"api.example.com": "http://127.0.0.1:8080"}',
        strictest={},
    ),
    "skill_env": _Setting(
        accepts=are_env_grants,
        takes="a mapping from slugs to variables to digests; change it with `prowess env allow`",
        strictest={},
    ),
    "allowed_binaries": _Setting(
        accepts=are_binaries, takes='a list of program names, for example ["git"]', strictest=()
    ),
    "skill_roots": _Setting(
        accepts=are_folders, takes="a list of absolute paths of folders other than /", strictest=()
    ),
    "roles": _Setting(
        accepts=lambda value: not _check_roles(value),
        takes="a mapping from role names to tools, actions, skill_tags and description",
        strictest=None,
    ),
}
SETTING_NAMES: tuple[str, ...] = tuple(sorted(_SETTINGS))
