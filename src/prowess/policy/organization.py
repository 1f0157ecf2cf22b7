"""What an organization has decided about its skills: the settings that rules are made from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast, get_args

from prowess.errors import Invalid, Problem
from prowess.policy import need_checks
from prowess.policy.role_check import role_problems

Enablement = Literal["auto", "prompt-user", "admin-only"]
ENABLEMENTS: tuple[Enablement, ...] = get_args(Enablement)
"""From the most generous to the strictest."""

UNREADABLE = "unreadable"
"""What stands for a stored policy that is none of the three; nothing is allowed under it."""

_DECISIVE = (
    "skill_enablement_policy",
    "skill_synced_policy",
    "skills_dynamic_search_enabled",
    "skills_dynamic_search_policy",
    "disabled_skills",
    "roles",
)
_CHARS_LIMIT = 10_000_000
_MINUTES_LIMIT = 7 * 24 * 60
_DAYS_LIMIT = 3_650
_DOLLARS_LIMIT = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class OrgPolicy:
    """The settings of one organization; what it has not set has the default that stands here.

    `skill_enablement_policy` is for skills in general, `skill_synced_policy` for those that came from elsewhere,
    and `skills_dynamic_search_policy` for those fetched live. `approval_minutes` is how long a question waits for
    its answer, and how long a yes waits to be used where it is good for one time; a yes to enabling or running a skill is good
    for `approval_days`, as long as the skill stays the same. `spend_per_session_usd` and `spend_per_day_usd` are what
    models may cost in one session, and on one day in the whole organization. `roles` adds to the shipped roles, or
    replaces them by name; None where they cannot be read.

    Nobody uses a skill whose slug is among `disabled_skills`; None, where they cannot be read, stands for all. The others
    say what skills that ask for it may have outside the sandbox: `host_routes` where requests for a host go instead, be it
    private; `skill_env` which names of the environment which bytes of a skill may read, by slug, name and digests;
    `allowed_binaries` which programs run; `skill_roots` below which folders outside the workspace files are read and written.

    `faults` names the stored settings that cannot be read; each has the strictest value there is.
    """

    skills_max_prompt_chars: int = 16_000
    skill_enablement_policy: str = "auto"
    skill_synced_policy: str = "prompt-user"
    skills_dynamic_search_enabled: bool = False
    skills_dynamic_search_policy: str = "prompt-user"
    approval_minutes: int = 60
    approval_days: int = 30
    spend_per_session_usd: float = 5
    spend_per_day_usd: float = 20
    disabled_skills: Sequence[str] | None = ()
    host_routes: Mapping[str, str] = field(default_factory=dict[str, str])
    skill_env: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict[str, Any])
    allowed_binaries: Sequence[str] = ()
    skill_roots: Sequence[str] = ()
    roles: Mapping[str, Any] | None = field(default_factory=dict[str, Any])
    faults: tuple[str, ...] = ()

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> OrgPolicy:
        """The policy that these stored settings make. Never raises; settings of other parts are passed over."""
        values: dict[str, Any] = {}
        faults: list[str] = []
        for name, setting in _SETTINGS.items():
            if name not in settings:
                continue
            sound = setting.accepts(settings[name])
            values[name] = _frozen(settings[name]) if sound else setting.strictest
            if not sound:
                faults.append(name)
        # A role that cannot be read is unknown, and whoever has it may do nothing; the other roles stand.
        if "roles" in faults and isinstance(settings["roles"], dict):
            values["roles"] = settings["roles"]
        return cls(**values, faults=tuple(faults))

    @property
    def rules_mark(self) -> str:
        """Identifies what of the policy decides about skills: where it is the same, so is every ruling."""
        decisive = [getattr(self, name) for name in _DECISIVE]
        return hashlib.sha256(json.dumps(decisive, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _frozen(value: Any) -> Any:
    return tuple(cast("list[Any]", value)) if isinstance(value, list) else value


def check_setting_name(name: str) -> None:
    """Refuse a setting that does not exist; `Invalid` says which there are."""
    if name not in _SETTINGS:
        raise Invalid(f"There is no setting {name[:80]!r}.", hint=f"The settings are {', '.join(SETTING_NAMES)}.")


def check_setting(name: str, value: object) -> None:
    """Refuse also a value that the setting cannot have; `Invalid` says what it takes."""
    check_setting_name(name)
    setting = _SETTINGS[name]
    if not setting.accepts(value):
        raise Invalid(
            f"{str(value)[:80]!r} is no value for the setting {name}.",
            hint=f"It takes {setting.takes}.",
            problems=_roles_problems(value) if name == "roles" else (),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Setting:
    """What values a setting accepts, in words too, and which one stands for a value that cannot be read."""

    accepts: Callable[[object], bool]
    takes: str
    strictest: object


def _roles_problems(value: object) -> list[Problem]:
    if not isinstance(value, dict):
        return [Problem(code="roles", severity="error", message="They are not a mapping of names.", field="roles")]
    entries = cast("dict[object, object]", value)
    return [problem for name, entry in entries.items() for problem in role_problems(name, entry)]


def _is_enablement(value: object) -> bool:
    return isinstance(value, str) and value in ENABLEMENTS


def _number(least: int, most: int, *, strictest: int) -> _Setting:
    return _Setting(
        accepts=lambda value: type(value) is int and least <= value <= most,
        takes=f"a whole number from {least} to {most:,}",
        strictest=strictest,
    )


def _is_dollars(value: object) -> bool:
    # Written so that no comparison with NaN passes.
    return type(value) in (int, float) and 0 <= cast("float", value) <= _DOLLARS_LIMIT


_DOLLARS = _Setting(accepts=_is_dollars, takes=f"a number of US dollars from 0 to {_DOLLARS_LIMIT:,}", strictest=0)
_POLICY = _Setting(accepts=_is_enablement, takes=f"one of {', '.join(ENABLEMENTS)}", strictest=UNREADABLE)
_SETTINGS: dict[str, _Setting] = {
    "skills_max_prompt_chars": _number(0, _CHARS_LIMIT, strictest=0),
    "skill_enablement_policy": _POLICY,
    "skill_synced_policy": _POLICY,
    "skills_dynamic_search_enabled": _Setting(
        accepts=lambda value: isinstance(value, bool), takes="true or false", strictest=False
    ),
    "skills_dynamic_search_policy": _POLICY,
    "approval_minutes": _number(1, _MINUTES_LIMIT, strictest=1),
    "approval_days": _number(1, _DAYS_LIMIT, strictest=1),
    "spend_per_session_usd": _DOLLARS,
    "spend_per_day_usd": _DOLLARS,
    "disabled_skills": _Setting(accepts=need_checks.are_slugs, takes="a list of slugs", strictest=None),
    "host_routes": _Setting(
        accepts=need_checks.are_routes,
        takes='a mapping of a host to where its requests go, such as {"api.example.com": "http://127.0.0.1:8080"}',
        strictest={},
    ),
    "skill_env": _Setting(
        accepts=need_checks.are_env_grants,
        takes="a mapping of a slug to names, and of each name to a list of digests, which `prowess env allow` writes",
        strictest={},
    ),
    "allowed_binaries": _Setting(
        accepts=need_checks.are_binaries, takes='a list of programs by name, such as ["git"]', strictest=()
    ),
    "skill_roots": _Setting(
        accepts=need_checks.are_folders, takes="a list of absolute folders, none of them /", strictest=()
    ),
    "roles": _Setting(
        accepts=lambda value: not _roles_problems(value),
        takes="a mapping of a role's name to its tools, actions, skill_tags and description",
        strictest=None,
    ),
}
SETTING_NAMES: tuple[str, ...] = tuple(sorted(_SETTINGS))
