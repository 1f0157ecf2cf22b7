"""Rank the skills for one message: find candidates, compare them, score, decide, explain."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

import numpy as np

from prowess.lazy_dataclass import dataclass
from prowess.match.candidates import Candidates, SharedTerms, can_compare, find_candidates, find_rare
from prowess.match.index import Index
from prowess.match.mentions import contains_phrase, find_mentioned, match_patterns
from prowess.match.query import Query, build_query
from prowess.match.recommendation import FIELD_NAMES, MAX_RESULTS, Decision, Evidence, FieldName, Recommendation, decide
from prowess.match.score import (
    Signals,
    compute_coverage,
    compute_declared,
    compute_rank,
    compute_rare,
    compute_score,
)
from prowess.match.segment import Segment, hash_tag

CLOSE_COSINE = 0.4
"""From this cosine on, the explanation mentions similarity."""

_MAX_SHOWN = 6
_PATTERN_FIELD = FIELD_NAMES.index("patterns")
_FIELDS_OF = [
    [field for field in range(len(FIELD_NAMES)) if bits >> field & 1] for bits in range(1 << len(FIELD_NAMES))
]
"""The fields of each combination of bits."""
_FIELD_LABELS: dict[FieldName, str] = {
    "name": "name",
    "description": "description",
    "tags": "tags",
    "triggers": "trigger phrase",
    "patterns": "intent pattern",
    "keywords": "keywords",
    "body": "text",
}


def collect_evidence(query: Query, shared: SharedTerms, fitted: Collection[str] = ()) -> tuple[Evidence, ...]:
    """Return the words found in each field, in the order of the message; `fitted` are those that a pattern matched."""
    found: dict[int, dict[str, None]] = {}
    for term, bits in shared.fields.items():
        # Context is not evidence.
        if word := query.meant[term]:
            for field in _FIELDS_OF[bits]:
                found.setdefault(field, {})[word] = None
    if fitted:
        last = len(query.words)
        ordered = sorted(fitted, key=lambda word: (query.words.get(word, last), word))
        found[_PATTERN_FIELD] = dict.fromkeys(ordered)
    return tuple([_field_evidence(FIELD_NAMES[field], found[field]) for field in sorted(found)])


def _field_evidence(field: FieldName, words: Collection[str]) -> Evidence:
    # A body is not disclosed before its skill is chosen.
    return Evidence(field=field, count=len(words), terms=() if field == "body" else tuple(words))


def explain(evidence: Sequence[Evidence], *, mentioned: bool, near: Signals) -> str:
    """Return a short sentence that says why the skill was found."""
    reasons = ["the message names it"] if mentioned else []
    for item in evidence:
        if item.field == "body":
            reasons.append(f"{item.count} word{'s' if item.count > 1 else ''} of its text")
        else:
            reasons.append(f"{_FIELD_LABELS[item.field]}: {', '.join(item.terms[:_MAX_SHOWN])}")
    if near.compared and max(near.cosine + near.sentence, near.part) >= CLOSE_COSINE:
        reasons.append("close in meaning")
    return "; ".join(reasons) or "somewhat similar in meaning"


_SPARE_CANDIDATES = 7
"""The number of extra candidates that are compared in detail."""
_LIKELY, LIKELY_SECONDS = 16, 0.15
"""Of the skills without vectors, so many of the best by words get theirs at once, and how long that may take.

