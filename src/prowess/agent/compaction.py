"""Fit a conversation into the model's context window.

The prompt of enabled skills is not part of the history, so no compaction can lose a skill. A call and its result stay
together: results are shortened in place, and only whole turns are left out. No model is asked, so the same history always
gives the same messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from prowess.llm.model import Message, ToolCall
from prowess.session.session import CHARS_PER_TOKEN
from prowess.storage.conversations import MessageRow

DEFAULT_WINDOW = 64_000
"""Tokens that a model can read, if nobody said how many."""
HISTORY_SHARE = 0.6
"""The share of the window for system prompt, tools and history together. The rest is for the answer and for tokens that are
shorter than estimated."""
MIN_CHARS = 4_000
RECENT_RESULTS = 8
"""How many results are shortened last."""
_SHORT = 200
_QUOTED_CHARS = 200
_SUMMARY_CHARS = 2_000
_LEFT_OUT = "[Shortened: {left} of {size} characters are left out. Call the tool again if you need them.]"


def history_limit(window: int | None, used: int) -> int:
    """Return how many characters of history fit, in addition to those that prompt and tools use."""
    return max(int((window or DEFAULT_WINDOW) * CHARS_PER_TOKEN * HISTORY_SHARE) - used, MIN_CHARS)


def fit_history(rows: Sequence[MessageRow], limit: int) -> list[Message]:
    """Return the messages for the model within a limit of characters; the last turn is always part of it.

    Old results are shortened first, then the oldest turns are left out and their requests listed, then recent results are
    shortened.
    """
    messages = [(row.turn, to_message(row)) for row in rows]
    if _size(messages) <= limit:
        return [message for _, message in messages]
    indexes = [index for index, (_, message) in enumerate(messages) if message.role == "tool"]
    _shorten(messages, indexes[:-RECENT_RESULTS], _SHORT, limit)
    turns = [list(group) for _, group in groupby(messages, key=lambda one: one[0])]
    left_out: list[list[tuple[int, Message]]] = []
    room = limit - _SUMMARY_CHARS
    size = sum(map(_size, turns))
    while len(turns) > 1 and size > room:
        left_out.append(turns.pop(0))
        size -= _size(left_out[-1])
    remaining = [message for turn in turns for message in turn]
    indexes = [index for index, (_, message) in enumerate(remaining) if message.role == "tool"]
    for most in (4_000, 1_000, _SHORT):
        _shorten(remaining, indexes, most, room)
    fitted = [message for _, message in remaining]
    return [_summarize(left_out), *fitted] if left_out else fitted


def to_message(row: MessageRow) -> Message:
    """Return a stored message as a model gets it."""
    calls = tuple(ToolCall(id=call["id"], name=call["name"], arguments=call["arguments"]) for call in row.calls)
    return Message(role=row.role, text=row.text, calls=calls, call_id=row.call_id, name=row.name)


def cut_text(text: str, limit: int) -> str:
    """Return a text cut at a limit, with a note of what is left out."""
    if len(text) <= limit:
        return text
    return text[:limit] + "\n" + _LEFT_OUT.format(left=f"{len(text) - limit:,}", size=f"{len(text):,}")


def _shorten(messages: list[tuple[int, Message]], indexes: Sequence[int], most: int, limit: int) -> None:
    over = _size(messages) - limit
    for index in indexes:
        if over <= 0:
            return
        turn, message = messages[index]
        short = cut_text(message.text, most)
        if len(short) < len(message.text):
            over -= len(message.text) - len(short)
            messages[index] = (turn, replace(message, text=short))


def _summarize(turns: Sequence[Sequence[tuple[int, Message]]]) -> Message:
    questions = [message.text for turn in turns for _, message in turn if message.role == "user"]
    lines: list[str] = []
    room = _SUMMARY_CHARS - 300
    for text in reversed(questions):
        line = "- " + " ".join(text[:_QUOTED_CHARS].split())
        room -= len(line) + 1
        if room < 0:
            break
        lines.insert(0, line)
    note = f"[The first {len(turns)} turns of this conversation are left out to make room. In them I asked, last:]"
    return Message(role="user", text="\n".join([note, *lines]))


def _size(messages: Sequence[tuple[int, Message]]) -> int:
    return sum(len(message.text) + sum(len(str(call.arguments)) for call in message.calls) for _, message in messages)
