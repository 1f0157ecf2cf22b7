"""Reading what comes out of the sandbox, all of which may be hostile."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn, cast, get_args

from prowess.sandbox.sandbox import DEFAULT_LIMITS, Ended, Ran, SandboxLimits, ScriptError
from prowess.sandbox.script import MOST_DEPTH, Script, depth_of

MOST_VALUES = 100_000
"""How many values one text may have; each costs more to read than its characters."""
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_TYPE_CHARS, _MESSAGE_CHARS, _TRACE_CHARS, _DETAIL_CHARS = 100, 4_000, 8_000, 200
_WORDS = frozenset(get_args(Ended))


def plain_json(text: str, *, around: int = 0) -> Any:
    """A JSON value that can be kept anywhere: finite numbers, whole characters, not too deep, not too much of it.

    `ValueError` otherwise. What lies `around` it, so many levels, does not count.
    """
    if _has_too_many(text):
        raise ValueError(f"it has more than {MOST_VALUES:,} values")
    try:
        value = json.loads(text, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if depth_of(value) > MOST_DEPTH + around:
        raise ValueError(f"it is nested more than {MOST_DEPTH} deep")
    return _whole(value) if _SURROGATE.search(text) else value


def read_ran(payload: bytes, script: Script, calls: int, limits: SandboxLimits = DEFAULT_LIMITS) -> Ran:
    """What came of a run, from what the worker says about it and what the guest said; `ValueError` where it is nonsense."""
    head, _, said = payload.partition(b"\n")
    told = _object(json.loads(head))
    word = str(told.get("word"))
    if word not in _WORDS:
        raise ValueError("the worker gives no reason")
    ended = cast("Ended", word)
    facts: dict[str, Any] = {
        "stdout": str(told.get("stdout", ""))[: limits.output_chars],
        "fuel": int(told.get("fuel", 0)),
        "detail": str(told.get("detail", ""))[:_DETAIL_CHARS],
        "calls": calls,
    }
    if ended != "done":
        return Ran(ended=ended, **facts)
    try:
        answer = _object(plain_json(_bounded(said, limits.result_bytes).decode(), around=1))
    except ValueError as error:
        facts["detail"] = str(error)[:_DETAIL_CHARS]
        return Ran(ended="result", **facts)
    if "error" in answer:
        failed = _error(_object(answer["error"]), script)
        return Ran(ended="memory" if failed.type == "MemoryError" else "raised", error=failed, **facts)
    return Ran(ended="done", submitted="result" in answer, result=answer.get("result"), **facts)


def _has_too_many(text: str) -> bool:
    """Whether there are more values in a JSON text than are read; this takes far less time than to read it."""
    if text.count(",") < MOST_VALUES:
        return False
    unescaped = text.replace("\\\\", "").replace('\\"', "")
    quotes = unescaped.count('"')
    return quotes > 4 * MOST_VALUES or "".join(unescaped.split('"')[::2]).count(",") >= MOST_VALUES


def _bounded(said: bytes, most: int) -> bytes:
    if len(said) > most:
        raise ValueError(f"it has {len(said):,} bytes")
    return said


def _error(told: dict[str, Any], script: Script) -> ScriptError:
    line = told.get("line")
    return ScriptError(
        type=str(told.get("type"))[:_TYPE_CHARS],
        message=script.unmarked(str(told.get("message")))[:_MESSAGE_CHARS],
        line=line if isinstance(line, int) else None,
        trace=script.unmarked(str(told.get("trace")))[:_TRACE_CHARS],
        of_host=told.get("host") is True,
    )


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("it is no object")  # noqa: TRY004  (a fault of what was read)
    return cast("dict[str, Any]", value)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"it has {constant}, which is no number in JSON")


def _whole(value: Any) -> Any:
    """The value without halves of characters."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_whole(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {_whole(key): _whole(item) for key, item in cast("dict[str, Any]", value).items()}
    return value
