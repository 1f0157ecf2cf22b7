"""Prepare one skill for the index: its words by field and phrase, and the key terms of its body.

An entry depends on its own skill alone, so skills can be indexed in any order and in any grouping.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from prowess.match.card import card_key, make_card, name_words
from prowess.match.lexicon import Vocabulary
from prowess.match.recommendation import FIELD_NAMES, FieldName
from prowess.match.words import extract_words, remove_exclusions, split_clauses

if TYPE_CHECKING:
    from prowess.catalog.store import SearchDocument

MAX_KEY_TERMS = 30
"""How many words of a body are indexed. Measured: thirty at a low weight gain 1 to 5 points of NDCG@10, whole bodies
lose some."""
BODY_CHARACTERS = 4_000
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,}).*?(?:^[ \t]*\1|\Z)", re.DOTALL | re.MULTILINE)


def count_words(body: str) -> dict[str, int]:
    """Count the words of a body that may be key terms; code does not count."""
    text = body[:BODY_CHARACTERS]
    if "```" in text or "~~~" in text:
        text = _FENCE.sub(" ", text)
    counts = Counter(extract_words(text))
    return {word: count for word, count in counts.items() if len(word) > 2 and not word.isdigit()}


def pick_key_terms(counts: Mapping[str, int], weights: Mapping[str, int]) -> list[str]:
    """Return at most thirty words by frequency times general weight, best first.

    The choice depends on this body alone, so a change to another skill never changes it.
    """
    if len(counts) <= MAX_KEY_TERMS:
        return sorted(counts)
    # √count × weight, squared: whole numbers, so that the order is the same everywhere.
    ordered = sorted([(-count * weights[word] ** 2, word) for word, count in counts.items()])
    return [word for _, word in ordered[:MAX_KEY_TERMS]]


FIELD_WEIGHTS: dict[FieldName, tuple[float, float]] = {
    "name": (3.0, 3.0),
    "description": (1.0, 28.0),
    "tags": (1.0, 5.0),
    "triggers": (0.7, 30.0),
    "keywords": (1.0, 6.0),
    "body": (0.3, 0.0),
}
"""The weight of each field, and its usual number of words: in a longer field each word counts less. 0: any length.

The numbers are fixed, not averages over the catalog, so that an entry depends on its own skill alone."""

PURPOSE_FIELDS = tuple(name in ("name", "description", "triggers") for name in FIELD_NAMES)
"""The fields whose phrases have a meaning as a whole; the others are lists of words."""

_NAME, _DESCRIPTION, _TAGS, _TRIGGERS, _KEYWORDS, _BODY = map(FIELD_NAMES.index, FIELD_WEIGHTS)

MAX_TRIGGERS = 64
MAX_FIELD_WORDS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexEntry:
    """The words of a skill. A skill without a description is indexed but never ranked: it does not say what it is for."""

    document: SearchDocument
    phrases: list[list[str]]
    """The words of each phrase; the body is the last one."""
    fields: list[int]
    """The field of each phrase."""
    text: str
    """The text for the embedder: name and description."""
    vector_key: tuple[int, int]
    """The key of its card's vectors."""

    @property
    def ranks(self) -> bool:
        """True if the skill may be recommended."""
        return bool(self.document.description.strip())


def build_entries(documents: Sequence[SearchDocument], vocabulary: Vocabulary) -> list[IndexEntry]:
    """Return the entries of some documents; the vocabulary learns the words of all bodies in one batch."""
    bodies = [count_words(document.body) for document in documents]
    vocabulary.learn(chain.from_iterable(bodies))
    return [
        _build_entry(document, pick_key_terms(body, vocabulary.word_weights))
        for document, body in zip(documents, bodies, strict=True)
    ]


def _build_entry(document: SearchDocument, body: list[str]) -> IndexEntry:
    # A clause such as "not for spreadsheets" would attract messages about spreadsheets.
    called, description = name_words(document.slug, document.title), remove_exclusions(document.description)
    clauses = split_clauses(description)
    phrases: list[list[str]] = []
    fields: list[int] = []
    for field, words in _split_phrases(document, called, clauses, body):
        if words:
            phrases.append(words)
            fields.append(field)
    text = " . ".join((called, description, " ".join(document.tags)))
    key = card_key(make_card(called, clauses, document.triggers[:MAX_TRIGGERS]))
    return IndexEntry(document=document, phrases=phrases, fields=fields, text=text, vector_key=key)


def _split_phrases(
    document: SearchDocument, called: str, clauses: Sequence[str], body: list[str]
) -> Iterator[tuple[int, list[str]]]:
    yield _NAME, extract_words(called)[:MAX_FIELD_WORDS]
    left = MAX_FIELD_WORDS
    for part in clauses:
        words = extract_words(part)[:left]
        left -= len(words)
        yield _DESCRIPTION, words
    yield _TAGS, extract_words(" ".join(document.tags))[:MAX_FIELD_WORDS]
    for trigger in document.triggers[:MAX_TRIGGERS]:
        yield _TRIGGERS, extract_words(trigger)[:MAX_FIELD_WORDS]
    yield _KEYWORDS, extract_words(" ".join(document.keywords))[:MAX_FIELD_WORDS]
    yield _BODY, body
