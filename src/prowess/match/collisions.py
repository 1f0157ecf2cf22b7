"""Find pairs of skills that compete for the same messages, and the words that tell skills apart."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from prowess.lazy_dataclass import dataclass
from prowess.match.words import STOP_WORDS, extract_words, remove_exclusions, slug_words, stem_words

if TYPE_CHECKING:
    from prowess.catalog.store import SearchDocument
    from prowess.match.recommendation import Recommendation
    from prowess.match.trigger_eval import Ranker


MAX_LISTED_WORDS = 10


def content_words(text: str) -> dict[str, str]:
    """Return the words of a text without stop words, by their stems, in order."""
    words = extract_words(text)
    found: dict[str, str] = {}
    for stem, word in zip(stem_words(words), words, strict=True):
        found.setdefault(stem, word)
    return found


def is_informative(word: str) -> bool:
    """Return True if a word is worth showing: not a number, not a single letter, not a stop word."""
    return word not in STOP_WORDS and not word.isdecimal() and (len(word) > 1 or not word.isascii())


def purpose_stems(document: SearchDocument) -> frozenset[str]:
    """Return the stems of everything by which a skill says when to use it: all fields but the body."""
    return frozenset(content_words("\n".join(_purpose_texts(document))))


def _purpose_texts(document: SearchDocument) -> Iterable[str]:
    yield slug_words(document.slug)
    yield document.title
    yield document.description
    for field in (document.tags, document.triggers, document.patterns, document.keywords):
        yield from field


def find_missing_words(document: SearchDocument, queries: Iterable[str]) -> list[tuple[str, int]]:
    """Return the words of these queries that the skill does not use, most frequent first, with the number of queries."""
    said = purpose_stems(document)
    counts: Counter[str] = Counter()
    shown: dict[str, str] = {}
    for query in queries:
        for stem, word in content_words(query).items():
            if stem not in said and is_informative(word):
                counts[stem] += 1
                shown.setdefault(stem, word)
    return _most_frequent(Counter({shown[stem]: count for stem, count in counts.items()}))


def count_matched_terms(results: Iterable[Recommendation]) -> list[tuple[str, int]]:
    """Return the words by which a skill was found, most frequent first, with their counts."""
    return _most_frequent(Counter(term for result in results for term in matched_terms(result)))


def matched_terms(result: Recommendation) -> list[str]:
    """Return the words of the message found in a skill, without those in its body, which is not disclosed."""
    return list(dict.fromkeys(term.lower() for item in result.evidence for term in item.terms if item.field != "body"))


def _most_frequent(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MAX_LISTED_WORDS]


MIN_SIMILARITY = 0.75
"""The lowest similarity that is reported."""

_DEPTH = 5
# Claims are integers, so that their sums are exact in any order.
_FULL_CLAIM = 1000
_ALIKE = 0.8
"""The share of common words from which two descriptions say nearly the same."""
_MAX_TRIGGERS, _MAX_SENTENCES, _MAX_WORDS, _MAX_NAMED = 3, 3, 6, 4
_SENTENCE_BREAK = re.compile(r"(?<=[.!?;。！？])\s+|(?<=[。！？])|\n+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Collision:
    """Two skills that compete; similarity 1 means for every message of either skill."""

    slugs: tuple[str, str]
    similarity: float
    words: tuple[str, ...]
    """The words by which both are found."""
    advice: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rivals:
    """The competitors of one skill: their share of its messages, and the words by which both were found.

    `near` are all skills that were found, even without competing: they may lose messages to this one.
    """

    shares: Mapping[str, float]
    words: Mapping[str, Counter[str]]
    near: frozenset[str]


def find_collisions(
    ranker: Ranker,
    documents: Iterable[SearchDocument],
    *,
    among: Collection[str] | None = None,
    minimum: float = MIN_SIMILARITY,
    watch: Callable[[int, int], None] | None = None,
) -> list[Collision]:
    """Return every pair with at least the minimum similarity, highest first; with `among`, only pairs with one of these slugs.

    `documents` are all skills that the ranker knows. `watch` receives the number of skills done and the total.
    """
    known = {document.slug: document for document in documents}
    asked = sorted(known if among is None else set(among) & set(known))
    contests: dict[str, Rivals] = {}
    for done, slug in enumerate(asked, start=1):
        contests[slug] = find_rivals(ranker, known[slug])
        if watch is not None:
            watch(done, len(asked))
    pairs = {
        _sorted_pair(slug, other) for slug in asked for other in contests[slug].near if other != slug and other in known
    }
    # Similarity is the mean of both directions, so rivals that were not asked about need their own figures, too.
    for slug in sorted({slug for pair in pairs for slug in pair} - set(contests)):
        contests[slug] = find_rivals(ranker, known[slug])
    found = [_make_collision(known[first], known[second], contests) for first, second in pairs]
    return sorted((one for one in found if one.similarity >= minimum), key=lambda one: (-one.similarity, one.slugs))


def sample_messages(document: SearchDocument) -> list[str]:
    """Return messages that users of a skill would send, made from its triggers and description, without its exclusions."""
    description = _SENTENCE_BREAK.split(remove_exclusions(document.description))
    sentences = [sentence for sentence in description if sum(map(is_informative, content_words(sentence).values())) > 2]
    said = [*document.triggers[:_MAX_TRIGGERS], *sentences[:_MAX_SENTENCES]]
    found = list(dict.fromkeys(text.strip() for text in said if text.strip()))
    return found or [document.title.strip() or slug_words(document.slug)]


def find_rivals(ranker: Ranker, document: SearchDocument) -> Rivals:
    """Return the skills that compete with a skill for the messages that its own texts suggest."""
    asked = sample_messages(document)
    shares: Counter[str] = Counter()
    words: dict[str, Counter[str]] = {}
    near: set[str] = set()
    for probe in asked:
        results = ranker.rank(probe, limit=_DEPTH)
        near.update(result.slug for result in results)
        own = next((result for result in results if result.slug == document.slug), None)
        before = own is not None
        for other in results:
            # A skill that ranks before this one takes the whole message; one that ranks after it, a share by its score.
            before = before and other is not own
            if other is not own and other.decision != "no":
                shares[other.slug] += _FULL_CLAIM if before else _claim_of(other, own)
                words.setdefault(other.slug, Counter()).update(_shared_terms(own, other))
    return Rivals({slug: share / len(asked) / _FULL_CLAIM for slug, share in shares.items()}, words, frozenset(near))


def _claim_of(other: Recommendation, own: Recommendation | None) -> int:
    """Return the claim of a lower-ranked skill relative to the skill's own score, up to `_FULL_CLAIM`."""
    return _FULL_CLAIM if own is None or other.score >= own.score else round(_FULL_CLAIM * other.score / own.score)


