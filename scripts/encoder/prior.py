"""Fit `prior.bin`: what a message alone says about whether a skill fits it. numpy only, about three minutes of CPU.

`python scripts/encoder/prior.py pairs.json.xz --exclude excluded.jsonl --written scripts/encoder/written.jsonl`

Messages are asked in small catalogs drawn at random. In half of them their own card is missing, and the most similar other
card is a wrong answer. Messages to voice assistants and banks, and small talk, have no right answer at all. A logistic
regression on the cosines of the first card and on the vector of the message learns from these which messages resemble skills
that do not fit. Only the weights of the vector are kept, in units of the log odds.
"""

from __future__ import annotations

import argparse
import json
import lzma
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pairs import OTHER_SCRIPT, Written, description_start, read_written

from prowess.match.array_file import read_arrays, write_arrays
from prowess.match.card import make_card, name_words
from prowess.match.vectors.encoder import default_encoder
from prowess.match.vectors.prior import PRIOR_FILE
from prowess.match.words import remove_exclusions, split_clauses

MESSAGE_KINDS = "tqbu"
"""The kinds of messages that read like requests: triggers, quoted phrases, examples, "use when"."""
SHORTEST_MESSAGE = 9
MESSAGES_A_CARD = 3
LATIN_CARDS, OTHER_SCRIPT_CARDS = 5_000, 1_000
STRANGERS = {"clinc": 14, "nlueval": 2, "banking77": 2}
"""How many messages of each intent have no right answer."""
SMALL_TALK = frozenset((
    "greeting", "goodbye", "thank you", "tell joke", "are you a bot", "what is your name", "how old are you",
    "where are you from", "do you have pets", "fun fact", "meaning of life", "who made you",
    "what are your hobbies", "yes", "no", "maybe", "repeat", "cancel", "flip coin", "roll dice", "user name",
    "who do you work for", "what can i ask you", "change ai name", "change user name", "general negate",
    "general praise", "general joke", "general quirky", "general confirm", "general affirm", "general dontcare",
    "general explain", "general repeat", "general commandstop", "what song", "text", "time", "date", "weather",
    "spelling", "definition", "time until", "measurement conversion", "calculator", "next holiday", "timezone",
    "change speed", "whisper mode", "change accent", "change volume", "change language", "reset settings",
    "sync device", "find phone", "smart home",
))  # fmt: skip
SMALL_TALK_WEIGHT, OTHER_SMALL_TALK_WEIGHT = 6.0, 800.0
OTHER_SMALL_TALK = (
    "Hallo zusammen", "Danke schön!", "Gute Nacht", "Wie geht es dir heute?", "Alles klar, bis morgen", "ja, mach das",
    "nein, doch nicht", "Wie spät ist es gerade?", "Schönes Wochenende", "Ich bin müde", "Bonsoir", "Merci beaucoup",
    "Comment tu t'appelles ?", "À demain alors", "d'accord, continue", "non, pas ça", "Il fait beau aujourd'hui", "Bonne nuit",
    "Quel âge as-tu ?", "Je suis de retour", "Hola, buenas tardes", "Muchas gracias", "¿Cómo te llamas?", "Hasta mañana",
    "vale, sigue", "no, eso no", "Qué calor hace hoy", "Buenas noches", "¿Eres una persona?", "Ya he vuelto", "Ciao, come stai?",
    "Grazie mille", "Buonanotte", "Olá, tudo bem?", "Muito obrigado", "Até amanhã", "Dank je wel", "Goedemorgen", "Привет, как дела?",
    "Спасибо большое", "до завтра", "您好啊", "多谢多谢", "早上好", "晚安", "你叫什么名字", "好的好的", "不是这个", "今天天气真好",
    "你几岁了", "我回来了", "太感谢了", "谢谢你啊", "不客气", "在吗", "辛苦了", "再见", "哈哈哈", "没事了", "どうも", "すみません", "またね",
    "감사합니다", "안녕히 가세요", "Vielen Dank!", "Tschüss", "Moin", "Alles gut?", "Salut !", "Merci, c'est parfait", "Au revoir",
    "¡Perfecto, gracias!", "Adiós", "De nada", "Prego", "Arrivederci", "Obrigada!", "Tot ziens", "Пока", "おはようございます", "ありがとうございます", "おやすみなさい", "元気ですか", "안녕하세요", "고마워요", "잘 자요",
)  # fmt: skip
"""Small talk in languages that the sets do not have."""
CATALOG_SIZES = (60, 170, 500, 1_500)
ALIKE = 0.75
"""Cards with a higher cosine to the right one are not wrong answers."""
RIDGE, STEPS = 100.0, 7
WEIGHT = 0.47
"""The weight beside the other signals, fitted by `benchmarks/calibration.py`; it is part of the file's values."""
_BATCH = 256

