"""What is answered to messages that no skill fits, and what saying no costs on the messages that some skill does.

Such messages are made by asking one set the questions of another, and by small talk. "Lost" is the share of a set's own
messages whose skill was among the first five and is not offered, not even as a maybe. Beside Prowess stands the rule
measured before: the recipe's ranking, and none where the best cosine of the static embedding is below 0.40. "AUROC" is how
often the best score of one of the set's own messages is above that of a message that fits nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from material.sets import RetrievalSet
from material.smalltalk import SMALL_TALK
from peers.by_prowess import ProwessPeer
from peers.by_recipe import Recipe

STRANGERS = {"sfskills": "metatool", "metatool": "author-phrases"}
"""Whose messages fit no skill of this set."""

COSINE = 0.40
DEPTH = 5
DECISIONS = ("offer", "maybe", "no")


class Answer(NamedTuple):
    """The first cards by number, a decision on each, and the best score of all."""

    numbers: list[int]
    decisions: list[str]
    score: float

    @property
    def first(self) -> str:
        """What the best card is called."""
        return self.decisions[0] if self.decisions else "no"


def measure(sets: Sequence[RetrievalSet]) -> list[dict[str, Any]]:
    """One row for each set, method and kind of message."""
    messages = {each.name: tuple(query.text for query in each.queries) for each in sets}
    rows: list[dict[str, Any]] = []
    for each in sets:
        strangers = {"small talk": SMALL_TALK}
        if STRANGERS.get(each.name) in messages:
            strangers[f"messages of {STRANGERS[each.name]}"] = messages[STRANGERS[each.name]]
        for method, answer in (("Prowess", by_prowess(each)), ("cosine ≥ 0.40", by_cosine(each))):
            own = [answer(query.text) for query in each.queries]
            rows.append(row(each.name, "its own messages", method, own) | turned_down(each, own))
            for kind, asked in strangers.items():
                given = [answer(message) for message in asked]
                rows.append(row(each.name, kind, method, given) | {"auroc": auroc(own, given)})
    return rows


def by_prowess(each: RetrievalSet) -> Callable[[str], Answer]:
    peer = ProwessPeer(each.cards)

    def answer(message: str) -> Answer:
        found = peer.recommendations(message, DEPTH)
        return Answer(
            [number for number, _ in found], [item.decision for _, item in found], found[0][1].score if found else 0.0
        )

    return answer


def by_cosine(each: RetrievalSet) -> Callable[[str], Answer]:
    recipe = Recipe(each.cards)

    def answer(message: str) -> Answer:
        numbers = recipe.rank(message, DEPTH)
        nearest = float(recipe.cosines(message).max())
        return Answer(numbers, ["offer" if nearest >= COSINE else "no"] * len(numbers), nearest)

    return answer


def turned_down(each: RetrievalSet, answers: Sequence[Answer]) -> dict[str, float]:
    """How often a right card was among the first five, and how often it was called a no."""
    found = lost = 0
    for query, given in zip(each.queries, answers, strict=True):
        right = [
            decision
            for number, decision in zip(given.numbers, given.decisions, strict=True)
            if each.cards[number].id in query.relevant
        ]
        found += bool(right)
        lost += bool(right) and set(right) == {"no"}
    return {"found": round(found / len(answers), 4), "lost": round(lost / len(answers), 4)}


def auroc(own: Sequence[Answer], strangers: Sequence[Answer]) -> float:
    """The chance that one of the set's own messages scores higher than a stranger; equal scores count half."""
    ours = np.array([given.score for given in own])[:, None]
    theirs = np.array([given.score for given in strangers])[None, :]
    return round(float((ours > theirs).mean() + (ours == theirs).mean() / 2), 4)


def row(name: str, kind: str, method: str, answers: Sequence[Answer]) -> dict[str, Any]:
    first = Counter(given.first for given in answers)
    shares = {decision: round(first[decision] / len(answers), 4) for decision in DECISIONS}
    return {"set": name, "messages": kind, "method": method, "count": len(answers), **shares}


def print_table(rows: Sequence[dict[str, Any]]) -> None:
    """The rows in percent."""
    columns = (*DECISIONS, "found", "lost", "auroc")
    heading = "".join(f"{name:>8}" for name in columns)
    print("\nWhat the best skill is called, and how many right skills are turned down")
    print(f"{'skills':<16}{'messages':<28}{'method':<16}{'n':>6}{heading}")
    for item in rows:
        shares = "".join(f"{100 * item[name]:>8.1f}" if name in item else f"{'':>8}" for name in columns)
        print(f"{item['set']:<16}{item['messages']:<28}{item['method']:<16}{item['count']:>6}{shares}")
