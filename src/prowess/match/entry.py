"""One skill made ready for the index: its words by field and phrase. Depends on that skill alone.

So an index that was updated skill by skill is the same as one built at once.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from prowess.catalog.document import Document
from prowess.match.clauses import parts, wanted
from prowess.match.keyterms import key_terms
from prowess.match.lexicon import weigh
from prowess.match.recommendation import FIELD_NAMES, FieldName
from prowess.match.words import spelled_out, words_of

FIELDS: dict[FieldName, tuple[float, float]] = {
    "name": (3.0, 3.0),
    "description": (1.0, 28.0),
    "tags": (1.0, 5.0),
    "triggers": (0.7, 30.0),
    "keywords": (1.0, 6.0),
    "body": (0.3, 0.0),
}
"""Weight of a field, and how many words it usually has: in a longer one each word counts less. 0: length does not matter."""

SAYING = tuple(name in ("name", "description", "triggers") for name in FIELD_NAMES)
"""The fields whose phrases say something as a whole; in the others words are only listed."""

_LENGTH = 0.75
MOST_TRIGGERS = 64
MOST_WORDS = 400


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words that stand together in one field."""

    field: int
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A skill in words. One without a description is kept but never ranks: it does not say what it is for."""

    document: Document
    phrases: tuple[Phrase, ...]
    ranks: bool

    @classmethod
    def of(cls, document: Document) -> Entry:
        """Read a document."""
        phrases = [Phrase(FIELD_NAMES.index(name), tuple(words)) for name, words in _phrases(document) if words]
        return cls(document=document, phrases=tuple(phrases), ranks=bool(document.description.strip()))

    @property
    def text(self) -> str:
        """What an embedder reads: what the skill is called and what it is for."""
        document = self.document
        return " . ".join((_called(document), wanted(document.description), " ".join(document.tags)))

    def frequencies(self) -> dict[str, float]:
        """How much of each word there is, over all fields, by weight and length of the field."""
        lengths: dict[int, int] = defaultdict(int)
        for phrase in self.phrases:
            lengths[phrase.field] += len(phrase.words)
        found: dict[str, float] = defaultdict(float)
        for phrase in self.phrases:
            weight, usual = FIELDS[FIELD_NAMES[phrase.field]]
            share = weight / (1 - _LENGTH + _LENGTH * lengths[phrase.field] / usual) if usual else weight
            for word in phrase.words:
                found[word] += share
        return found


def _phrases(document: Document) -> list[tuple[FieldName, list[str]]]:
    found: list[tuple[FieldName, list[str]]] = []
    found.append(("name", words_of(_called(document))[:MOST_WORDS]))
    left = MOST_WORDS
    for part in parts(wanted(document.description)):
        words = words_of(part)[:left]
        left -= len(words)
        found.append(("description", words))
    found.append(("tags", words_of(" ".join(document.tags))[:MOST_WORDS]))
    for trigger in document.triggers[:MOST_TRIGGERS]:
        found.append(("triggers", words_of(trigger)[:MOST_WORDS]))  # noqa: PERF401
    found.append(("keywords", words_of(" ".join(document.keywords))[:MOST_WORDS]))
    found.append(("body", key_terms(document.body, weigh)))
    return found


def _called(document: Document) -> str:
    """Slug and title, each word once: most titles are the slug again."""
    slug = spelled_out(document.slug)
    known = set(words_of(slug))
    return " ".join([slug, *(word for word in words_of(document.title) if word not in known)])
