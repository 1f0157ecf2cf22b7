"""Rank the skills for one message: find candidates, compare them, score, decide, explain."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from prowess.lazy_dataclass import dataclass
from prowess.match.candidates import Candidates, find_candidates, find_rare
from prowess.match.index import Index
from prowess.match.mentions import contains_phrase, find_mentioned, match_patterns
from prowess.match.query import Query, build_query
from prowess.match.recommendation import FIELD_NAMES, Decision, Evidence, FieldName, Recommendation
from prowess.match.score import Signals, compute_ranks, compute_score, compute_signals, decide
from prowess.match.segment import Segment, hash_tag

CLOSE_COSINE = 0.4
"""From this cosine on, the explanation mentions similarity."""

_MAX_SHOWN = 6
_PATTERN_FIELD = FIELD_NAMES.index("patterns")
_FIELD_LABELS: dict[FieldName, str] = {
    "name": "name",
    "description": "description",
    "tags": "tags",
    "triggers": "trigger phrase",
    "patterns": "intent pattern",
    "keywords": "keywords",
    "body": "text",
}


class SaidWords:
    """The words of a message by the positions of their terms in a segment, each with its place in the message."""

    def __init__(self, query: Query, segment: Segment, terms: Mapping[int, int]) -> None:
        self._order = query.words
        self._segment = segment
        self._words = {terms[term]: self._placed(word) for term, word in query.meant.items() if word and term in terms}
        # A table, because a body has hundreds of words, and few of them are in the message.
        self._is_said = np.zeros(len(segment.terms), np.bool_)
        self._is_said[list(self._words)] = True

    def _placed(self, word: str) -> tuple[int, str]:
        return self._order.get(word, len(self._order)), word

    def find_in(self, document: int, fitted: Sequence[str]) -> tuple[Evidence, ...]:
        """Return the words found in each field of a skill; `fitted` are words matched by a pattern."""
        segment = self._segment
        first, last = segment.phrase_start[document : document + 2].tolist()
        starts: list[int] = segment.word_start[first : last + 1].tolist()
        terms = segment.word_term.take(segment.phrase_words[starts[0] : starts[-1]])
        places = self._is_said.take(terms).nonzero()[0]
        fields: list[int] = segment.phrase_field[first:last].tolist()
        found: dict[int, set[tuple[int, str]]] = {_PATTERN_FIELD: set(map(self._placed, fitted))} if fitted else {}
        for place, term in zip(places.tolist(), terms.take(places).tolist(), strict=True):
            field = fields[bisect_right(starts, starts[0] + place) - 1]
            found.setdefault(field, set()).add(self._words[term])
        return tuple([_field_evidence(FIELD_NAMES[field], found[field]) for field in sorted(found)])


def _field_evidence(field: FieldName, words: set[tuple[int, str]]) -> Evidence:
    # A body is not disclosed before its skill is chosen.
    if field == "body":
        return Evidence(field=field, count=len(words))
    return Evidence(field=field, count=len(words), terms=tuple([word for _, word in sorted(words)]))


def explain(evidence: Sequence[Evidence], *, mentioned: bool, near: Signals) -> str:
    """Return a short sentence that says why the skill was found."""
    reasons = ["the message names it"] if mentioned else []
    for item in evidence:
        if item.field == "body":
            reasons.append(f"{item.count} word{'s' if item.count > 1 else ''} of its text")
        else:
            reasons.append(f"{_FIELD_LABELS[item.field]}: {', '.join(item.terms[:_MAX_SHOWN])}")
    if near.compared and max(near.cosine, near.part) >= CLOSE_COSINE:
        reasons.append("close in meaning")
    return "; ".join(reasons) or "somewhat similar in meaning"


MAX_RESULTS = 1_000
"""The most skills that are ranked."""
_SPARE_CANDIDATES = 7
"""The number of extra candidates that are compared in detail."""


def rank(
    index: Index,
    message: str,
    *,
    limit: int,
    tags: Collection[str] = (),
    context: str = "",
    by_words: bool = False,
) -> list[Recommendation]:
    """Return the best skills for a message, best first, each with its decision.

    With `by_words`, only skills that have a word of the message.
    """
    limit = min(limit, MAX_RESULTS)
    if limit < 1 or not index.parts:
        return []
    query = build_query(index, message, context)
    if not query.words:
        return []
    named = [_DirectHits.of(part.segment, query.message) for part in index.parts]
    candidates = find_candidates(
        index,
        query,
        count=limit + _SPARE_CANDIDATES,
        by_words=by_words,
        tags=sorted({hash_tag(tag) for tag in tags}),
        pinned=[
            some.every | find_rare(query, part.segment, places)
            for some, part, places in zip(named, index.parts, query.places, strict=True)
        ],
    )
    looks = [_SegmentRanking(query, some, called, index.size) for some, called in zip(candidates, named, strict=True)]
    worths = sorted((worth for look in looks for worth in look.worths), reverse=True)
    cut = worths[limit - 1] if len(worths) > limit else 0.0
    best = [hit for look in looks for hit in look.hits(cut)]
    best.sort(key=lambda hit: -hit.worth)
    if len({hit.worth for hit in best}) < len(best):
        # Only then, because the slug has to be decoded.
        best.sort(key=lambda hit: (-hit.worth, hit.look.slug(hit)))
    found: list[Recommendation] = []
    for hit in best[:limit]:
        # Rank and score are computed differently; a skill must not show a higher score than the one above it.
        found.append(hit.look.recommendation(hit, at_most=found[-1].score if found else 1.0))
    return found


def list_tagged(index: Index, *, limit: int, tags: Collection[str] = ()) -> list[Recommendation]:
    """Return the skills with all of these tags, by slug, without scores."""
    wanted = sorted({hash_tag(tag) for tag in tags})
    found = [
        part.segment.shown(place)
        for part in index.parts
        for place in np.flatnonzero(part.alive & part.segment.tagged_with(wanted)).tolist()
    ]
    found.sort(key=lambda shown: shown["slug"])
    return [_recommend(shown, score=0.0, decision="maybe") for shown in found[: max(limit, 0)]]


def _recommend(shown: dict[str, Any], *, score: float, decision: Decision, **more: Any) -> Recommendation:
    return Recommendation(
        slug=shown["slug"],
        title=shown["title"],
        description=shown["description"],
        tags=tuple(shown["tags"]),
        scope=shown["scope"],
        digest=shown["digest"],
        version=shown["version"],
        chars=shown["chars"],
        score=score,
        decision=decision,
        **more,
    )


@dataclass(frozen=True, slots=True)
class _DirectHits:
    """The documents of a segment that the message names or that have a matching pattern."""

    mentioned: frozenset[int]
    fitted: dict[int, tuple[str, ...]]

    @classmethod
    def of(cls, segment: Segment, message: str) -> _DirectHits:
        return cls(frozenset(find_mentioned(segment, message)), match_patterns(segment, message))

    @property
    def every(self) -> AbstractSet[int]:
        return self.mentioned | self.fitted.keys()


class _Hit(NamedTuple):
    """A scored candidate."""

    look: _SegmentRanking
    document: int
    signals: Signals
    worth: float


class _SegmentRanking:
    """Scores the candidates of a segment."""

    def __init__(self, query: Query, candidates: Candidates, named: _DirectHits, crowd: int) -> None:
        self._query = query
        self._named = named
        self._crowd = crowd
        self._segment, self._terms = candidates.segment, candidates.terms
        self._documents: list[int] = candidates.documents.tolist()
        self._signals = compute_signals(query, candidates)
        explicit = named.every
        is_explicit = [document in explicit for document in self._documents]
        self.worths = compute_ranks(candidates.rank(query).tolist(), self._signals, is_explicit)

    def hits(self, cut: float) -> list[_Hit]:
        """Yield the candidates with a positive rank of at least `cut`."""
        return [
            _Hit(self, document, signals, worth)
            for document, signals, worth in zip(self._documents, self._signals, self.worths, strict=True)
            if worth >= cut and worth > 0
        ]

    def slug(self, hit: _Hit) -> str:
        """Return the slug of a candidate."""
        return self._segment.slug(hit.document)

    @cached_property
    def _said(self) -> SaidWords:
        return SaidWords(self._query, self._segment, self._terms)

    def recommendation(self, hit: _Hit, *, at_most: float) -> Recommendation:
        """Return the recommendation for a candidate."""
        query, named, document = self._query, self._named, hit.document
        # The metadata of a skill is JSON, and is decoded only for the results.
        shown = self._segment.shown(document)
        mentioned, fitted = document in named.mentioned, named.fitted.get(document, ())
        verbatim = any(contains_phrase(query.message, trigger) for trigger in shown["triggers"])
        explicit = mentioned or document in named.fitted
        score = compute_score(hit.signals, crowd=self._crowd, explicit=explicit, verbatim=verbatim)
        score = min(score, at_most)
        evidence = self._said.find_in(document, fitted)
        return _recommend(
            shown,
            score=score,
            decision=decide(score),
            evidence=evidence,
            why=explain(evidence, mentioned=mentioned, near=hit.signals),
            signals=hit.signals.rounded(),
        )
