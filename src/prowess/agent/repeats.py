"""Notice that a person asks for the same thing again and again: from the record of conversations, without a model.

A message repeats an intent if it resembles messages of at least two earlier occasions for which no skill was used. The
agent is told once per intent, and asks whether it should become a skill. That it was told is kept with the message, so a
person who declined is not asked again.

Two messages resemble each other by the trigrams of their words, which needs no dictionary and works in any language that
separates words; for the others it uses pairs of characters. What changes between two asks for the same thing does not count:
quoted text, numbers, addresses and paths.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final, NamedTuple, cast

import sqlalchemy as sa

from prowess.engine.context import Context
from prowess.storage.conversations import ConversationRow, conversation_messages, conversations
from prowess.storage.owner import Owner, owner_condition
from prowess.storage.rows import CompiledSelect, decode_json, raw_json

SIMILARITY: Final = 0.6
"""From here on two messages ask for the same. In the pairs for tuning of `tests/agent/repeats.json`, in five languages, those
that differ reach 0.44 and those that repeat start at 0.70. The held-out pairs (0.56 and 0.76) are distinguished without an error."""
OCCASIONS: Final = 2
RECENT_MESSAGES: Final = 100
"""How many of the person's last messages are compared."""
RECENT_CONVERSATIONS: Final = 50
"""Of how many of the person's last conversations these can be."""
MAX_CHARS: Final = 400
"""Longer messages are texts to work on, not asks that repeat."""
_BITS: Final = 2_048
_LEAST_WORDS: Final = 3
_SAME_OCCASION: Final = timedelta(hours=1)
_MARK: Final = "repeated_ask"

_VARIABLE = re.compile(
    r"""https?://\S+|\S*[/\\@]\S*|"[^"]*"|“[^”]*”|„[^“”]*[“”]|«[^»]*»|「[^」]*」|`[^`]*`|\b\w*\d\w*\b"""
)
_WORD = re.compile(r"[^\W_]+")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\u0e00-\u0e7f]+")
_SKILL_TOOLS: Final = (
    "run_skill",
    "run_skill_script",
    "enable_skill",
    "load_skill",
    "fetch_registry_skill",
    "compose_skill",
)

_M, _C = conversation_messages.c, conversations.c


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierMessage:
    """A message of the person from an earlier turn."""

    conversation_id: str
    turn: int
    text: str
    created_at: str
    detail: dict[str, Any]


def resemblance(first: str, second: str) -> float:
    """Return how much two messages ask for the same, from 0 to 1."""
    return _overlap(_features(first), _features(second))


class _Features(NamedTuple):
    """The features by which two messages are compared."""

    found: frozenset[str]
    bits: int
    """The same with each feature hashed to one of `_BITS` bits, which is compared several times as fast."""
    clashes: int
    """How many features have no bit of their own."""


# Each turn compares the same earlier messages: read anew they would take 4 ms, kept they take 0.1.
@lru_cache(maxsize=512)
def _features(text: str) -> _Features:
    plain = _VARIABLE.sub(" ", text.casefold())
    found: set[str] = set()
    for run in _UNSPACED.findall(plain):
        found.update(run[index : index + 2] for index in range(max(len(run) - 1, 1)))
    for word in _WORD.findall(_UNSPACED.sub(" ", plain)):
        padded = f"  {word} "
        found.update(padded[index : index + 3] for index in range(len(padded) - 2))
    bits = {hash(feature) % _BITS for feature in found}
    return _Features(frozenset(found), sum(1 << bit for bit in bits), len(found) - len(bits))


def _overlap(first: _Features, second: _Features) -> float:
    # Dice's coefficient; a message of a few words and one that adds a courtesy still resemble each other.
    one, other = first.found, second.found
    return 2 * len(one & other) / (len(one) + len(other)) if one and other else 0.0


def _may_resemble(first: _Features, second: _Features) -> bool:
    """Return False if two messages cannot resemble each other, as most do not. Their features need not be compared then."""
    # Features that both have share a bit, and those beyond one for each bit are clashes of the first.
    shared = (first.bits & second.bits).bit_count() + first.clashes
    return 2 * shared >= SIMILARITY * (len(first.found) + len(second.found))


