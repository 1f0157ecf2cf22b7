"""What is said to a script in answer to a call, as JSON."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final, cast

LARGE: Final = 64 * 1024
"""From how many characters or values on a text is read or written beside the event loop, which goes on meanwhile."""

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


async def answer_of(value: Any) -> bytes:
    """The answer that gives a value; `TypeError` or `ValueError` where JSON cannot say it."""
    answer = {"value": value}
    text = await asyncio.to_thread(_in_pieces, answer) if is_large(value) else _ENCODER.encode(answer)
    return text.encode(errors="replace")


def refusal(message: str, code: str) -> bytes:
    """The answer that is an error in the script."""
    return json.dumps({"error": {"message": message, "code": code}}).encode()


def is_large(value: Any) -> bool:
    """Whether there is so much in a value that to write it takes a while; looking takes none."""
    room, unseen = LARGE, [value]
    while unseen and room >= 0:
        item = unseen.pop()
        room -= 1
        if isinstance(item, str):
            room -= len(item)
        elif isinstance(item, (list, tuple, dict)):
            items = cast("list[Any] | tuple[Any, ...] | dict[Any, Any]", item)
            room -= len(items)
            if room >= 0:
                unseen.extend(items.values() if isinstance(items, dict) else items)
    return room < 0


def _in_pieces(answer: dict[str, Any]) -> str:
    """The JSON of it, written so that other threads have their turn between two values."""
    return "".join(_ENCODER.iterencode(answer))
