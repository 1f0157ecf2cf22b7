"""Parse and encode the JSON that crosses the sandbox boundary. Everything that a script sends may be hostile."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final, NoReturn, cast, get_args

from prowess.sandbox.protocol import DEFAULT_LIMITS, EndReason, SandboxLimits, ScriptError, ScriptOutcome
from prowess.sandbox.script import MAX_DEPTH, Script, json_depth
from prowess.skill.json_values import map_texts
from prowess.threads import offload

MAX_VALUES = 100_000
"""How many values one JSON text may have: each costs far more memory and time than its characters."""
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_TYPE_CHARS, _MESSAGE_CHARS, _TRACE_CHARS, _DETAIL_CHARS = 100, 4_000, 8_000, 200
_END_REASONS = frozenset(get_args(EndReason))


def parse_json(text: str, *, around: int = 0) -> Any:
    """Parse JSON that can be stored anywhere: finite numbers, whole characters, limited depth and size.

    Raise `ValueError` otherwise. The outermost `around` levels do not count.
    """
    # Before parsing: the parsed value would take many times the memory of its text.
    if _has_too_many_values(text):
        raise ValueError(f"it has more than {MAX_VALUES:,} values")
    try:
        value = _decode(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if json_depth(value) > MAX_DEPTH + around:
        raise ValueError(f"it is nested more than {MAX_DEPTH} levels deep")
    # Walking the value is slow, and an escape of a surrogate is rare.
    return map_texts(value, _replace_surrogates, names=_replace_surrogates) if _SURROGATE.search(text) else value


def parse_outcome(
    payload: bytes,
    script: Script,
    calls: int,
    limits: SandboxLimits = DEFAULT_LIMITS,
    *,
    confined: tuple[str, ...] = (),
) -> ScriptOutcome:
    """Return the outcome of a run, from the report of the worker and that of the guest; raise `ValueError` if it is malformed."""
    head, _, report = payload.partition(b"\n")
    summary = _require_object(_decode(head.decode()))
    word = str(summary.get("word"))
    if word not in _END_REASONS:
        raise ValueError("the worker gave no reason")
    ended = cast("EndReason", word)
    facts: dict[str, Any] = {
        "stdout": str(summary.get("stdout", ""))[: limits.output_chars],
        "fuel": int(summary.get("fuel", 0)),
        "detail": str(summary.get("detail", ""))[:_DETAIL_CHARS],
        "calls": calls,
        "confined": confined,
    }
    if ended != "done":
        return ScriptOutcome(ended=ended, **facts)
    try:
        # The object around the result does not count towards its depth.
        answer = _require_object(parse_json(_check_size(report, limits.result_bytes).decode(), around=1))
    except ValueError as error:
        facts["detail"] = str(error)[:_DETAIL_CHARS]
        return ScriptOutcome(ended="result", **facts)
    if "error" in answer:
        failed = _parse_error(_require_object(answer["error"]), script)
        # At the memory limit CPython inside the sandbox raises `MemoryError` like any other exception.
        return ScriptOutcome(ended="memory" if failed.type == "MemoryError" else "raised", error=failed, **facts)
    return ScriptOutcome(ended="done", submitted="result" in answer, result=answer.get("result"), **facts)


def _has_too_many_values(text: str) -> bool:
    """Return True if a JSON text has too many values. Counting commas outside strings is far cheaper than parsing."""
    if text.count(",") < MAX_VALUES:
        return False
    # Without escaped quotes every second part between quotes is outside a string.
    unescaped = text.replace("\\\\", "").replace('\\"', "")
    quotes = unescaped.count('"')
    # A member of an object has at most four quotes. A text with more is rejected before it is split, which costs
    # memory.
    return quotes > 4 * MAX_VALUES or "".join(unescaped.split('"')[::2]).count(",") >= MAX_VALUES


def _check_size(data: bytes, most: int) -> bytes:
    if len(data) > most:
        raise ValueError(f"it has {len(data):,} bytes")
    return data


def _parse_error(summary: dict[str, Any], script: Script) -> ScriptError:
    line = summary.get("line")
    return ScriptError(
        type=str(summary.get("type"))[:_TYPE_CHARS],
        message=script.unmarked(str(summary.get("message")))[:_MESSAGE_CHARS],
        line=line if isinstance(line, int) else None,
        trace=script.unmarked(str(summary.get("trace")))[:_TRACE_CHARS],
        of_host=summary.get("host") is True,
    )


def _require_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("it is not an object")  # noqa: TRY004  (a fault of what was read)
    return cast("dict[str, Any]", value)


def _reject_constant(constant: str) -> NoReturn:
    raise ValueError(f"it contains {constant}, which is not valid JSON")


def _parse_finite(number: str) -> float:
    value = float(number)
    # 1e999 is a number in JSON, but infinity here, which no JSON can express.
    return value if math.isfinite(value) else _reject_constant(number[:20])


# Made once: `json.loads` makes a decoder for each call that has options.
_decode = json.JSONDecoder(parse_constant=_reject_constant, parse_float=_parse_finite).decode


def _replace_surrogates(text: str) -> str:
    """Return the text with lone surrogates replaced: they cannot be encoded, so they could not be stored."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


OFFLOAD_SIZE: Final = 64 * 1024
"""From this many characters or values on, JSON is parsed or written in a thread: it would hold up the event loop."""

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


async def encode_answer(value: Any) -> bytes:
    """Return the answer with a value; raise `TypeError` or `ValueError` if it is not a JSON value."""
    answer = {"value": value}
    text = await offload(_encode_incrementally, answer) if is_large(value) else _ENCODER.encode(answer)
    # A lone surrogate in an answer of the host cannot be encoded, and must not fail the run.
    return text.encode(errors="replace")


def encode_refusal(message: str, code: str) -> bytes:
    """Return the answer that raises an error in the script."""
    return json.dumps({"error": {"message": message, "code": code}}).encode()


def is_large(value: Any) -> bool:
    """Return True if writing a value takes long. It looks at no more than `OFFLOAD_SIZE` values, so it is quick itself."""
    room, unseen = OFFLOAD_SIZE, [value]
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


def _encode_incrementally(answer: dict[str, Any]) -> str:
    """Return the JSON of an answer. The C encoder would keep the GIL for all of it; this releases it between values."""
    return "".join(_ENCODER.iterencode(answer))
