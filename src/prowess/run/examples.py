"""Examples of a skill as turns of a conversation: what was asked, and how it is answered well.

An example is JSON or YAML, `{input, output}`, a list of such, or `{messages: [{role, content}, …]}`; or markdown in which a
heading or a line `Input:` or `Output:` begins each part.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, cast

from prowess.llm.model import Message, Role
from prowess.session.neutral import neutralised
from prowess.skill.limits import KIB, Limits
from prowess.skill.text.yaml import YamlRefused, load

LARGEST = 64 * KIB
"""A longer example is never read; no budget of examples is near it."""

_YAML_LIMITS = Limits(frontmatter_bytes=LARGEST)
_KEYED = re.compile(r"^(?:- )?(?:input|output|messages):", re.MULTILINE)
_PART = re.compile(
    r"^[ \t]*(?P<mark>#{1,6}[ \t]+[*_]{0,3}|[*_]{2,3})?(?P<role>input|output|user|assistant)(?:[ \t]+\d+)?[*_]{0,3}"
    r"(?P<colon>:[*_]{0,3}(?P<rest>.*))?[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
_ROLES: dict[str, Role] = {"input": "user", "user": "user", "output": "assistant", "assistant": "assistant"}


@lru_cache(maxsize=256)
def example_turns(content: str) -> tuple[Message, ...]:
    """The turns that an example gives, from a user's to an assistant's; none where it cannot be read as turns.

    No block of ours can be opened or closed in them.
    """
    try:
        turns = tuple(_turns(content)) if len(content) <= LARGEST else ()
    except RecursionError:
        return ()
    return turns if _alternates(turns) else ()


def _turns(content: str) -> Iterable[Message]:
    value = _value(content)
    return _marked(content) if value is None else _told(value)


def _value(content: str) -> Any:
    """The example as data, where it is written as such."""
    text = content.strip()
    if text[:1] in ("{", "["):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return None
    if not _KEYED.search(text):
        return None
    try:
        return load(text, typed=True, limits=_YAML_LIMITS).value
    except YamlRefused:
        return None


def _told(value: Any) -> Iterator[Message]:
    for item in cast("list[Any]", value if isinstance(value, list) else [value]):
        fields = cast("dict[str, Any]", item) if isinstance(item, dict) else {}
        messages = fields.get("messages")
        if isinstance(messages, list):
            yield from _messages(cast("list[Any]", messages))
        elif "input" in fields and "output" in fields:
            yield _message("user", fields["input"])
            yield _message("assistant", fields["output"])
        else:
            yield _UNREADABLE


def _messages(messages: list[Any]) -> Iterator[Message]:
    for item in messages:
        fields = cast("dict[str, Any]", item) if isinstance(item, dict) else {}
        role = _ROLES.get(str(fields.get("role")))
        yield _message(role, fields["content"]) if role and "content" in fields else _UNREADABLE


_UNREADABLE = Message(role="system")
"""Stands for a part that is no turn, so that the example is not read as turns at all."""


def _message(role: Role, value: Any) -> Message:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return Message(role=role, text=neutralised(text.strip()))


def _marked(content: str) -> Iterator[Message]:
    """The parts of a markdown text between the lines that begin them."""
    marks = [mark for mark in _PART.finditer(content) if mark["mark"] or mark["colon"]]
    for place, mark in enumerate(marks):
        end = marks[place + 1].start() if place + 1 < len(marks) else len(content)
        rest = (mark["rest"] or "").strip()
        yield _message(_ROLES[mark["role"].lower()], f"{rest}\n{content[mark.end() : end]}")


def _alternates(turns: tuple[Message, ...]) -> bool:
    """Whether a user and an assistant take turns, the assistant last, and neither is silent."""
    wanted = ("user", "assistant")
    return (
        bool(turns)
        and len(turns) % 2 == 0
        and all(turn.role == wanted[place % 2] and turn.text for place, turn in enumerate(turns))
    )
