"""An account of one message: which skills were looked at, and what became of each, step by step.

It holds what it was made from, so that it can be made again: the same message over the same catalog under the same policy
gives the same account, and where it does not, `differences` says which step changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

Choice = Literal["enabled", "offered", "possible", "not offered", "refused", "needs approval", "no room"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What became of one candidate."""

    slug: str
    digest: str
    score: float
    decision: str
    why: str
    fields: dict[str, list[str]]
    """What of the message was found in which field."""
    signals: dict[str, float]
    """The figures behind the score."""
    index: str
    """How the skill stands in the index: full, short, name or omitted."""
    rule: str
    answer: str
    reason: str
    need: int
    fits: bool
    choice: Choice


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Why each skill was, or was not, offered for a message, let in or refused."""

    message: str
    actor: str
    role: str
    skills: int
    catalog: str
    """Identifies all skills in reach, by slug and digest."""
    policy: dict[str, Any]
    index_budget: int
    index_omitted: int
    budget_used: int
    budget_max: int
    session: str
    steps: tuple[Step, ...]

    def as_json(self) -> dict[str, Any]:
        """The whole account."""
        return asdict(self)


def choice_of(*, enabled: bool, decision: str, answer: str, fits: bool) -> Choice:
    """What a candidate comes to, the first thing that stands in its way."""
    if enabled:
        return "enabled"
    if decision == "no":
        return "not offered"
    if answer == "deny":
        return "refused"
    if answer == "ask":
        return "needs approval"
    if not fits:
        return "no room"
    return "offered" if decision == "offer" else "possible"


_STEPS_OF_THE_WALK = {
    "catalog": "the skills in reach are others",
    "policy": "the policy is another one",
    "index_budget": "the index has another budget",
    "index_omitted": "the index leaves out another number of skills",
    "budget_used": "other skills are enabled",
    "budget_max": "the prompt budget is another one",
    "actor": "somebody else asks",
    "role": "the role is another one",
}


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """What is not as it was in an earlier account, in words; none where the message would fare the same."""
    told = [words for key, words in _STEPS_OF_THE_WALK.items() if before.get(key) != after.get(key)]
    old, new = ({step["slug"]: step for step in account.get("steps", ())} for account in (before, after))
    for slug in sorted(old.keys() | new.keys()):
        if slug not in new:
            told.append(f"{slug} is no candidate any more")
        elif slug not in old:
            told.append(f"{slug} is a candidate now")
        else:
            changed = [key for key in new[slug] if old[slug].get(key) != new[slug][key]]
            told += [f"{slug}: {', '.join(changed)} changed"] if changed else []
    return told
