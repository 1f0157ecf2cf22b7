"""Writing an entry into the configuration of a client.

What else stands in that file stays: JSON keeps its keys and their order, TOML all of its text, both the ends of their
lines. What cannot be kept for certain is refused with the reason. Links are not followed.
"""

from __future__ import annotations

import json
import math
import os
import stat
import tomllib
from pathlib import Path
from typing import Any, cast

from prowess.errors import Conflict, Invalid, Refused
from prowess.interfaces.mcp.install import NAME, Plan
from prowess.storage.atomic import refuse_link, write_file

_LARGEST = 1024 * 1024


def write_plan(change: Plan) -> str:
    """Write the entry and say what was done; `Conflict` where another one of the same name stands there."""
    for place in (change.path.parent, change.path):
        if place != change.folder:
            refuse_link(place)
    text = _read(change.path)
    try:
        written = _with_toml(text, change) if change.is_toml else _with_json(text, change)
        data = written.encode()
    except RecursionError as error:
        raise _not_understood(change, "it is nested too deeply") from error
    except ValueError as error:
        raise _not_understood(change, str(error)) from error
    if written == text:
        return "There already, and unchanged:"
    change.path.parent.mkdir(parents=True, exist_ok=True)
    mode = change.path.stat().st_mode & 0o777 if text is not None else 0o666
    write_file(change.path, data, mode=mode)
    return "Wrote" if text is None else "Added to"


def _read(path: Path) -> str | None:
    """The text of a plain file; None where there is none."""
    try:
        _check_plain(path, path.lstat().st_mode)
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        _check_plain(path, os.fstat(descriptor).st_mode)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(_LARGEST + 1)
    finally:
        os.close(descriptor)
    if len(data) > _LARGEST:
        raise Refused(f"{str(path)!r} is too large for a configuration.", hint="Add the entry by hand.")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise Invalid(f"{str(path)!r} is not UTF-8 text.", hint="Mend the file, or add the entry by hand.") from error


def _check_plain(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        what = "a folder" if stat.S_ISDIR(mode) else "no plain file"
        raise Refused(f"{str(path)!r} is {what}.", hint="Move it away: the client's configuration belongs there.")


def _with_json(text: str | None, change: Plan) -> str:
    value: Any = _json(text) if text and text.strip() else {}
    document = _as_mapping(value, "the document")
    table = _as_mapping(document.setdefault(change.table, {}), change.table)
    if NAME in table:
        _check_same(table[NAME], change)
        return text or ""
    table[NAME] = change.entry
    written = json.dumps(document, indent=_indent(text), ensure_ascii=False) + "\n"
    return written.replace("\n", _line_end(text))


def _json(text: str) -> Any:
    """The value of a text that says everything once, and in numbers that can be written again; else `ValueError`."""
    return json.loads(text, object_pairs_hook=_unique, parse_float=_finite, parse_constant=_no_number)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in pairs:
        if key in made:
            raise ValueError(f"the key {key[:80]!r} is there twice")
        made[key] = value
    return made


def _finite(number: str) -> float:
    value = float(number)
    return value if math.isfinite(value) else _no_number(number)


def _no_number(word: str) -> float:
    raise ValueError(f"{word[:80]} is no number of JSON")


def _indent(text: str | None) -> int | str:
    """The indentation of the first line that has one."""
    for line in (text or "").splitlines():
        blank = line[: len(line) - len(line.lstrip())]
        if blank and line.strip():
            return "\t" if blank[0] == "\t" else len(blank)
    return 2


def _line_end(text: str | None) -> str:
    """How the first line ends."""
    return "\r\n" if (text or "").partition("\n")[0].endswith("\r") else "\n"


def _with_toml(text: str | None, change: Plan) -> str:
    start = text or ""
    before = tomllib.loads(start)
    table = _as_mapping(before.get(change.table, {}), change.table)
    if NAME in table:
        _check_same(table[NAME], change)
        return start
    gap = "" if not start else "\n" if start.endswith("\n") else "\n\n"
    written = start + f"{gap}{change.snippet}\n".replace("\n", _line_end(text))
    expected = {**before, change.table: {**table, NAME: change.entry}}
    if tomllib.loads(written) != expected:
        raise ValueError("the entry would not stand for itself")
    return written


def _as_mapping(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{what} is no table")  # noqa: TRY004  told with all else that is wrong with the file
    return cast("dict[str, Any]", value)


def _check_same(there: Any, change: Plan) -> None:
    """An entry that says the same, and perhaps more, is as good as ours."""
    same = isinstance(there, dict) and all(
        cast("dict[str, Any]", there).get(key, value if key == "type" else None) == value
        for key, value in change.entry.items()
    )
    if not same:
        raise Conflict(
            f"{str(change.path)!r} has another entry {NAME!r} already.",
            hint=f"Remove it and repeat, or change it by hand to:\n{change.snippet}",
        )


def _not_understood(change: Plan, reason: str) -> Invalid:
    return Invalid(
        f"{str(change.path)!r} cannot be changed without a risk to what stands in it: {reason}.",
        hint=f"Comments and unusual forms are left to you. Add this by hand:\n{change.snippet}",
    )
