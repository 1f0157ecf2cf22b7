"""The walk of one message: ask, find candidates, look closer, score, decide, say why."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from prowess.match.candidates import Candidates, find_candidates
from prowess.match.evidence import evidence_of, said_by, why
from prowess.match.index import Index
from prowess.match.mentions import mentioned, says
from prowess.match.patterns import pattern_hits
from prowess.match.query import Query, ask
from prowess.match.recommendation import Decision, Recommendation
from prowess.match.score import decide, score_of, worth_of
from prowess.match.segment import Segment, tag_number
from prowess.match.signals import Signals, signals_of

MOST = 1_000
"""No more than this many are ranked."""
_SPARE = 7
"""So many more are looked at closer than are asked for."""


def rank(
    index: Index,
    message: str,
    *,
    limit: int,
    tags: Collection[str] = (),
    context: str = "",
    by_words: bool = False,
) -> list[Recommendation]:
    """The skills that come nearest to a message, best first, each with its decision.

    With `by_words`, only those that have a word of it.
    """
    limit = min(limit, MOST)
    if limit < 1 or not index.parts:
        return []
    query = ask(index, message, context)
    if not query.words:
        return []
    named = [_Named.of(part.segment, query.message) for part in index.parts]
    candidates = find_candidates(
        index,
        query,
        count=limit + _SPARE,
        by_words=by_words,
        tags=sorted({tag_number(tag) for tag in tags}),
        pinned=[some.every for some in named],
    )
    looks = [_Look(query, some, called) for some, called in zip(candidates, named, strict=True)]
    worths = sorted((worth for look in looks for worth in look.worths), reverse=True)
    cut = worths[limit - 1] if len(worths) > limit else 0.0
    best = [hit for look in looks for hit in look.hits(cut)]
    best.sort(key=lambda hit: (-hit.worth, hit.shown["slug"]))
    found: list[Recommendation] = []
    for hit in best[:limit]:
        # What ranks lower never scores higher.
        found.append(hit.look.recommendation(hit, at_most=found[-1].score if found else 1.0))
    return found


def listed(index: Index, *, limit: int, tags: Collection[str] = ()) -> list[Recommendation]:
    """The skills with all of these tags, by slug; nothing is asked of them, so none scores."""
    wanted = sorted({tag_number(tag) for tag in tags})
    found = [
        part.segment.shown(place)
        for part in index.parts
        for place in np.flatnonzero(part.alive & part.segment.tagged_with(wanted)).tolist()
    ]
    found.sort(key=lambda shown: shown["slug"])
    return [_recommended(shown, score=0.0, decision="maybe") for shown in found[: max(limit, 0)]]


def _recommended(shown: dict[str, Any], *, score: float, decision: Decision, **more: Any) -> Recommendation:
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
class _Named:
    """The documents of a segment that a message points at by itself."""

    mentioned: frozenset[int]
    fitted: dict[int, tuple[str, ...]]

    @classmethod
    def of(cls, segment: Segment, message: str) -> _Named:
        return cls(frozenset(mentioned(segment, message)), pattern_hits(segment, message))

    @property
    def every(self) -> Collection[int]:
        return self.mentioned | self.fitted.keys()


class _Hit(NamedTuple):
    """One of the candidates that were looked at."""

    look: _Look
    document: int
    signals: Signals
    worth: float
    shown: dict[str, Any]


class _Look:
    """The closer look at the candidates of a segment."""

    def __init__(self, query: Query, candidates: Candidates, named: _Named) -> None:
        explicit = named.every
        self._query = query
        self._named = named
        self._segment, self._terms = candidates.segment, candidates.terms
        self._documents: list[int] = candidates.documents.tolist()
        self._signals = signals_of(query, candidates)
        self.worths = [
            worth_of(signals, explicit=document in explicit)
            for document, signals in zip(self._documents, self._signals, strict=True)
        ]

    def hits(self, cut: float) -> list[_Hit]:
        """Those worth as much as `cut`, and anything at all."""
        return [
            _Hit(self, document, signals, worth, self._segment.shown(document))
            for document, signals, worth in zip(self._documents, self._signals, self.worths, strict=True)
            if worth >= cut and worth > 0
        ]

    @cached_property
    def _said(self) -> dict[int, str]:
        return said_by(self._query, self._terms)

    def recommendation(self, hit: _Hit, *, at_most: float) -> Recommendation:
        """What is told of one of them."""
        query, named, document = self._query, self._named, hit.document
        mentioned, fitted = document in named.mentioned, named.fitted.get(document, ())
        verbatim = any(says(query.message, trigger) for trigger in hit.shown["triggers"])
        explicit = mentioned or document in named.fitted
        score = score_of(hit.signals, explicit=explicit, verbatim=verbatim, unspaced=query.unspaced)
        score = min(score, at_most)
        evidence = evidence_of(self._segment, document, self._said, query.words, fitted)
        return _recommended(
            hit.shown,
            score=score,
            decision=decide(score),
            evidence=evidence,
            why=why(evidence, mentioned=mentioned, cosine=hit.signals.cosine),
            signals=hit.signals.rounded(),
        )
