"""One skill made ready for the index: its words by field and phrase. Depends on that skill alone.

So an index that was updated skill by skill is the same as one built at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from prowess.catalog.document import Document
from prowess.match.clauses import parts, wanted
from prowess.match.keyterms import counted, key_terms
from prowess.match.recommendation import FIELD_NAMES, FieldName
from prowess.match.vocabulary import Vocabulary
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

_NAME, _DESCRIPTION, _TAGS, _TRIGGERS, _KEYWORDS, _BODY = map(FIELD_NAMES.index, FIELDS)

MOST_TRIGGERS = 64
MOST_WORDS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A skill in words. One without a description is kept but never ranks: it does not say what it is for."""

    document: Document
    phrases: list[list[str]]
    """Words that stand together in one field; those of the body come last."""
    fields: list[int]
    """The field of each phrase."""
    text: str
    """What an embedder reads: what the skill is called and what it is for."""

    @property
    def ranks(self) -> bool:
        """Whether it may be recommended."""
        return bool(self.document.description.strip())


def entries_of(documents: Sequence[Document], vocabulary: Vocabulary) -> list[Entry]:
    """The entries of some documents. The vocabulary learns the words of their bodies, all at once."""
    bodies = [counted(document.body) for document in documents]
    vocabulary.learn(chain.from_iterable(bodies))
    return [
        _entry(document, key_terms(body, vocabulary.word_weights))
        for document, body in zip(documents, bodies, strict=True)
    ]


def _entry(document: Document, body: list[str]) -> Entry:
    called, description = _called(document), wanted(document.description)
    phrases: list[list[str]] = []
    fields: list[int] = []
    for field, words in _phrases(document, called, description, body):
        if words:
            phrases.append(words)
            fields.append(field)
    text = " . ".join((called, description, " ".join(document.tags)))
    return Entry(document=document, phrases=phrases, fields=fields, text=text)


def _phrases(document: Document, called: str, description: str, body: list[str]) -> Iterator[tuple[int, list[str]]]:
    yield _NAME, words_of(called)[:MOST_WORDS]
    left = MOST_WORDS
    for part in parts(description):
        words = words_of(part)[:left]
        left -= len(words)
        yield _DESCRIPTION, words
    yield _TAGS, words_of(" ".join(document.tags))[:MOST_WORDS]
    for trigger in document.triggers[:MOST_TRIGGERS]:
        yield _TRIGGERS, words_of(trigger)[:MOST_WORDS]
    yield _KEYWORDS, words_of(" ".join(document.keywords))[:MOST_WORDS]
    yield _BODY, body


def _called(document: Document) -> str:
    """Slug and title, each word once: most titles are the slug again."""
    slug = spelled_out(document.slug)
    known = set(words_of(slug))
    return " ".join([slug, *(word for word in words_of(document.title) if word not in known)])
