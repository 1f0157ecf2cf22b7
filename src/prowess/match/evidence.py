"""Why a skill was found: which words of the message are where in it, and a sentence about that."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

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


def evidence_of(segment: Segment, document: int, query: Query, fitted: Sequence[str]) -> tuple[Evidence, ...]:
    """The words of the message by field of the skill; `fitted` are those that fit one of its patterns."""
    first, last = segment.phrase_start[document], segment.phrase_start[document + 1]
    begin, end = segment.word_start[first], segment.word_start[last]
    starts = segment.word_start[first : last + 1].tolist()
    fields: list[int] = segment.phrase_field[first:last].tolist()
    terms: list[int] = segment.terms[segment.word_term[segment.phrase_words[begin:end]]].tolist()
    found: dict[FieldName, dict[str, None]] = {"patterns": dict.fromkeys(fitted)} if fitted else {}
    for place, term in enumerate(terms):
        word = query.meant.get(term)
        if word:
            phrase = bisect_right(starts, starts[0] + place) - 1
            found.setdefault(FIELD_NAMES[fields[phrase]], {})[word] = None
    order = {word: place for place, word in enumerate(query.words)}
    return tuple(
        Evidence(
            field=name,
            count=len(found[name]),
            terms=() if name == "body" else tuple(sorted(found[name], key=lambda word: order.get(word, len(order)))),
        )
        for name in FIELD_NAMES
        if found.get(name)
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