def _shared_terms(own: Recommendation | None, other: Recommendation) -> list[str]:
    theirs = matched_terms(other)
    return theirs if own is None else [term for term in matched_terms(own) if term in theirs]


def _sorted_pair(one: str, other: str) -> tuple[str, str]:
    return (one, other) if one < other else (other, one)


def _make_collision(first: SearchDocument, second: SearchDocument, contests: Mapping[str, Rivals]) -> Collision:
    here, there = contests[first.slug], contests[second.slug]
    similarity = (here.shares.get(second.slug, 0.0) + there.shares.get(first.slug, 0.0)) / 2
    words = here.words.get(second.slug, Counter[str]()) + there.words.get(first.slug, Counter[str]())
    common = sorted(words.items(), key=lambda item: (-item[1], item[0]))
    return Collision(
        slugs=(first.slug, second.slug),
        similarity=round(similarity, 3),
        words=tuple(_without_parts([word for word, _ in common if is_informative(word)])[:_MAX_WORDS]),
        advice=_advise(first, second),
    )


def _advise(first: SearchDocument, second: SearchDocument) -> tuple[str, ...]:
    """Return advice for telling two skills apart, with words that only one of them has."""
    told = [_suggest_exclusion(one, other) for one, other in ((first, second), (second, first))]
    clauses = tuple(clause for clause in told if clause)
    one, other = content_words(first.description).keys(), content_words(second.description).keys()
    if one == other or not clauses:
        return ("Their descriptions say the same: keep one, or say in each what only it does.",)
    if len(one & other) >= _ALIKE * len(one | other):
        return ("Their descriptions say nearly the same: keep one, or say in each what only it does.",)
    return (*clauses, "Give each trigger phrases that only it has.")


def _without_parts(words: list[str]) -> list[str]:
    """Leave out parts of other words: `YouTube` also counts as `you` and `tube`, and `LLaVA` as `la` and `va`."""
    return [word for word in words if not any(_is_part(word, other) for other in words)]


def _is_part(word: str, other: str) -> bool:
    return word != other and word in other and (len(word) < 3 or not other.startswith(word))


def _suggest_exclusion(one: SearchDocument, other: SearchDocument) -> str:
    said = purpose_stems(one)
    about = content_words(f"{slug_words(other.slug)} {other.title} {remove_exclusions(other.description)}")
    only = _without_parts([word for stem, word in about.items() if stem not in said and is_informative(word)])[
        :_MAX_NAMED
    ]
    return f'Add to {one.slug}: "Not for {", ".join(only)} (use {other.slug})."' if only else ""
