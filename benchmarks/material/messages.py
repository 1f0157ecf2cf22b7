"""Messages of a given length, from the queries of the retrieval sets: eight words, or two hundred."""

from __future__ import annotations

import random

from material.sets import SET_NAMES, SHARED, rows_of

SHORT_WORDS, LONG_WORDS = 8, 200


def short_messages(count: int) -> list[str]:
    """Single queries of about eight words."""
    fitting = [text for text in all_queries() if abs(len(text.split()) - SHORT_WORDS) <= 2]
    return random.Random(8).sample(fitting, min(count, len(fitting)))


def long_messages(count: int) -> list[str]:
    """Queries one after the other, as in a message that tells a whole story, cut at two hundred words."""
    queries, chance = all_queries(), random.Random(200)
    messages: list[str] = []
    for _ in range(count):
        words: list[str] = []
        while len(words) < LONG_WORDS:
            words += chance.choice(queries).split()
        messages.append(" ".join(words[:LONG_WORDS]))
    return messages


def all_queries() -> list[str]:
    paths = [SHARED / "bench" / name / "queries.jsonl.gz" for name in SET_NAMES]
    return [row["text"] for path in paths if path.exists() for row in rows_of(path)]
