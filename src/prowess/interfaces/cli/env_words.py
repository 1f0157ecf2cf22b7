"""How it is told whether a skill may read a name of the environment, and why not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from prowess.errors import ProwessError
from prowess.interfaces.cli.printing import one_line

if TYPE_CHECKING:
    from prowess.build.opening import Prowess
    from prowess.policy.env_grants import EnvState

WORDS: Mapping[EnvState, str] = {
    "allowed": "allowed",
    "unset": "allowed, but not set where Prowess runs",
    "changed": "not any more: the skill has changed since it was allowed",
    "asked": "not allowed; the skill asks for it",
    "unused": "allowed, and not asked for by the skill as it is here",
}


async def why_not_given(prowess: Prowess, slug: str, receipts: Iterable[Mapping[str, Any]]) -> list[str]:
    """A line for each name that a run was refused, with what to do about it."""
    refused = dict.fromkeys(name for receipt in receipts for name in receipt.get("refused", {}).get("env", {}))
    if not refused:
        return []
    try:
        grants = {grant.name: grant for grant in await prowess.env_grants(slug)}
    except ProwessError:
        return []
    return [_line(slug, name, grants[name].state) for name in refused if name in grants]


def _line(slug: str, name: str, state: EnvState) -> str:
    mend = f" (`prowess env allow {slug} {name}`)" if state in ("asked", "changed") else ""
    return one_line(f"{name}: {WORDS[state]}{mend}", 300)
