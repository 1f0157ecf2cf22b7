"""Skill cards without number, made of real ones: the name of two, the sentences of two, the tags and body of others.

Sentences are drawn from a fixed stock, so new words would soon run out, as they do not among real skills; therefore every
fourth card gets a made-up product name, glued together from the halves of two real words.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

from material.sets import SET_NAMES, SHARED, Absent, Card, read_set, rows_of
from prowess.skill.text.reader import read_document

SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
NAME_PARTS = re.compile(r"[\s_\-./:]+")
LONG_WORD = re.compile(r"[a-z]{6,}")
BODY_SENTENCES = 8
INVENTED_SHARE = 0.25


class Stock:
    """The parts that cards are made of; `card(n)` is the same card in every run."""

    def __init__(self, cards: list[Card]) -> None:
        self.names = [parts for card in cards if (parts := [part for part in NAME_PARTS.split(card.name) if part])]
        self.descriptions = [sentences for card in cards if (sentences := sentences_of(card.description))]
        self.tags = [card.tags for card in cards if card.tags]
        self.triggers = [card.triggers for card in cards if card.triggers]
        self.bodies = [
            sentences for card in cards if card.body and (sentences := sentences_of(FENCE.sub(" ", card.body)))
        ]
        self.words = sorted({word for card in cards for word in LONG_WORD.findall(card.description.lower())})

    @classmethod
    def read(cls, shared: Path = SHARED) -> Stock:
        """The stock of every skill that is there; `Absent` without any."""
        cards = [*corpus_cards(shared / "corpus" / "skills.jsonl.gz")]
        for name in SET_NAMES:
            try:
                cards += read_set(name, shared / "bench").cards
            except Absent:
                continue
        if not cards:
            raise Absent(f"there are no skills to recombine in {shared}")
        return cls(cards)

    def cards(self, count: int) -> Iterator[Card]:
        """The first `count` cards, one at a time."""
        return map(self.card, range(count))

    def card(self, number: int) -> Card:
        """The card of this number."""
        chance = random.Random(number)
        head, tail = chance.choice(self.names), chance.choice(self.names)
        name = [*head[: (len(head) + 1) // 2], *tail[len(tail) // 2 :]]
        one, other = chance.choice(self.descriptions), chance.choice(self.descriptions)
        description = f"{one[0]} {other[min(1, len(other) - 1)]}"
        if chance.random() < INVENTED_SHARE:
            product = self._product(chance)
            name.insert(0, product)
            description += f" For {product}."
        body = chance.choice(self.bodies)
        start = chance.randrange(max(1, len(body) - BODY_SENTENCES))
        return Card(
            id=str(number),
            name="-".join(name),
            description=description,
            tags=tuple(chance.choice(chance.choice(self.tags)) for _ in range(chance.randrange(4))),
            triggers=chance.choice(self.triggers)[:2] if chance.random() < 0.2 else (),
            body="\n".join(body[start : start + BODY_SENTENCES]),
        )

    def _product(self, chance: random.Random) -> str:
        first, second = chance.choice(self.words), chance.choice(self.words)
        return first[: chance.randrange(3, 6)] + second[-chance.randrange(3, 6) :]


def sentences_of(text: str) -> list[str]:
    return [part for part in (piece.strip() for piece in SENTENCE_END.split(text)) if part]


def corpus_cards(path: Path) -> Iterator[Card]:
    if not path.exists():
        return
    for row in rows_of(path):
        document = read_document(row.get("text", "").encode())
        name, description = document.fields.get("name"), document.fields.get("description")
        if isinstance(name, str) and isinstance(description, str) and name and description:
            yield Card(row["path"], name, description, body=document.body)
