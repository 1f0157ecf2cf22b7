"""The overview of all skills: many rows at once for a list on a screen, with counts by scope and tag. Blocking.

It reads cards alone, which are kept in memory, and looks up trust only for the rows that it returns: the first rows of
10,000 skills take milliseconds. `skill_rows.py` has whole rows.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from prowess.engine.context import Context
from prowess.engine.scores import read_scores
from prowess.engine.skill_rows import SkillQuery
from prowess.engine.visibility import is_off
from prowess.skill.model import SkillCard

if TYPE_CHECKING:
    from prowess.match.recommendation import Recommendation

OverviewSort = Literal["slug", "name", "size", "score", "dangers"]
MAX_ROWS = 10_000
MAX_RANKED = 200
"""How many results of the matcher a search has; the others contain the words, in the order of their slugs."""
_DESCRIPTION_CHARS = 240
_MAX_TAGS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewQuery:
    """Which skills to list, in which order. With `text`, the matcher ranks them, unless `sort` says otherwise."""

    text: str = ""
    scopes: frozenset[str] = frozenset()
    tags: frozenset[str] = frozenset()
    enabled: bool | None = None
    sort: OverviewSort | None = None
    descending: bool = False
    offset: int = 0
    limit: int = 500
    facets: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """Some rows as a JSON list, and the total number. `facets` counts the skills of each scope and tag."""

    items_json: bytes
    count: int
    total: int
    facets: Mapping[str, Any] | None


def list_overview(context: Context, query: OverviewQuery) -> Overview:
    """Return rows of the skills in reach. An agent gets no text of skills that need an approval to be enabled."""
    lists, mark = context.resources.find_lists()
    cards: Sequence[SkillCard] = lists.listing.cards(mark)
    off = context.visibility.switched_off()
    if not context.actor.is_person:
        # Before anything is searched: otherwise an agent could guess the text of a skill word by word.
        cards = context.visibility.cards(cards)
    ranked = _rank(context, query.text)
    words = SkillQuery(words=tuple(query.text.casefold().split()))
    found = [
        card
        for card in cards
        if (card.slug in ranked or words.admits(card))
        and (query.enabled is None or is_off(card.slug, off) is not query.enabled)
        and card.has_tags(query.tags)
    ]
    chosen = [card for card in found if not query.scopes or card.scope in query.scopes]
    scores = {key: one.score for key, one in read_scores(context).items()}
    dangers = context.catalog.scans.dangers() if query.facets or query.sort == "dangers" else {}
    page = _sort(chosen, query, ranked, scores, dangers)[query.offset : query.offset + query.limit]
    marked = context.visibility.cards(page)
    rows = [_row_json(context, card, scores, ranked if query.text else None) for card in marked]
    return Overview(
        items_json=json.dumps(rows, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"),
        count=len(rows),
        total=len(chosen),
        facets=_count(found, chosen, off, dangers) if query.facets else None,
    )


def _rank(context: Context, text: str) -> dict[str, Recommendation]:
    """Return what the matcher finds for a text, by slug, best first."""
    if not text.strip():
        return {}
    matcher, is_person = context.resources.matcher, context.actor.is_person
    found = context.visibility.usable(lambda most: matcher.search(text, limit=most, people_only=is_person), MAX_RANKED)
    # One without a description was found by a text that the actor may not see.
    return {item.slug: item for item in found if item.description}


def _sort(
    cards: Sequence[SkillCard],
    query: OverviewQuery,
    ranked: Mapping[str, Recommendation],
    scores: Mapping[tuple[str, str], float],
    dangers: Mapping[str, int],
) -> list[SkillCard]:
    places = {slug: index for index, slug in enumerate(ranked)}
    match query.sort:
        case "name":
            listed = sorted(cards, key=lambda card: (card.title.casefold(), card.slug))
        case "size":
            listed = sorted(cards, key=lambda card: (card.chars, card.slug))
        case "score":
            listed = sorted(cards, key=lambda card: (scores.get((card.slug, card.digest), -1.0), card.slug))
        case "dangers":
            listed = sorted(cards, key=lambda card: (dangers.get(card.digest, 0), card.slug))
        case None if ranked:
            listed = sorted(cards, key=lambda card: (places.get(card.slug, len(places)), card.slug))
        case _:
            listed = list(cards)
    return listed[::-1] if query.descending else listed


def _row_json(
    context: Context,
    card: SkillCard,
    scores: Mapping[tuple[str, str], float],
    ranked: Mapping[str, Recommendation] | None,
) -> dict[str, Any]:
    long = len(card.description) > _DESCRIPTION_CHARS
    row: dict[str, Any] = {
        "address": f"{card.scope}:{card.slug}",
        "slug": card.slug,
        "name": card.title,
        "description": f"{card.description[: _DESCRIPTION_CHARS - 1]}…" if long else card.description,
        "version": card.version,
        "scope": card.scope,
        "source": card.source,
        "tags": card.tags,
        "kinds": card.kinds,
        "content_length": card.chars,
        "digest": card.digest,
        "hides": [hidden.scope for hidden in card.hides],
        "enabled": card.enabled,
        "people_only": card.people_only,
        "trust": card.trust,
        "dangers": context.catalog.scans.count(card.digest),
        "score": scores.get((card.slug, card.digest)),
    }
    if ranked is not None:
        found = ranked.get(card.slug)
        row["match"] = {
            "score": found.score if found else None,
            "decision": found.decision if found else "no",
            "why": found.why if found else "contains the words",
        }
    return row


def _count(
    found: Sequence[SkillCard], chosen: Sequence[SkillCard], off: Sequence[str] | None, dangers: Mapping[str, int]
) -> dict[str, Any]:
    """Return how many skills each scope has whatever scopes were asked for, and what the chosen ones have."""
    tags = Counter(tag for card in chosen for tag in card.tags)
    on = sum(not is_off(card.slug, off) for card in chosen)
    return {
        "scopes": dict(sorted(Counter(card.scope for card in found).items())),
        "tags": [
            {"name": name, "count": count} for name, count in sorted(tags.items(), key=lambda one: (-one[1], one[0]))
        ][:_MAX_TAGS],
        "kinds": dict(sorted(Counter(kind for card in chosen for kind in card.kinds).items())),
        "enabled": {"on": on, "off": len(chosen) - on},
        "dangers": sum(dangers.get(card.digest, 0) > 0 for card in chosen),
    }
