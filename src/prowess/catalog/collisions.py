"""Two sources that have a skill of the same name: the warning, and what a strict catalog refuses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from prowess.catalog.store import Fault, Store, slug_conflict
from prowess.errors import DuplicateSkill, Invalid, NotFound, ProwessError
from prowess.skill.model import Scope, ShadowedSkill, Skill, SkillCard
from prowess.skill.outline import SkillOutline

_LISTED = 5

Hidden = Sequence[tuple[Store, SkillOutline]]
"""The skills that a skill of the same slug hides, each with its store, nearest first; see `Catalog.hidden_by`."""


def find_collision(store: Store, outline: SkillOutline, hidden: Hidden) -> str | None:
    """Return a warning if other sources of the same scope have the slug with other files; None if there are none."""
    others = [other.location for other, hidden_outline in hidden if hidden_outline.scope == outline.scope]
    return describe_collision(outline.slug, store.location, others) if others else None


def describe_collision(slug: str, used: str, others: Sequence[str]) -> str:
    """Return which sources have a skill of one name, and which one is used."""
    return f"Several sources have a skill {slug!r}: {used!r} is used, {' and '.join(map(repr, others))} ignored."


def check_strictly(merged: Mapping[str, list[tuple[Store, SkillCard]]], faults: Sequence[Fault]) -> None:
    """Raise `DuplicateSkill` for two sources with one name, and `Invalid` for a file with fields that do not exist."""
    # The same files under two paths are one skill.
    twice = [slug for slug, claims in merged.items() if len({card.digest for _, card in claims}) > 1]
    if twice:
        listed = [
            f"{slug!r} in {' and '.join(repr(store.location) for store, _ in merged[slug])}" for slug in sorted(twice)
        ]
        more = f" (and {len(listed) - _LISTED} more)" if len(listed) > _LISTED else ""
        raise DuplicateSkill(
            f"Several sources have a skill of the same name: {'; '.join(listed[:_LISTED])}{more}.",
            hint="This workspace is strict: rename or remove one of them, or set PROWESS_STRICT=off.",
        )
    from prowess.skill.validate import STRICT_CODES  # only strict workspaces need the validator to list skills

    for fault in faults:
        wrong = [problem for problem in fault.problems if problem.code in STRICT_CODES and problem.severity == "error"]
        if wrong:
            raise Invalid(f"{fault.location}: {wrong[0].message}", hint=wrong[0].hint, problems=wrong)


def resolve_claims(claims: list[tuple[Store, SkillCard]]) -> tuple[SkillCard, list[Fault]]:
    """Return the card that is served for a slug, nearest first, and the faults of conflicting skills."""
    winner = claims[0][1]
    if len(claims) == 1:
        return winner, []
    first: dict[Scope, tuple[Store, SkillCard]] = {}
    faults: list[Fault] = []
    for store, card in claims:
        served, kept = first.setdefault(card.scope, (store, card))
        # The same files twice in a scope are not a conflict: it does not matter which copy is served.
        if served is not store and kept.digest != card.digest:
            place, other = (_location(keeper, card.slug) for keeper in (served, store))
            problem = slug_conflict(card.slug, place, other)
            if is_stored(store):
                remove = f"`prowess delete {card.slug} --stored` removes the copy in the database."
                problem = replace(problem, hint=f"Rename one of the two skills. {remove}")
            faults.append(Fault(location=other, slug=card.slug, problems=(problem,)))
    hidden = [card for _, card in first.values() if card.scope != winner.scope]
    hides = tuple(ShadowedSkill(scope=card.scope, source=card.source, digest=card.digest) for card in hidden)
    return winner.model_copy(update={"hides": hides}), faults


def is_stored(store: Store) -> bool:
    """Return True if a store keeps its skills in a database."""
    return not store.folder and store.scope != "session"


def folders_of(stores: Iterable[Store], scope: Scope) -> list[Path]:
    """Return the folders whose skills are used in a scope."""
    return [Path(store.folder) for store in stores if store.scope == scope and store.folder]


def find_stored(stores: Iterable[Store], address: str) -> tuple[Store, Skill]:
    """Return the nearest skill of this slug, or `scope:slug`, that a database has, or raise `NotFound`."""
    scope, _, slug = address.rpartition(":")
    for store in stores:
        if is_stored(store) and scope in ("", store.scope):
            skill = store.get_skill_by_name(slug)
            if skill is not None:
                return store, skill
    raise NotFound(f"No database has a copy of {address[:80]!r}.", hint="`prowess list` shows all skills.")


def _location(store: Store, slug: str) -> str:
    """Return the location of a skill in a store, as exactly as the store knows it."""
    try:
        skill = store.get_skill_by_name(slug)
    except (ProwessError, OSError):
        return store.location
    return (skill.location if skill else "") or store.location
