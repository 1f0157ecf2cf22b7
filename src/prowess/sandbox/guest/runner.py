"""The program in the sandbox: runs one script and says what came of it.

It is run once when the component is built; an instance starts with everything below already loaded.
"""

from __future__ import annotations

import gc
import linecache
import sys
import traceback
import types
from typing import Any

from . import allowed, timers
from .bridge import HostError, Printed, Result, World, from_json, module, to_json
from .filling import parsed

SCRIPT = "<script>"
REHEARSAL: dict[str, Any] = {
    "source": "def each(items):\n    return [f'{item}!' for item in items if item]\neach([a])\n",
    "shown": "",
    "marks": {},
    "inputs": {"a": 1},
    "variables": ["a"],
    "modules": ["prowess"],
    "functions": ["nothing"] * 12,
}
MESSAGE_CHARS, TRACE_CHARS, TRACE_FRAMES = 4_000, 8_000, 20


class WitWorld(World.WitWorld):
    """What the component offers."""

    def prepare(self) -> None:
        """Touch what every run touches, which is memory that no later run has to touch for the first time."""
        self.run(to_json(REHEARSAL))

    def run(self, task: str) -> str:
        """Run a script to its end."""
        asked = from_json(task)
        result, printed = Result(), Printed()
        try:
            error = _run(asked, result, printed)
        except BaseException:  # noqa: BLE001  (there may be no memory left to say more)
            return '{"error":{"type":"MemoryError","message":"","line":null,"trace":""}}'
        if error:
            return to_json({"error": error})
        return '{"done":true}' if result.json is None else '{"done":true,"result":' + result.json + "}"


def _run(asked: dict[str, Any], result: Result, printed: Printed) -> dict[str, Any] | None:
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    sys.stdout = sys.stderr = sys.__stdout__ = sys.__stderr__ = printed  # type: ignore[misc]
    sys.argv = [SCRIPT]
    for name in asked["modules"]:
        sys.modules[name] = module(name, asked["functions"], result, printed)
    inputs = asked["inputs"]
    vars(main).update({name: inputs[name] for name in asked["variables"]}, inputs=inputs)
    error = None
    try:
        exec(compile(parsed(asked["source"], asked["marks"], SCRIPT), SCRIPT, "exec"), vars(main))  # noqa: S102
    except SystemExit as end:
        error = None if end.code in (None, 0) else _told(end, asked["shown"])
    except BaseException as raised:  # noqa: BLE001
        error = _told(raised, asked["shown"])
    printed.flush()
    return error


def _told(error: BaseException, shown: str) -> dict[str, Any]:
    """What went wrong, by the script's own lines."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != SCRIPT:
        trace = trace.tb_next
    traceback.clear_frames(trace)
    lines = [frame.lineno for frame in traceback.extract_tb(trace) if frame.filename == SCRIPT]
    if isinstance(error, SyntaxError) and error.filename == SCRIPT:
        lines.append(error.lineno)
    linecache.cache[SCRIPT] = (len(shown), None, [line + "\n" for line in shown.splitlines()], SCRIPT)
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


allowed.load()
timers.install()
gc.collect()
gc.freeze()
