"""Setting up a client: the entry that makes it start `prowess mcp`, in the file where it looks for one.

What else stands in that file stays: JSON keeps its keys and their order, TOML all of its text. Links are not followed.
"""

from __future__ import annotations

import json
import os
import shutil
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from prowess.errors import Conflict, Invalid, Refused
from prowess.storage.atomic import refuse_link, write_file

NAME = "prowess"
_LARGEST = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One entry for one client: the file, the table in it (`mcpServers` and the like), and the entry.

    `folder` is what the person chose, and may be a link; nothing below it may.
    """

    folder: Path
    path: Path
    table: str
    entry: dict[str, Any]

    @property
    def is_toml(self) -> bool:
        """Whether the file is TOML; else it is JSON."""
        return self.path.suffix == ".toml"

    @property
    def snippet(self) -> str:
        """The entry as it would stand alone in the file."""
        if not self.is_toml:
            return json.dumps({self.table: {NAME: self.entry}}, indent=2)
        lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in self.entry.items()]
        return "\n".join([f"[{self.table}.{NAME}]", *lines])


def plan(client: str, workspace: Path, user_home: Path, environment: Mapping[str, str], *, python: str) -> Plan:
    """Where the entry for a client belongs, and what it says."""
    command, *arguments = _command(environment, python)
    here = {"command": command, "args": [*arguments, "mcp"]}
    there = {"command": command, "args": [*arguments, "mcp", "--workspace", "${workspaceFolder}"]}
    if client == "codex":
        folder = Path(environment.get("CODEX_HOME") or user_home / ".codex")
        return Plan(folder=folder.parent, path=folder / "config.toml", table="mcp_servers", entry=here)
    if client == "claude-code":
        return Plan(folder=workspace, path=workspace / ".mcp.json", table="mcpServers", entry={"type": "stdio", **here})
    if client == "cursor":
        return Plan(folder=workspace, path=workspace / ".cursor" / "mcp.json", table="mcpServers", entry=there)
    path = workspace / ".vscode" / "mcp.json"
    return Plan(folder=workspace, path=path, table="servers", entry={"type": "stdio", **there})


def _command(environment: Mapping[str, str], python: str) -> list[str]:
    """`prowess` where that is the one of this Python, else this Python itself."""
    found = shutil.which(NAME, path=environment.get("PATH"))
    if found is not None and Path(found).resolve().parent == Path(python).parent.resolve():
        return [NAME]
    return [python, "-m", NAME]


def write_plan(change: Plan) -> str:
    """Write the entry and say what was done; `Conflict` where another one of the same name stands there."""
    for place in (change.path.parent, change.path):
        if place != change.folder:
            refuse_link(place)
    text = _read(change.path)
    written = _with_toml(text, change) if change.is_toml else _with_json(text, change)
    if written == text:
        return "There already, and unchanged:"
    change.path.parent.mkdir(parents=True, exist_ok=True)
    mode = change.path.stat().st_mode & 0o777 if text is not None else 0o666
    write_file(change.path, written.encode(), mode=mode)
    return "Wrote" if text is None else "Added to"


def _read(path: Path) -> str | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise Refused(f"{str(path)!r} is too large for a configuration.", hint="Add the entry by hand.")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise Invalid(f"{str(path)!r} is not UTF-8 text.", hint="Mend the file, or add the entry by hand.") from error


def _with_json(text: str | None, change: Plan) -> str:
    try:
        value: Any = json.loads(text) if text and text.strip() else {}
    except ValueError as error:
        raise _not_understood(change) from error
    document = _as_mapping(value, change)
    table = _as_mapping(document.setdefault(change.table, {}), change)
    if NAME in table:
        _check_same(table[NAME], change)
        return text or ""
    table[NAME] = change.entry
    return json.dumps(document, indent=_indent(text), ensure_ascii=False) + "\n"


def _indent(text: str | None) -> int | str:
    """The indentation of the first line that has one."""
    for line in (text or "").splitlines():
        blank = line[: len(line) - len(line.lstrip())]
        if blank and line.strip():
            return "\t" if blank[0] == "\t" else len(blank)
    return 2


def _with_toml(text: str | None, change: Plan) -> str:
    before = _toml(text or "", change)
    table = _as_mapping(before.get(change.table, {}), change)
    if NAME in table:
        _check_same(table[NAME], change)
        return text or ""
    start = text or ""
    gap = "" if not start else "\n" if start.endswith("\n") else "\n\n"
    written = f"{start}{gap}{change.snippet}\n"
    expected = {**before, change.table: {**table, NAME: change.entry}}
    if _toml(written, change) != expected:
        raise _not_understood(change)
    return written


def _toml(text: str, change: Plan) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _not_understood(change) from error


def _as_mapping(value: Any, change: Plan) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _not_understood(change)
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


def _not_understood(change: Plan) -> Invalid:
    return Invalid(
        f"{str(change.path)!r} cannot be changed without a risk to what stands in it.",
        hint=f"Comments and unusual forms are left to you. Add this by hand:\n{change.snippet}",
    )