@lru_cache(maxsize=64)
def _is_ask(text: str) -> bool:
    if len(text) > MAX_CHARS:  # first: the patterns take time with the square of the length, minutes for a long text
        return False
    plain = _VARIABLE.sub(" ", text)
    size = len(_WORD.findall(_UNSPACED.sub(" ", plain))) + sum(len(run) // 2 for run in _UNSPACED.findall(plain))
    return size >= _LEAST_WORDS


def find_repeats(message: str, earlier: Iterable[EarlierMessage]) -> list[EarlierMessage]:
    """Return the earlier messages that ask for the same, or nothing if the agent was told about one of them already."""
    if not _is_ask(message):
        return []
    own = _features(message)
    alike = [
        other
        for other in earlier
        if len(other.text) <= MAX_CHARS and _overlap(own, _features(other.text)) >= SIMILARITY
    ]
    return [] if any(other.detail.get(_MARK) for other in alike) else alike


def count_occasions(messages: Iterable[EarlierMessage]) -> int:
    """Return on how many occasions messages were written: in other conversations, or an hour apart."""
    last: dict[str, datetime] = {}
    count = 0
    for one in sorted(messages, key=lambda message: message.created_at):
        at = datetime.fromisoformat(one.created_at)
        before = last.get(one.conversation_id)
        count += before is None or at - before >= _SAME_OCCASION
        last[one.conversation_id] = at
    return count


def notice_repeat(context: Context, row: ConversationRow, message: str, *, delegates: bool) -> dict[str, Any]:
    """Return what to add to the decision about a message: empty, or the hint for the agent and the mark that it got one.

    Blocking. Reads only messages of the conversation's own user.
    """
    if not _is_ask(message):
        return {}
    with context.resources.records().read() as connection:
        alike = find_repeats(message, _read_alike(connection, context.actor.owner, row, message))
        # Most messages repeat nothing, and those that a person writes in one go are one occasion.
        unserved = _without_skills(connection, alike) if count_occasions(alike) >= OCCASIONS else []
    if count_occasions(unserved) < OCCASIONS:
        return {}
    return {_MARK: len(unserved), "hint": _HINT.format(how=_BUILD if delegates else _COMPOSE)}


_HINT = (
    "The user has asked for this kind of work before, and no skill does it. When you have answered, ask in one sentence "
    "whether it should become a skill. If the user agrees, {how}. Do not ask again if the user declines."
)
_COMPOSE = "call compose_skill with what it should do"
_BUILD = "delegate it to the builder with a specification"


# By an index; without a limit, every turn would read all messages that the user ever wrote.
_RECENT = (
    sa.select(_C.id)
    .where(owner_condition(conversations))
    .order_by(_C.updated_at.desc())
    .limit(sa.bindparam("talks", type_=sa.Integer))
)
_EARLIER = CompiledSelect(
    sa.select(_M.conversation_id, _M.turn, _M.text, _M.created_at, raw_json(_M.detail))
    .where(_M.conversation_id.in_(_RECENT), _M.role == "user", sa.func.length(_M.text) <= MAX_CHARS)
    .where(sa.or_(_M.conversation_id != sa.bindparam("this"), _M.turn < sa.bindparam("turn")))
    .order_by(_M.created_at.desc())
    .limit(sa.bindparam("most", type_=sa.Integer))
)
_TOOLS_USED = sa.select(_M.conversation_id, _M.turn, _M.name).where(
    sa.tuple_(_M.conversation_id, _M.turn).in_(sa.bindparam("turns", expanding=True)), _M.role == "tool"
)


def _read_alike(connection: sa.Connection, owner: Owner, row: ConversationRow, message: str) -> list[EarlierMessage]:
    """Return those of the user's last short messages before the current turn that resemble a message."""
    own = _features(message)
    limits = {"talks": RECENT_CONVERSATIONS, "most": RECENT_MESSAGES}
    rows = _EARLIER.rows(connection, {**owner.key, "this": row.id, "turn": row.turn, **limits})
    return [
        EarlierMessage(
            conversation_id=conversation, turn=turn, text=text, created_at=created_at, detail=decode_json(detail)
        )
        for conversation, turn, text, created_at, detail in rows
        if _may_resemble(own, features := _features(text)) and _overlap(own, features) >= SIMILARITY
    ]


def _without_skills(connection: sa.Connection, messages: list[EarlierMessage]) -> list[EarlierMessage]:
    """Return the messages for which no skill was activated, and in whose turns no tool of skills was called."""
    turns = [(message.conversation_id, message.turn) for message in messages]
    served = {
        (conversation, turn)
        for conversation, turn, name in connection.execute(_TOOLS_USED, {"turns": turns})
        if name in _SKILL_TOOLS or name.startswith("skill_")
    }
    return [
        message
        for message in messages
        if not _was_activated(message) and (message.conversation_id, message.turn) not in served
    ]


def _was_activated(message: EarlierMessage) -> bool:
    decision = message.detail.get("decision")
    return isinstance(decision, dict) and cast("dict[str, Any]", decision).get("action") == "activate"
