"""Draw batches of messages and the cards that fit them from `pairs.json.xz` and `written.jsonl`."""

from __future__ import annotations

import json
import lzma
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

OTHER_SCRIPT = re.compile("[\u0400-\u04ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
"""Cyrillic, Japanese, Chinese and Korean characters."""

KIND_WEIGHTS = {"t": 3, "q": 3, "b": 3, "u": 2, "c": 1, "h": 0.7, "s": 0.7, "n": 0.5}
"""How often each kind of message is drawn: (t)riggers, (q)uoted phrases, (b)ody examples, (u)se when …, (c)lauses of the
description, (h)eadings, body (s)entences, (n)ames."""
_OPENINGS = ("can you", "please", "i need to", "help me", "how do i", "i want to", "could you")
_AROUND = (
    "I am on a tight schedule", "This is for our team", "Here is the situation", "We tried a few things already and nothing worked",
    "My manager asked for it by Friday", "Some background first", "I inherited this from a colleague who left",
    "Keep it simple, please", "Let me know if anything is unclear", "It should be done properly this time",
    "The files are in the current folder", "Do not change anything else", "Tell me what you did afterwards",
    "Step by step, please", "It used to work last week", "We are a small company", "The data is attached",
    "Make sure it is correct", "I am new to this", "Thanks in advance!", "Output the result as a file",
    "Ask me if you need more information",
)  # fmt: skip
"""Sentences of a long message that tell nothing about what it asks for."""

_CLAUSE_END = re.compile(r"(?<=[.;!?。])\s+|,\s+")
_OTHER_SETS_SHARE, _ALIKE_SHARE, _GROUP = 0.15, 0.6, 8
_TRANSLATED_SHARE = 0.3
"""How often a written message is taken in its translation."""
_STRANGER_SHARE = 0.06
_STORY_CHARS = 160
_STREAMS = 1000


class Message(NamedTuple):
    """A message of a card."""

    kind: str
    text: str


class Translation(NamedTuple):
    """A message in another language, and the number of the one in English."""

    text: str
    original: int


class Written(NamedTuple):
    """What people would type for a card, written for the training: five or six messages, one or two also in other languages."""

    messages: list[str]
    translations: list[Translation]
    near: str
    """A message about the same subject that the card does not answer."""
    far: str
    """A long message with words of the card that asks for something else."""
    is_held: bool
    """Whether the card is left out of the training, to watch it."""


class Card(NamedTuple):
    """A card with messages for it."""

    name: str
    description: str
    tags: list[str]
    messages: list[Message]


class Entry(NamedTuple):
    """An entry of another set: messages with one intent, and what it is called."""

    name: str
    description: str
    messages: list[str]


class Batch(NamedTuple):
    """Messages and the texts of their cards; `numbers` tells cards apart, negative ones come from other sets."""

    messages: list[str]
    english: list[str]
    """The messages as the teacher reads them: the originals of translations, all others unchanged."""
    cards: list[str]
    numbers: NDArray[np.int64]
    strangers: list[str]
    """Messages that no card of the batch answers."""


class Pair(NamedTuple):
    """A message, what the teacher reads in its place, and its card."""

    message: str
    english: str
    card: str
    number: int


class Pairs:
    """All pairs, with the settings of the sampler. `near` has look-alikes of each card by number, nearest first."""

    def __init__(self, path: Path, excluded: Path | None = None, written: Sequence[Path] = ()) -> None:
        with lzma.open(path, "rt", encoding="utf-8") as file:
            loaded = json.load(file)
        names, starts = _read_excluded(excluded)
        texts = read_written(written)
        self.cards: list[Card] = []
        self.written: dict[int, Written] = {}
        self.held: dict[int, Written] = {}
        for name, description, tags, messages, _ in loaded["cards"]:
            # An excluded card keeps its number, and loses its messages.
            is_out = name.lower() in names or description_start(description) in starts
            said = [] if is_out else [Message(*one) for one in messages]
            if said and (own := texts.get((name, description_start(description)))):
                if own.is_held:
                    self.held[len(self.cards)], said = own, []
                else:
                    self.written[len(self.cards)] = own
            self.cards.append(Card(name, description, tags, said))
        self.twins = [(a, b) for a, b in loaded["twins"] if self.cards[a].messages and self.cards[b].messages]
        self.entries = [Entry(name, text, said) for _, name, text, said in loaded["ext"] if said]
        usable = [number for number, card in enumerate(self.cards) if card.messages]
        self.translated = [number for number in usable if _is_other_script(self.cards[number].description)]
        self.latin = sorted(set(usable) - set(self.translated))
        shares = np.array([min(len(entry.messages), 20) for entry in self.entries], np.float64)
        self._entry_shares = shares / shares.sum()
        self.near: NDArray[np.int64] = np.empty((0, 0), np.int64)
        self.translated_share = 0.08
        self.twin_share = 0.03
        self.written_share = 0.0
        self.seed(0, 0)

    def seed(self, seed: int, stream: int) -> None:
        """Start the random numbers of one stream of batches."""
        self._random = random.Random(_STREAMS * seed + stream)
        self._numbers = np.random.default_rng(_STREAMS * seed + stream)

    def batch(self, size: int, *, is_long: bool = False) -> Batch:
        """Return about `size` pairs: most from cards, 15 % from other sets, some from cards that have a translation."""
        others, twins = int(size * _OTHER_SETS_SHARE), int(size * self.twin_share)
        own = min(int(size * self.written_share), len(self.written))
        written = self._random.sample(sorted(self.written), own)
        numbers = self._draw_cards(size - others - twins, written)
        rows = [self._written_pair(number, is_long=is_long) for number in numbers[:own]]
        rows += [self._pair(number, is_long=is_long) for number in numbers[own:]]
        rows += self._translations(twins, set(numbers))
        rows += self._from_other_sets(others)
        strangers = [self._stranger(number, is_long=is_long) for number in written[: int(size * _STRANGER_SHARE)]]
        messages, english, cards, places = zip(*rows, strict=True)
        return Batch(list(messages), list(english), list(cards), np.array(places), [text for text in strangers if text])

    def _draw_cards(self, count: int, first: list[int]) -> list[int]:
        """Return different cards, at first those given. 60 % come in groups of look-alikes, the hardest to tell apart."""
        chosen: dict[int, None] = dict.fromkeys(first)
        seeds = iter(first)
        while len(chosen) < count:
            is_translated = self._random.random() < self.translated_share
            group = [self._random.choice(self.translated if is_translated else self.latin)]
            if len(chosen) < len(first) + (count - len(first)) * _ALIKE_SHARE:
                if self._random.random() < 0.5:
                    group = [next(seeds, group[0])]
                group += self._random.sample(self.near[group[0]].tolist(), _GROUP - 1)
            chosen.update((number, None) for number in group if self.cards[number].messages)
        return list(chosen)

    def _written_pair(self, number: int, *, is_long: bool) -> Pair:
        """Return one of the written messages of a card, now and then in its translation."""
        written = self.written[number]
        text = self.card_text(self.cards[number], Message("w", ""))
        # A batch of short messages would cut a story before it comes to the point.
        stories = [one for one in written.messages if len(one) >= _STORY_CHARS]
        short = [one for one in written.messages if len(one) < _STORY_CHARS]
        fitting = (stories if is_long and self._random.random() < 0.5 else short) or written.messages
        others = [one for one in written.translations if written.messages[one.original] in fitting]
        if others and self._random.random() < _TRANSLATED_SHARE:
            chosen = self._random.choice(others)
            message = chosen.text.lower() if self._random.random() < 0.5 else chosen.text
            return Pair(message, written.messages[chosen.original], text, number)
        message = self.as_typed(self._random.choice(fitting))
        return Pair(message, message, text, number)

    def _stranger(self, number: int, *, is_long: bool) -> str:
        written = self.written[number]
        return self.as_typed(written.far if is_long and written.far else written.near)

    def _pair(self, number: int, *, is_long: bool) -> Pair:
        card = self.cards[number]
        weights = [KIND_WEIGHTS[message.kind] for message in card.messages]
        message = self._random.choices(card.messages, weights)[0]
        text = self.card_text(card, message)
        is_long = is_long and self._random.random() < 0.8
        typed = self.long_message(card, message.text) if is_long else self.as_typed(message.text)
        return Pair(typed, typed, text, number)

    def _translations(self, count: int, taken: set[int]) -> list[Pair]:
        """Return clauses of translated descriptions as messages for the English originals."""
        rows: list[Pair] = []
        for translated, original in self._random.choices(self.twins, k=count):
            if original not in taken:
                taken.add(original)
                text = self.cards[translated].description
                clauses = [clause for clause in re.split("[。；;]", text) if len(clause) > 4] or [text]
                card = self.card_text(self.cards[original], Message("n", ""))
                clause = self._random.choice(clauses)[:120]
                rows.append(Pair(clause, clause, card, original))
        return rows

    def _from_other_sets(self, count: int) -> list[Pair]:
        rows: list[Pair] = []
        for number in self._numbers.choice(len(self.entries), count, replace=False, p=self._entry_shares).tolist():
            entry = self.entries[number]
            message = self._random.choice(entry.messages)
            if entry.description:
                name = entry.name if self._random.random() < 0.8 else ""
                card = " . ".join(filter(None, (name, entry.description)))
            elif self._random.random() < 0.5 or len(entry.messages) < 2:
                card = entry.name
            else:  # an intent without a description: two of its messages
                card = self._random.choice(entry.messages)
            if card != message:
                typed = self.as_typed(message) if entry.description else message
                rows.append(Pair(typed, typed, card, -1 - number))
        return rows

    def card_text(self, card: Card, message: Message) -> str:
        """Return a card as text, mostly without the message, so that it cannot be found by its own words."""
        chance, text = self._random.random, card.description
        is_inside = message.kind in "tqcu" and bool(message.text) and message.text in text
        if is_inside and (message.kind in "tq" or chance() < 0.75):
            text = " ".join(text.replace(f'"{message.text}"', "").replace(message.text, " ").split())
        name = "" if chance() < 0.25 or message.kind == "n" else card.name
        if chance() >= 0.25:
            return " . ".join(filter(None, (name, text, " ".join(card.tags))))
        clauses = [clause for clause in _CLAUSE_END.split(text) if len(clause) > 8] or [text]
        some = ", ".join(self._random.sample(clauses, min(len(clauses), self._random.choice((1, 1, 2, 3)))))
        return f"{name.replace('-', ' ')}: {some}" if name else some

    def as_typed(self, text: str) -> str:
        """Return a message as people type it: lower case, words left out, typing errors, an opening."""
        chance, text = self._random.random, text.strip()
        if chance() < 0.5:
            text = text.lower()
        if chance() < 0.3:
            text = text.rstrip(".!?")
        words = text.split()
        if len(words) > 4 and chance() < 0.3:
            words = [word for word in words if chance() > 0.12] or words
            text = " ".join(words)
        if len(words) > 1 and chance() < 0.12:
            text = self._mistyped(text)
        if len(words) > 2 and chance() < 0.19:
            text = f"{self._random.choice(_OPENINGS)} {text}"
        return text

    def _mistyped(self, text: str) -> str:
        letters = list(text)
        for _ in range(self._random.choice((1, 1, 2))):
            place = self._random.randrange(max(len(letters) - 1, 1))
            if not (letters[place].isascii() and letters[place].isalpha()):
                continue
            kind = self._random.random()
            if kind < 0.4:
                letters[place : place + 2] = reversed(letters[place : place + 2])
            else:
                letters[place] *= 0 if kind < 0.7 else 2
        return "".join(letters)

    def long_message(self, card: Card, first: str) -> str:
        """Return several messages of a card in one, among sentences that do not matter."""
        pool = [text for kind, text in card.messages if kind != "n" and text != first]
        parts = [first, *self._random.sample(pool, min(len(pool), self._random.choice((1, 2, 3, 4))))]
        if self._random.random() < 0.6:
            parts += self._random.sample(_AROUND, self._random.choice((1, 2, 3)))
        if self._random.random() < 0.35:
            other = self.cards[self._random.choice(self.latin)]
            sentences = [text for kind, text in other.messages if kind == "s"]
            parts += self._random.sample(sentences, min(len(sentences), 1))
        self._random.shuffle(parts)
        return ". ".join(part.strip().rstrip(".") for part in parts) + "."


def has_other_script(texts: list[str]) -> NDArray[np.bool_]:
    """Return which texts have a character that is not Latin."""
    return np.array([bool(OTHER_SCRIPT.search(text)) for text in texts])


def read_written(paths: Sequence[Path]) -> dict[tuple[str, str], Written]:
    """Return the written messages by the name of their card and the first letters of its description."""
    lines = [line for path in paths for line in path.read_text("utf-8").splitlines()]
    found: dict[tuple[str, str], Written] = {}
    for row in map(json.loads, lines):
        translations = [Translation(text, original) for _, text, original in row["translations"]]
        messages = [text for _, text in row["messages"]]
        found[row["name"], row["start"]] = Written(
            messages, translations, row.get("near", ""), row.get("far", ""), row.get("held", False)
        )
    return found


def _is_other_script(text: str) -> bool:
    return len(OTHER_SCRIPT.findall(text)) > 0.15 * len(text)


def _read_excluded(path: Path | None) -> tuple[set[str], set[str]]:
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path else []
    return {name.lower() for row in rows for name in row["names"]}, {
        description_start(row["description"]) for row in rows
    }


def description_start(text: str) -> str:
    """Return the first letters of a description, by which copies of it are found."""
    return re.sub(r"\W+", "", text.lower())[:90]
