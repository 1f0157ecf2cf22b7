"""Pairs of skills that compete for the same messages.

Every skill is asked for with what its users would say: its trigger phrases, the sentences of its description, or its title
where it has neither. Where another skill is worth offering too, the two compete for that message: the more, the nearer
the other's score comes to the skill's own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prowess.match.advice import content_words, is_telling, matched_terms, said_by
from prowess.match.clauses import wanted
from prowess.match.words import spelled_out

if TYPE_CHECKING:
    from prowess.catalog.document import Document
    from prowess.match.recommendation import Recommendation
    from prowess.match.triggers import Ranker

MINIMUM = 0.75
"""How much of what two skills are asked for must be contested before they are reported."""

_DEEP = 5
_WHOLE = 1000
_TRIGGERS, _SENTENCES, _WORDS, _NAMED = 3, 3, 6, 4
_BREAK = re.compile(r"(?<=[.!?;。！？])\s+|(?<=[。！？])|\n+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Collision:
    """Two skills, by slug, and how much they compete: 1 means for every message that either is asked for with."""

    slugs: tuple[str, str]
    similarity: float
    words: tuple[str, ...]
    """The words by which both are found."""
    advice: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Contest:
    """Who competes for the messages of one skill: the share of them, and the words by which both were found.

    `near` are all skills that came up, also those that were no competition: they may lose messages to this one.
    """

    shares: Mapping[str, float]
    words: Mapping[str, Counter[str]]
    near: frozenset[str]


def find_collisions(
    ranker: Ranker,
    documents: Iterable[Document],
    *,
    among: Collection[str] | None = None,
    minimum: float = MINIMUM,
    watch: Callable[[int, int], None] | None = None,
) -> list[Collision]:
    """Every pair that competes at least so much, most first; with `among`, only pairs with one of these slugs.

    `documents` are all skills that the ranker knows. `watch` is told how many skills of how many have been asked for.
    """
    known = {document.slug: document for document in documents}
    asked = sorted(known if among is None else set(among) & set(known))
    contests: dict[str, _Contest] = {}
    for done, slug in enumerate(asked, start=1):
        contests[slug] = _contest(ranker, known[slug])
        if watch is not None:
            watch(done, len(asked))
    pairs = {_pair(slug, other) for slug in asked for other in contests[slug].near if other != slug and other in known}
    for slug in sorted({slug for pair in pairs for slug in pair} - set(contests)):
        contests[slug] = _contest(ranker, known[slug])
    found = [_collision(known[first], known[second], contests) for first, second in pairs]
    return sorted((one for one in found if one.similarity >= minimum), key=lambda one: (-one.similarity, one.slugs))


def probes(document: Document) -> list[str]:
    """What users of a skill would say, as far as it tells: never what it says that it is not for."""
    description = _BREAK.split(wanted(document.description))
    sentences = [sentence for sentence in description if sum(map(is_telling, content_words(sentence).values())) > 2]
    said = [*document.triggers[:_TRIGGERS], *sentences[:_SENTENCES]]
    found = list(dict.fromkeys(text.strip() for text in said if text.strip()))
    return found or [document.title.strip() or spelled_out(document.slug)]


def _contest(ranker: Ranker, document: Document) -> _Contest:
    asked = probes(document)
    shares: Counter[str] = Counter()
    words: dict[str, Counter[str]] = {}
    near: set[str] = set()
    for probe in asked:
        results = ranker.rank(probe, limit=_DEEP)
        near.update(result.slug for result in results)
        own = next((result for result in results if result.slug == document.slug), None)
        before = own is not None
        for other in results:
            before = before and other is not own
            if other is not own and other.decision != "no":
                shares[other.slug] += _WHOLE if before else _claim(other, own)
                words.setdefault(other.slug, Counter()).update(_shared(own, other))
    return _Contest({slug: share / len(asked) / _WHOLE for slug, share in shares.items()}, words, frozenset(near))


def _claim(other: Recommendation, own: Recommendation | None) -> int:
    """How good the claim of a skill that comes later is beside the skill's own, up to `_WHOLE`."""
    return _WHOLE if own is None or other.score >= own.score else round(_WHOLE * other.score / own.score)


def _shared(own: Recommendation | None, other: Recommendation) -> list[str]:
    theirs = matched_terms(other)
    return theirs if own is None else [term for term in matched_terms(own) if term in theirs]


def _pair(one: str, other: str) -> tuple[str, str]:
    return (one, other) if one < other else (other, one)


def _collision(first: Document, second: Document, contests: Mapping[str, _Contest]) -> Collision:
    here, there = contests[first.slug], contests[second.slug]
    similarity = (here.shares.get(second.slug, 0.0) + there.shares.get(first.slug, 0.0)) / 2
    words = here.words.get(second.slug, Counter[str]()) + there.words.get(first.slug, Counter[str]())
    common = sorted(words.items(), key=lambda item: (-item[1], item[0]))
    return Collision(
        slugs=(first.slug, second.slug),
        similarity=round(similarity, 3),
        words=tuple(word for word, _ in common if is_telling(word))[:_WORDS],
        advice=_advice(first, second),
    )


def _advice(first: Document, second: Document) -> tuple[str, ...]:
    """How to tell two skills apart, in words that only one of them has."""
    told = [_exclusion(one, other) for one, other in ((first, second), (second, first))]
    clauses = tuple(clause for clause in told if clause)
    alike = content_words(first.description).keys() == content_words(second.description).keys()
    if alike or not clauses:
        return ("Their descriptions say the same: keep one, or say in each what only it does.",)
    return (*clauses, "Give each trigger phrases that only it has.")


def _exclusion(one: Document, other: Document) -> str:
    said = said_by(one)
    about = content_words(f"{spelled_out(other.slug)} {other.title} {wanted(other.description)}")
    only = [word for stem, word in about.items() if stem not in said and is_telling(word)][:_NAMED]
    return f'Add to {one.slug}: "Not for {", ".join(only)} (use {other.slug})."' if only else ""
