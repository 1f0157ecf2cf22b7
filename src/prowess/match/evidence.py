"""Why a skill was found: which words of the message are where in it, and a sentence about that."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence

from prowess.match.query import Query
from prowess.match.recommendation import FIELD_NAMES, Evidence, FieldName
from prowess.match.segment import Segment

CLOSE = 0.4
"""From this cosine on, nearness in meaning is worth a word."""

_MOST_SHOWN = 6
_CALLED: dict[FieldName, str] = {
    "name": "name",
    "description": "description",
    "tags": "tags",
    "triggers": "trigger phrase",
    "patterns": "intent pattern",
    "keywords": "keywords",
    "body": "text",
}


def said_by(query: Query, terms: Mapping[int, int]) -> dict[int, str]:
    """Which word of the message the terms of a segment stand for, by their places there."""
    return {terms[term]: word for term, word in query.meant.items() if word and term in terms}


def evidence_of(
    segment: Segment, document: int, said: Mapping[int, str], order: Mapping[str, int], fitted: Sequence[str]
) -> tuple[Evidence, ...]:
    """The words of the message by field of the skill, in their order; `fitted` are those that fit one of its patterns."""
    first, last = segment.phrase_start[document : document + 2].tolist()
    starts: list[int] = segment.word_start[first : last + 1].tolist()
    terms: list[int] = segment.word_term.take(segment.phrase_words[starts[0] : starts[-1]]).tolist()
    found: dict[FieldName, set[str]] = {"patterns": set(fitted)} if fitted else {}
    for place, term in [(place, term) for place, term in enumerate(terms, starts[0]) if term in said]:
        field = FIELD_NAMES[segment.phrase_field[first + bisect_right(starts, place) - 1]]
        found.setdefault(field, set()).add(said[term])
    return tuple([_evidence(name, found[name], order) for name in FIELD_NAMES if name in found])


def _evidence(field: FieldName, words: set[str], order: Mapping[str, int]) -> Evidence:
    if field == "body":
        return Evidence(field=field, count=len(words))
    last = len(order)
    return Evidence(
        field=field,
        count=len(words),
        terms=tuple(sorted(words, key=lambda word: (order.get(word, last), word)) if len(words) > 1 else words),
    )


def why(evidence: Sequence[Evidence], *, mentioned: bool, cosine: float) -> str:
    """A short sentence for people."""
    reasons = ["the message names it"] if mentioned else []
    for item in evidence:
        if item.field == "body":
            reasons.append(f"{item.count} word{'s' if item.count > 1 else ''} of its text")
        else:
            reasons.append(f"{_CALLED[item.field]}: {', '.join(item.terms[:_MOST_SHOWN])}")
    if cosine >= CLOSE:
        reasons.append("close in meaning")
    return "; ".join(reasons) or "a little alike in meaning"
