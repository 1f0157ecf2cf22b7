"""Rank the skills for one message: find candidates, compare them, score, decide, explain."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

import numpy as np

from prowess.lazy_dataclass import dataclass
from prowess.match.arrays import expand_slices
from prowess.match.candidates import Candidates, find_candidates, find_rare
from prowess.match.index import Index
from prowess.match.mentions import contains_phrase, find_mentioned, match_patterns
from prowess.match.query import Query, build_query
from prowess.match.recommendation import FIELD_NAMES, Decision, Evidence, FieldName, Recommendation, decide
from prowess.match.score import Signals, compute_ranks, compute_score, compute_signals
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


FieldWords = dict[int, set[tuple[int, str]]]
"""Words of a message by field, each after its place in the message."""


def find_words(
    segment: Segment, documents: Sequence[int], query: Query, terms: Mapping[int, int]
) -> dict[int, FieldWords]:
    """Return the words of the message that some skills have; `terms` are the positions of its terms in the segment."""
    found: dict[int, FieldWords] = {document: {} for document in documents}
    words = {terms[term]: (query.words[word], word) for term, word in query.meant.items() if word and term in terms}
    # A table, because bodies have hundreds of words, and few of them are in the message.
    is_said = np.zeros(len(segment.terms), np.bool_)
    is_said[list(words)] = True
    chosen = np.array(documents)
    first, last = segment.phrase_start.take(chosen), segment.phrase_start.take(chosen + 1)
    places, starts = expand_slices(segment.word_start.take(first), segment.word_start.take(last))
    all_terms = segment.word_term.take(segment.phrase_words.take(places))
    said = is_said.take(all_terms).nonzero()[0]
    owners = chosen.take(starts.searchsorted(said, "right") - 1)
    fields = segment.phrase_field.take(segment.word_start.searchsorted(places.take(said), "right") - 1)
    for document, field, term in zip(owners.tolist(), fields.tolist(), all_terms.take(said).tolist(), strict=True):
        found[document].setdefault(field, set()).add(words[term])
    return found


def collect_evidence(words: FieldWords) -> tuple[Evidence, ...]:
    """Return the words found in each field, in the order of the message."""
    return tuple([_field_evidence(FIELD_NAMES[field], words[field]) for field in sorted(words)])


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
        pinned=[some.every | rare for some, rare in zip(named, find_rare(index, query), strict=True)],
    )
    looks = [
        _SegmentRanking(query, some, called, index.size)
        for some, called in zip(candidates, named, strict=True)
        if len(some.documents)
    ]
    worths = sorted((worth for look in looks for worth in look.worths), reverse=True)
    cut = worths[limit - 1] if len(worths) > limit else 0.0
    best = [hit for look in looks for hit in look.hits(cut)]
    best.sort(key=lambda hit: -hit.worth)
    if len({hit.worth for hit in best}) < len(best):
        # Only then, because the slug has to be decoded.
        best.sort(key=lambda hit: (-hit.worth, hit.look.slug(hit)))
    best = best[:limit]
    words = {look: look.find_words([hit.document for hit in best if hit.look is look]) for look in looks}
    found: list[Recommendation] = []
    for hit in best:
        # Rank and score are computed differently; a skill must not show a higher score than the one above it.
        at_most = found[-1].score if found else 1.0
        found.append(hit.look.recommendation(hit, words[hit.look][hit.document], at_most=at_most))
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

    def find_words(self, documents: Sequence[int]) -> dict[int, FieldWords]:
        """Return the words of the message that some candidates have, or that a pattern of theirs matched."""
        if not documents:
            return {}
        found = find_words(self._segment, documents, self._query, self._terms)
        order = self._query.words
        for document in self._named.fitted.keys() & found.keys():
            fitted = [(order.get(word, len(order)), word) for word in self._named.fitted[document]]
            found[document].setdefault(_PATTERN_FIELD, set()).update(fitted)
        return found

    def recommendation(self, hit: _Hit, words: FieldWords, *, at_most: float) -> Recommendation:
        """Return the recommendation for a candidate with some words of the message."""
        query, named, document = self._query, self._named, hit.document
        # The metadata of a skill is JSON, and is decoded only for the results.
        shown = self._segment.shown(document)
        mentioned = document in named.mentioned
        verbatim = any(contains_phrase(query.message, trigger) for trigger in shown["triggers"])
        explicit = mentioned or document in named.fitted
        score = compute_score(hit.signals, crowd=self._crowd, explicit=explicit, verbatim=verbatim)
        score = min(score, at_most)
        evidence = collect_evidence(words)
        return _recommend(
            shown,
            score=score,
            decision=decide(score),
            evidence=evidence,
            why=explain(evidence, mentioned=mentioned, near=hit.signals),
            signals=hit.signals.rounded(),
        )
