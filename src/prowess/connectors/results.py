"""Make results of a server safe to show: clean them, cut them, and mark them with their origin."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from prowess.policy.text import clean_text
from prowess.redaction.redactor import Redactor
from prowess.skill.json_values import json_object, map_texts
from prowess.skill.text.hidden import replace_hidden

MAX_RESULT_CHARS = 32_000
"""The most characters of a result that an agent gets."""
_MAX_BLOCKS = 200


def clean(text: str, *, limit: int = MAX_RESULT_CHARS) -> str:
    """Return a text of a server without control characters, terminal escapes and hidden text, cut at the limit."""
    # Cut first: the rest of a text of megabytes need not be looked at.
    return clean_text(replace_hidden(text[: limit * 2], lambda _: ""), limit=limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """The result of a call: the text of its content, its structured content if it fits, and what is missing.

    `is_error` is what the server says. `notes` says what was left out.
    """

    connector: str
    tool: str
    text: str
    structured: Any = None
    is_error: bool = False
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON, with its origin."""
        return {
            "connector": self.connector,
            "tool": self.tool,
            "is_error": self.is_error,
            "content": self.text,
            **({"structured": self.structured} if self.structured is not None else {}),
            **({"notes": list(self.notes)} if self.notes else {}),
            "origin": f"connector:{self.connector}/{self.tool}",
        }


def read_result(connector: str, tool: str, result: Any, redactor: Redactor) -> CallResult:
    """Return the result of a call (`mcp_types.CallToolResult`), redacted, cleaned and within the limit."""
    notes: list[str] = []
    blocks: list[Any] = list(result.content)
    parts = [_block_text(block)[: MAX_RESULT_CHARS * 2] for block in blocks[:_MAX_BLOCKS]]
    # Redacted as a whole: a secret may continue in the next part, as a key does whose lines are their own parts.
    joined = "\n".join(part for part in parts if part)
    whole = redactor.text(joined[: MAX_RESULT_CHARS * 2])
    text = clean(whole)
    if len(joined) > MAX_RESULT_CHARS * 2 or len(whole) > len(text) >= MAX_RESULT_CHARS:
        notes.append(f"The result was cut after {MAX_RESULT_CHARS:,} characters. Ask for less data.")
    if len(blocks) > _MAX_BLOCKS:
        notes.append(f"The result has {len(blocks):,} parts; only the first {_MAX_BLOCKS} are shown.")
    structured = _read_structured(result.structured_content, blocks, redactor, notes)
    return CallResult(
        connector=connector,
        tool=tool,
        text=text,
        structured=structured,
        is_error=bool(result.is_error),
        notes=tuple(notes),
    )


def _block_text(block: Any) -> str:
    """Return the text of a part of a result. Pictures, sounds and files are named, not passed on."""
    match getattr(block, "type", ""):
        case "text":
            return str(block.text)
        case "image" | "audio":
            return f"[{block.type}, {block.mime_type}, {len(block.data):,} characters of base64 left out]"
        case "resource_link":
            return f"[link to {block.uri}]"
        case "resource":
            text = getattr(block.resource, "text", None)
            return f"[file {block.resource.uri}]" if text is None else str(text)
        case _:
            return "[a part of another type]"


def _read_structured(value: Any, blocks: list[Any], redactor: Redactor, notes: list[str]) -> Any:
    """Return structured content if it is small; None if there is none, or the text says the same."""
    if value is None or (len(blocks) == 1 and _is_same(_block_text(blocks[0]), value)):
        return None
    # Servers of files repeat pictures there.
    left_out = {data: _block_text(block) for block in blocks if (data := getattr(block, "data", ""))}
    try:
        value = map_texts(value, lambda text: left_out.get(text, text))
        # Infinity and NaN, which a server may send, are not JSON: no interface could pass them on.
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError):
        notes.append("The structured content is not valid JSON and was left out.")
        return None
    if len(text) > MAX_RESULT_CHARS:
        notes.append(f"The structured content has {len(text):,} characters and was left out.")
        return None
    return map_texts(redactor.value(value), clean, names=lambda name: clean(name, limit=200))


def _is_same(text: str, value: Any) -> bool:
    """Return True if a text says the same as structured content, or as its only member.

    Servers that were made with FastMCP wrap a text as `{"result": text}`, and the reference server of files as
    `{"content": text}`.
    """
    members = list(json_object(value).values())
    said: list[Any] = [value, *members] if len(members) == 1 else [value]
    if text in said:
        return True
    try:
        return json.loads(text) in said
    except (ValueError, RecursionError):
        return False
