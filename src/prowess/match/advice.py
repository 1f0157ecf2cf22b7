"""The words that tell skills apart: which of a message a skill never says, which drew it in, which two share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from prowess.catalog.document import Document
from prowess.match.stopwords import STOP_WORDS
from prowess.match.words import spelled_out, stems_of, words_of

if TYPE_CHECKING:
    from prowess.match.recommendation import Recommendation

MOST_WORDS = 10


def content_words(text: str) -> dict[str, str]:
    """The words of a text that carry meaning, in order, each by the stem that it is compared by."""
    words = words_of(text)
    found: dict[str, str] = {}
    for stem, word in zip(stems_of(words), words, strict=True):
        found.setdefault(stem, word)
    return found


def is_telling(word: str) -> bool:
    """Whether it helps a person to hear of a word: no number, no letter that stood alone, no word of every sentence."""
    return word not in STOP_WORDS and not word.isdecimal() and (len(word) > 1 or not word.isascii())


def said_by(document: Document) -> frozenset[str]:
    """The stems of everything by which a skill says when it should be used; its body, which is not read for that, left out."""
    return frozenset(content_words("\n".join(_texts(document))))


def _texts(document: Document) -> Iterable[str]:
    yield spelled_out(document.slug)
    yield document.title
    yield document.description
    for field in (document.tags, document.triggers, document.patterns, document.keywords):
        yield from field


def unsaid_words(document: Document, queries: Iterable[str]) -> list[tuple[str, int]]:
    """The words of these queries that the skill never says, most frequent first, with how many queries have each."""
    said = said_by(document)
    counts: Counter[str] = Counter()
    shown: dict[str, str] = {}
    for query in queries:
        for stem, word in content_words(query).items():
            if stem not in said and is_telling(word):
                counts[stem] += 1
                shown.setdefault(stem, word)
    return _most(Counter({shown[stem]: count for stem, count in counts.items()}))


def drawing_words(results: Iterable[Recommendation]) -> list[tuple[str, int]]:
    """The words by which a skill was found for these messages, most frequent first."""
    return _most(Counter(term for result in results for term in matched_terms(result)))


def matched_terms(result: Recommendation) -> list[str]:
    """The words of the message that were found in a skill, each once; those of its body are not disclosed."""
    return list(dict.fromkeys(term.lower() for item in result.evidence for term in item.terms if item.field != "body"))


def _most(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MOST_WORDS]
