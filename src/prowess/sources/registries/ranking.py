"""Rank what a registry found: how well each skill fits the query, together with the registry's own order and its counts.

The matcher compares the query with the cards that the registry sent, in an index that lives for this one search. Its
score decides most. The registry's order counts because its search has seen more than the card, and what is installed
often or trending now counts a little. The same answers give the same ranking.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from prowess.catalog.store import SearchDocument
from prowess.errors import Unavailable
from prowess.match.index import Index
from prowess.match.ranking import rank
from prowess.match.recommendation import Decision, decide
from prowess.match.vectors.embedder import WordsOnly
from prowess.skill.slug import slugify
from prowess.sources.registries.registry import RegistryEntry

_MATCH, _ORDER, _INSTALLS, _TRENDING = 0.65, 0.15, 0.15, 0.05
"""The shares of the four signals, each from 0 to 1."""
_WARNED = 0.5
"""The factor for a skill that the registry itself warns about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedEntry:
    """A skill of a registry with its place in the ranking. `score` is from 0 to 1, and `fit` what the matcher says."""

    entry: RegistryEntry
    score: float
    fit: float = 0.0
    decision: Decision = "no"
    why: str = ""
    trending: int | None = None
    """Its place in the registry's list of trending skills, counted from 1; None if it is not there."""


def rank_entries(
    query: str, entries: Sequence[RegistryEntry], *, trending: Sequence[RegistryEntry] = ()
) -> list[RankedEntry]:
    """Return the entries, best first. Blocking: it computes a vector for each entry."""
    if not entries:
        return []
    found = _match(query, entries)
    places = {entry.id.casefold(): index for index, entry in enumerate(trending, 1)}
    most = max((entry.installs or 0 for entry in entries), default=0)
    ranked = [
        _rank(entry, order, len(entries), most, found.get(order), places, len(trending))
        for order, entry in enumerate(entries)
    ]
    # Entries come in the registry's order, and sorting keeps it where scores are equal.
    return sorted(ranked, key=lambda one: -one.score)


@dataclass(frozen=True, slots=True)
class _Fit:
    share: float
    """From 0 to 1, to compare the entries of this search."""
    score: float
    why: str


def _rank(
    entry: RegistryEntry, order: int, count: int, most: int, fit: _Fit | None, places: Mapping[str, int], listed: int
) -> RankedEntry:
    # On a logarithmic scale: a skill with ten times the installs is a little better known, not ten times better.
    known = math.log1p(entry.installs or 0) / math.log1p(most) if most else 0.0
    place = places.get(entry.id.casefold())
    rising = 1 - (place - 1) / listed if place else 0.0
    matched = fit.score if fit else 0.0
    score = _MATCH * (fit.share if fit else 0.0) + _ORDER * (1 - order / count) + _INSTALLS * known + _TRENDING * rising
    return RankedEntry(
        entry=entry,
        score=round(score * (_WARNED if entry.warnings else 1.0), 4),
        fit=matched,
        decision=decide(matched),
        why=fit.why if fit else "",
        trending=place,
    )


def _match(query: str, entries: Sequence[RegistryEntry]) -> dict[int, _Fit]:
    """Return how well entries fit the query, by their place; those without anything in common are missing."""
    documents = [_document(position, entry) for position, entry in enumerate(entries)]
    try:
        index = Index.build(documents)
    except Unavailable:  # a damaged installation still matches by words
        index = Index.build(documents, WordsOnly())
    found = rank(index, query, limit=len(entries))
    # The score is how likely a skill fits at all, which for short cards is close to 1 as soon as one rare word agrees. Among
    # those, the one that has more words of the query is better.
    most = max((item.signals["coverage"] for item in found), default=0.0) or 1.0
    return {
        int(item.version): _Fit(item.score * (1 + item.signals["coverage"] / most) / 2, item.score, item.why)
        for item in found
    }


def _document(place: int, entry: RegistryEntry) -> SearchDocument:
    # Some registries send names alone. A card without a description is never ranked, so the name has to serve.
    name = entry.name or entry.skill_id
    words = " ".join(entry.skill_id.replace("_", "-").replace(".", "-").split("-"))
    return SearchDocument(
        # Two repositories may have skills of the same name, and slugs must differ.
        slug=f"r{place}.{slugify(entry.skill_id) or 'skill'}",
        title=name,
        description=entry.description or words,
        # The version is not searched: here it carries the place of the entry.
        version=str(place),
    )
