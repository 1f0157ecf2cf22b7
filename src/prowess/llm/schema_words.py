"""A schema in words, for every answer that nobody holds a model to."""

from __future__ import annotations

import json
from dataclasses import replace

from prowess.llm.model import Message, Request


def is_held(request: Request, *, structured: bool) -> bool:
    """Whether the answer is held to the request's schema: providers do so for a schema of an object, and no other."""
    return structured and request.schema is not None and request.schema.get("type") == "object"


def fitted(request: Request, *, structured: bool) -> Request:
    """The request as a model has to be asked: with its schema in words where the answer is not held to it."""
    if request.schema is None or is_held(request, structured=structured):
        return request
    return in_words(request)


def in_words(request: Request) -> Request:
    """The request with its schema also in words, at the end of what the user says last."""
    words = f"Answer with nothing but JSON that satisfies this JSON Schema:\n{json.dumps(request.schema, ensure_ascii=False)}"
    messages = list(request.messages)
    place = next((at for at in reversed(range(len(messages))) if messages[at].role == "user"), None)
    if place is None:
        messages.append(Message(role="user", text=words))
    else:
        messages[place] = replace(messages[place], text=f"{messages[place].text}\n\n{words}")
    return replace(request, messages=tuple(messages))