Floats = NDArray[np.float32]


class Example(NamedTuple):
    """A message and its most similar card."""

    vector: Floats
    cosine: float
    part: float
    is_right: bool
    weight: float


def main() -> None:
    """Fit and write the file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "pairs", type=Path, nargs="?", help="pairs.json.xz; without it, only the name of the encoder is renewed"
    )
    parser.add_argument("--exclude", type=Path, help="cards whose messages are not used (excluded.jsonl)")
    parser.add_argument("--written", type=Path, nargs="+", default=(), help="messages that were written for cards")
    args = parser.parse_args()
    if args.pairs is None:
        before = read_arrays(PRIOR_FILE)
        write_prior(np.array(before.arrays["weights"]), float(before.facts["middle"]))
        return
    chance = np.random.default_rng(1)
    content = json.loads(lzma.decompress(args.pairs.read_bytes()))
    catalog = Catalog(choose_cards(content["cards"], excluded_names(args.exclude), read_written(args.written), chance))
    examples = [
        *catalog.with_answers(chance),
        *catalog.without_answers(content["ext"], chance),
    ]
    weights = fit(examples)
    vectors = np.array([one.vector for one in examples if one.weight == 1.0])
    middle = float((vectors @ weights).mean())
    write_prior((WEIGHT * weights).astype(np.float32), WEIGHT * middle)
    print(f"{PRIOR_FILE.name}: {len(examples):,} examples, {PRIOR_FILE.stat().st_size:,} bytes")


def write_prior(weights: Floats, middle: float) -> None:
    """Write the file for the current encoder."""
    write_arrays(PRIOR_FILE, {"weights": weights}, facts={"encoder": default_encoder().name, "middle": middle})


def excluded_names(path: Path | None) -> set[str]:
    """Return the names of cards that must not be used, in lower case."""
    lines = path.read_text(encoding="utf-8").splitlines() if path else []
    return {name.lower() for line in lines for name in json.loads(line)["names"]}


class Asked(NamedTuple):
    """A card with messages for it, of which at most `most` are asked."""

    name: str
    description: str
    tags: list[str]
    messages: list[str]
    most: int = MESSAGES_A_CARD


def choose_cards(
    cards: list[Any], excluded: set[str], written: dict[tuple[str, str], Written], chance: np.random.Generator
) -> list[Asked]:
    """Return the cards with written messages, and some with other requests; fewer of those in other scripts."""
    own: list[Asked] = []
    latin: list[Asked] = []
    other: list[Asked] = []
    for name, description, tags, messages, _ in cards:
        if name.lower() in excluded:
            continue
        said = [text for kind, text in messages if kind in MESSAGE_KINDS and len(text) >= SHORTEST_MESSAGE]
        if found := written.get((name, description_start(description))):
            texts = [*found.messages, *(one.text for one in found.translations)]
            own.append(Asked(name, description, tags, texts, len(texts)))
        elif said:
            (other if OTHER_SCRIPT.search(description) else latin).append(Asked(name, description, tags, said))
    some = chance.permutation(len(latin))[:LATIN_CARDS].tolist()
    translated = chance.permutation(len(other))[:OTHER_SCRIPT_CARDS].tolist()
    return own + [latin[place] for place in some] + [other[place] for place in translated]


class Catalog:
    """The cards with their vectors."""

    def __init__(self, cards: list[Asked]) -> None:
        self.cards = cards
        rows: list[Floats] = []
        for first in range(0, len(cards), _BATCH):
            texts = [card_parts(card.name, card.description, card.tags) for card in cards[first : first + _BATCH]]
            rows += [found.astype(np.float32) / 127 for found in default_encoder().embed_parts(texts)]
        self.whole = np.array([found[0] for found in rows])
        self.parts = [found[1:] if len(found) > 1 else found for found in rows]

    def with_answers(self, chance: np.random.Generator) -> list[Example]:
        """Ask the messages of all cards, half of them where their own card is missing."""
        owners: list[int] = []
        texts: list[str] = []
        for place, card in enumerate(self.cards):
            for number in chance.permutation(len(card.messages))[: card.most].tolist():
                owners.append(place)
                texts.append(card.messages[number])
        found: list[Example] = []
        for own, vector in zip(owners, embed(texts), strict=True):
            offered = chance.choice(len(self.cards), chance.choice(CATALOG_SIZES), replace=False)
            if chance.random() < 0.5:
                offered[0] = own
            else:
                offered = offered[self.whole[offered] @ self.whole[own] <= ALIKE]
            found.append(self.example(vector, offered, own, 1.0))
        return found

    def without_answers(self, entries: list[Any], chance: np.random.Generator) -> list[Example]:
        """Ask messages of other sets, which no card answers."""
        texts: list[str] = []
        weights: list[float] = []
        for source, name, _, said in entries:
            chosen = chance.permutation(len(said))[: STRANGERS.get(source, 0)].tolist()
            texts += [said[number] for number in chosen]
            is_talk = name.lower().replace("_", " ") in SMALL_TALK
            weights += [SMALL_TALK_WEIGHT if is_talk else 1.0] * len(chosen)
        texts += OTHER_SMALL_TALK
        weights += [OTHER_SMALL_TALK_WEIGHT] * len(OTHER_SMALL_TALK)
        sizes = CATALOG_SIZES[:-1]
        return [
            self.example(vector, chance.choice(len(self.cards), chance.choice(sizes), replace=False), -1, weight)
            for vector, weight in zip(embed(texts), weights, strict=True)
        ]

    def example(self, vector: Floats, offered: NDArray[np.int64], own: int, weight: float) -> Example:
        """Return the most similar card among those offered."""
        cosines = self.whole[offered] @ vector
        first = int(offered[cosines.argmax()])
        return Example(vector, float(cosines.max()), float((self.parts[first] @ vector).max()), first == own, weight)


def card_parts(name: str, description: str, tags: list[str]) -> list[str]:
    """Return a card as the matcher makes it."""
    clauses = split_clauses(remove_exclusions(description))
    return make_card(name_words(name, name), clauses, [], " ".join(tags)) or [name]


def embed(texts: list[str]) -> Floats:
    """Return the vectors of messages."""
    return default_encoder().embed(texts).astype(np.float32) / 127


def fit(examples: list[Example]) -> Floats:
    """Return the weights of the message's vector in a logistic regression with ridge, by Newton's method."""
    values = np.array([[one.cosine, one.part, *one.vector] for one in examples], np.float32)
    middle, spread = values.mean(axis=0), values.std(axis=0) + 1e-9
    inputs = np.column_stack([np.ones(len(values), np.float32), (values - middle) / spread])
    right = np.array([one.is_right for one in examples], np.float32)
    weight = np.array([one.weight for one in examples], np.float32)
    # Bias and cosines are not held back.
    ridge = np.full(inputs.shape[1], RIDGE, np.float32)
    ridge[:3] = 0.01
    found = np.zeros(inputs.shape[1], np.float32)
    for _ in range(STEPS):
        likely = 1 / (1 + np.exp(-inputs @ found))
        slope = inputs.T @ (weight * (right - likely)) - ridge * found
        bend = (inputs * (weight * likely * (1 - likely))[:, np.newaxis]).T @ inputs + np.diag(ridge)
        found = found + np.linalg.solve(bend, slope)
    return (found[1:] / spread)[2:]


if __name__ == "__main__":
    main()
