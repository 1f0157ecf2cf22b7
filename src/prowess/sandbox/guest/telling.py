"""What is said about an error: its type, its message, and the lines of the script's own file."""

from __future__ import annotations

import linecache
import traceback
import types
from collections.abc import Callable
from typing import Any

from .bridge import HostError

MESSAGE_CHARS, TRACE_CHARS, TRACE_FRAMES = 4_000, 8_000, 20


class Misfit(Exception):
    """A function that cannot be called, or whose answer cannot be given; at the line where it begins, if there is one."""

    def __init__(self, type: str, message: str, function: Callable[..., Any] | None = None) -> None:
        super().__init__(message)
        self._type = type
        self._code = getattr(function, "__code__", None)

    def told(self) -> dict[str, Any]:
        """What is said about it."""
        line = self._code.co_firstlineno if isinstance(self._code, types.CodeType) else None
        return {"type": self._type, "message": str(self)[:MESSAGE_CHARS], "line": line, "trace": "", "host": False}


def told(error: BaseException, asked: dict[str, Any]) -> dict[str, Any]:
    """What is said about an error of the script."""
    file, shown = asked["file"], asked["shown"]
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != file:
        trace = trace.tb_next
    traceback.clear_frames(trace)
    lines = [frame.lineno for frame in traceback.extract_tb(trace) if frame.filename == file]
    if isinstance(error, SyntaxError) and error.filename == file:
        lines.append(error.lineno)
    linecache.cache[file] = (len(shown), None, [line + "\n" for line in shown.splitlines()], file)
    return {
        "type": type(error).__name__,
        "message": _message(error)[:MESSAGE_CHARS],
        "line": lines[-1] if lines else None,
        "trace": _trace(error, trace)[-TRACE_CHARS:],
        "host": isinstance(error, HostError),
    }


def _message(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return error.msg or ""
    try:
        return str(error)
    except BaseException:  # noqa: BLE001  (a script's own class may do anything)
        return ""


def _trace(error: BaseException, trace: types.TracebackType | None) -> str:
    try:
        return "".join(traceback.format_exception(type(error), error, trace, limit=TRACE_FRAMES))
    except BaseException:  # noqa: BLE001
        return ""