Measured on three sets before any vector is computed: with 16, 109 of 180 fitting skills are offered instead of 68, and 110
with all vectors. More than 16 change nothing."""


def rank(
    index: Index,
    message: str,
    *,
    limit: int,
    tags: Collection[str] = (),
    context: str = "",
    fitting: bool = False,
) -> list[Recommendation]:
    """Return the best skills for a message, best first, each with its decision. With `fitting`, none with the decision "no".

    Of the skills that have no vectors yet, the most likely ones get theirs first.
    """
    if limit < 1 or not index.parts:
        return []
    query = build_query(index, message, context)
    if index.missing and query.has_vector:
        likely = [one.slug for one in _rank(index, query, limit=_LIKELY, tags=tags)]
        index = index.with_vectors_of(likely, seconds=LIKELY_SECONDS)
    return _rank(index, query, limit=limit, tags=tags, fitting=fitting)


def search(
    index: Index, text: str, *, limit: int, tags: Collection[str] = (), people_only: bool = True
) -> list[Recommendation]:
    """Return the skills that fit a text or have a word of it, best first."""
    if limit < 1 or not index.parts:
        return []
    query = build_query(index, text)
    ranked = _rank(index, query, limit=limit, tags=tags, people_only=people_only)
    found = {one.slug: one for one in ranked if one.evidence or one.decision != "no"}
    # Without vectors only skills with a word are candidates: if the ranking ends early, it has all of them.
    is_complete = len(found) == len(ranked) < MAX_RESULTS and not can_compare(index, query)
    if len(found) < limit and not is_complete:
        more = _rank(index, query, limit=limit, tags=tags, people_only=people_only, by_words=True)
        found.update((one.slug, one) for one in more if one.slug not in found)
    return list(found.values())[:limit]


def _rank(
    index: Index,
    query: Query,
    *,
    limit: int,
    tags: Collection[str] = (),
    people_only: bool = False,
    by_words: bool = False,
    fitting: bool = False,
) -> list[Recommendation]:
    """Rank for a prepared message.

    With `people_only`, also skills that only people start; with `by_words`, only skills that have a word of the message.
    """
    limit = min(limit, MAX_RESULTS)
    if not query.words:
        return []
    named = [_DirectHits.of(part.segment, query.message) for part in index.parts]
    candidates = find_candidates(
        index,
        query,
        count=limit + _SPARE_CANDIDATES,
        people_only=people_only,
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
    found: list[Recommendation] = []
    for hit in best[:limit]:
        # Rank and score are computed differently; a skill must not show a higher score than the one above it.
        at_most = found[-1].score if found else 1.0
        one = hit.look.recommendation(hit, at_most=at_most)
        # The scores of those after it are no higher.
        if fitting and one.decision == "no":
            break
        found.append(one)
    return found


def list_tagged(
    index: Index, *, limit: int, tags: Collection[str] = (), people_only: bool = True
) -> list[Recommendation]:
    """Return the skills with all of these tags, by slug, without scores."""
    wanted = sorted({hash_tag(tag) for tag in tags})
    found = [
        part.segment.shown(place)
        for part in index.parts
        for place in np.flatnonzero(part.alive & part.segment.tagged_with(wanted)).tolist()
    ]
    found = sorted(
        (shown for shown in found if people_only or not shown["people_only"]), key=lambda shown: shown["slug"]
    )
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
        people_only=shown["people_only"],
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
    place: int
    """Its position among the candidates."""
    worth: float


class _SegmentRanking:
    """Scores the candidates of a segment."""

    def __init__(self, query: Query, candidates: Candidates, named: _DirectHits, crowd: int) -> None:
        self._query = query
        self._named = named
        self._crowd = crowd
        self._segment = candidates.segment
        figures = (
            candidates.lexical,
            candidates.cosine,
            candidates.part,
            candidates.sentence,
            candidates.compared,
        )
        self._figures = list(zip(*[column.tolist() for column in figures], strict=True))
        self._documents: list[int] = candidates.documents.tolist()
        self._shared = candidates.postings.find_shared(candidates.documents)
        self._declared = [
            compute_declared(query, candidates.segment, document) if shared.may_be_declared else 0.0
            for document, shared in zip(self._documents, self._shared, strict=True)
        ]
        self._rare = [compute_rare(query, shared) if query.rare else 0.0 for shared in self._shared]
        explicit = named.every
        self.worths = [
            compute_rank(base, declared=declared, rare=rare, explicit=document in explicit)
            for base, declared, rare, document in zip(
                candidates.rank(query).tolist(), self._declared, self._rare, self._documents, strict=True
            )
        ]

    def hits(self, cut: float) -> list[_Hit]:
        """Return the candidates with a positive rank of at least `cut`."""
        return [_Hit(self, place, worth) for place, worth in enumerate(self.worths) if worth >= cut and worth > 0]

    def slug(self, hit: _Hit) -> str:
        """Return the slug of a candidate."""
        return self._segment.slug(self._documents[hit.place])

    def recommendation(self, hit: _Hit, *, at_most: float) -> Recommendation:
        """Return the recommendation for a candidate."""
        query, named, document, shared = self._query, self._named, self._documents[hit.place], self._shared[hit.place]
        signals = self._signals(hit.place)
        # The metadata of a skill is JSON, and is decoded only for the results.
        shown = self._segment.shown(document)
        mentioned = document in named.mentioned
        verbatim = any(contains_phrase(query.message, trigger) for trigger in shown["triggers"])
        explicit = mentioned or document in named.fitted
        score = compute_score(signals, crowd=self._crowd, explicit=explicit, verbatim=verbatim)
        score = min(score, at_most)
        evidence = collect_evidence(query, shared, named.fitted.get(document, ()))
        return _recommend(
            shown,
            score=score,
            decision=decide(score),
            evidence=evidence,
            why=explain(evidence, mentioned=mentioned, near=signals),
            signals=signals.rounded(),
        )

    def _signals(self, place: int) -> Signals:
        lexical, cosine, part, sentence, compared = self._figures[place]
        return Signals(
            lexical=lexical,
            cosine=cosine,
            part=part,
            sentence=sentence,
            coverage=compute_coverage(self._query, self._shared[place]),
            declared=self._declared[place],
            rare=self._rare[place],
            prior=self._query.prior,
            compared=compared,
        )
