"""The walk of one message: ask, find candidates, look closer, score, decide, say why."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from prowess.match.candidates import Candidates, find_candidates
from prowess.match.evidence import evidence_of, why
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
        count=limit,
        by_words=by_words,
        tags=sorted({tag_number(tag) for tag in tags}),
        pinned=[sorted({*some.mentioned, *some.fitted}) for some in named],
    )
    looks = [_Looked.at(query, some, named[_part(index, some)]) for some in candidates]
    worths = sorted((worth for look in looks for worth in look.worths), reverse=True)
    cut = worths[limit - 1] if len(worths) > limit else 0.0
    best = [hit for look in looks for hit in look.hits(cut)]
    best.sort(key=lambda hit: (-hit.worth, hit.shown["slug"]))
    found: list[Recommendation] = []
    for hit in best[:limit]:
        # What ranks lower never scores higher.
        found.append(hit.look.recommendation(query, hit, at_most=found[-1].score if found else 1.0))
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
        score=score,
        decision=decision,
        **more,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Named:
    """The documents of a segment that a message points at by itself."""

    mentioned: frozenset[int]
    fitted: dict[int, tuple[str, ...]]

    @classmethod
    def of(cls, segment: Segment, message: str) -> _Named:
        return cls(mentioned=frozenset(mentioned(segment, message)), fitted=pattern_hits(segment, message))


class _Hit(NamedTuple):
    """One of the candidates that were looked at."""

    look: _Looked
    place: int
    worth: float
    shown: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Looked:
    """The candidates of a segment after the closer look."""

    candidates: Candidates
    named: _Named
    signals: Signals
    worths: list[float]

    @classmethod
    def at(cls, query: Query, candidates: Candidates, named: _Named) -> _Looked:
        signals = signals_of(query, candidates)
        explicit = np.zeros(len(candidates.documents), np.bool_)
        if named.mentioned or named.fitted:
            explicit = np.isin(candidates.documents, [*named.mentioned, *named.fitted])
        worths: list[float] = worth_of(signals, explicit).tolist()
        return cls(candidates=candidates, named=named, signals=signals, worths=worths)

    def hits(self, cut: float) -> list[_Hit]:
        """Those worth as much as `cut`, and anything at all."""
        segment, documents = self.candidates.segment, self.candidates.documents
        return [
            _Hit(self, place, worth, segment.shown(int(documents[place])))
            for place, worth in enumerate(self.worths)
            if worth >= cut and worth > 0
        ]

    def recommendation(self, query: Query, hit: _Hit, *, at_most: float) -> Recommendation:
        document = int(self.candidates.documents[hit.place])
        mentioned, fitted = document in self.named.mentioned, self.named.fitted.get(document, ())
        explicit = mentioned or document in self.named.fitted
        verbatim = any(says(query.message, trigger) for trigger in hit.shown["triggers"])
        score = score_of(self.signals, hit.place, explicit=explicit, verbatim=verbatim, unspaced=query.unspaced)
        score = min(score, at_most)
        evidence = evidence_of(self.candidates.segment, document, query, fitted)
        figures = self.signals.at(hit.place)
        return _recommended(
            hit.shown,
            score=score,
            decision=decide(score),
            evidence=evidence,
            why=why(evidence, mentioned=mentioned, cosine=figures["cosine"]),
            signals=figures,
        )


def _part(index: Index, candidates: Candidates) -> int:
    return next(place for place, part in enumerate(index.parts) if part is candidates.part)
