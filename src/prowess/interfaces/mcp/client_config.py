"""Add the `prowess` server to the configuration file of an MCP client, or remove it.

The rest of the file is kept: JSON keeps its keys and their order, TOML all of its text, and both keep their line
endings. A change that could lose something, such as comments in JSON, is refused with the reason. Symbolic links are
not followed.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import stat
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PurePath
from typing import Any, cast

from prowess.errors import Conflict, Invalid, Refused
from prowess.storage.files.atomic_write import refuse_link, write_file

ENTRY_NAME = "prowess"
CLIENT_SEARCH_PATH = "/usr/local/bin:/usr/bin:/bin"
"""The search path of every client, including one that was started from a desktop and not from a shell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    """An entry to add to a client's configuration: the file, the table in it (such as `mcpServers`), and the entry.

    `folder` was chosen by the person and may be a symbolic link; paths below it may not.
    """

    folder: Path
    path: Path
    table: str
    entry: dict[str, Any]

    @property
    def is_toml(self) -> bool:
        """True if the file is TOML, False if it is JSON."""
        return self.path.suffix == ".toml"

    @property
    def snippet(self) -> str:
        """The text of a configuration file that contains only this entry."""
        if not self.is_toml:
            return json.dumps({self.table: {ENTRY_NAME: self.entry}}, indent=2, ensure_ascii=False)
        lines = [f"{key} = {_toml_value(value)}" for key, value in self.entry.items()]
        return "\n".join([f"[{self.table}.{ENTRY_NAME}]", *lines])


def plan_change(
    client: str,
    workspace: Path,
    user_home: Path,
    environment: Mapping[str, str],
    *,
    program: Sequence[str],
    options: Sequence[str] = (),
    variables: Mapping[str, str] | None = None,
) -> ConfigChange:
    """Return the file, table and entry for a client. Nothing is read or written.

    `program` is the command that starts Prowess, `options` follow `prowess mcp`, `variables` are set for the server.
    Cursor and VS Code pass their open folder as the workspace, unless `options` has `--workspace`.
    """
    command, *arguments = program
    start = {"command": command, "args": [*arguments, "mcp", *options]}
    env = {"env": dict(variables)} if variables else {}
    entry = {**start, **env}
    if client == "codex":
        folder = Path(environment.get("CODEX_HOME") or user_home / ".codex")
        return ConfigChange(folder=folder.parent, path=folder / "config.toml", table="mcp_servers", entry=entry)
    if client == "claude-code":
        return ConfigChange(
            folder=workspace, path=workspace / ".mcp.json", table="mcpServers", entry={"type": "stdio", **entry}
        )
    opened = () if "--workspace" in options else ("--workspace", "${workspaceFolder}")
    folder_entry = {"command": command, "args": [*start["args"], *opened], **env}
    if client == "cursor":
        return ConfigChange(
            folder=workspace, path=workspace / ".cursor" / "mcp.json", table="mcpServers", entry=folder_entry
        )
    path = workspace / ".vscode" / "mcp.json"
    return ConfigChange(folder=workspace, path=path, table="servers", entry={"type": "stdio", **folder_entry})


def find_program(started: str, python: str, *, client_path: str = CLIENT_SEARCH_PATH) -> list[str]:
    """Return the command that starts the running Prowess: its name if clients find it in `client_path`, else its path.

    `started` is `sys.argv[0]`. If that is not the `prowess` program, return `python -P -m prowess`.
    """
    running = Path(started).absolute()
    is_program = os.sep in started and running.name == ENTRY_NAME and shutil.which(str(running)) is not None
    if not is_program:
        # -P: clients start it in a project, and a folder `prowess` of a cloned repository must not be taken for ours.
        return [python, "-P", "-m", ENTRY_NAME]
    found = shutil.which(ENTRY_NAME, path=client_path)
    return [ENTRY_NAME] if found is not None and running.samefile(found) else [str(running)]


def _toml_value(value: Any) -> str:
    if isinstance(value, dict):
        pairs = (f"{key} = {_toml_value(inner)}" for key, inner in value.items())  # pyright: ignore[reportUnknownVariableType]
        return f"{{ {', '.join(pairs)} }}"
    return json.dumps(value, ensure_ascii=False)


_MAX_CONFIG_BYTES = 1024 * 1024


def write_change(change: ConfigChange) -> str:
    """Add the entry to the file and return a phrase for what was done, to be printed before the path.

    Nothing is written if the same entry exists. Raise `Conflict` if there is a different entry with the same name,
    `Refused` for a link or a special file, and `Invalid` if the file cannot be changed without a risk.
    """
    _refuse_links(change)
    text = _read_config(change.path)
    try:
        written = _add_to_toml(text, change) if change.is_toml else _add_to_json(text, change)
        data = written.encode()
    except (RecursionError, ValueError) as error:
        raise _cannot_edit(change, _reason(error)) from error
    if written == text:
        return "Already configured:"
    change.path.parent.mkdir(parents=True, exist_ok=True)
    mode = change.path.stat().st_mode & 0o777 if text is not None else 0o666
    write_file(change.path, data, mode=mode)
    return "Wrote" if text is None else "Added to"


def find_command(change: ConfigChange) -> list[str]:
    """Return the command of the entry that the file has now, whatever its options; empty if there is no entry.

    Raise `Conflict` if the entry does not start `prowess mcp`, and the other errors of `write_change`.
    """
    _refuse_links(change)
    text = _read_config(change.path) or ""
    try:
        document = tomllib.loads(text) if change.is_toml else _parse_json(text) if text.strip() else {}
        table = _as_mapping(_as_mapping(document, "the document").get(change.table, {}), change.table)
        entry = _as_mapping(table.get(ENTRY_NAME, {}), ENTRY_NAME)
    except (RecursionError, ValueError) as error:
        raise _cannot_remove(change, _reason(error)) from error
    arguments = entry.get("args")
    words = [entry.get("command"), *(cast("list[Any]", arguments) if isinstance(arguments, list) else ())]
    command = [str(word) for word in words]
    before = command[: command.index("mcp")] if "mcp" in command else []
    if ENTRY_NAME in table and not any(PurePath(word).stem == ENTRY_NAME for word in before):
        raise Conflict(
            f"The entry {ENTRY_NAME!r} in {str(change.path)!r} does not start `prowess mcp`.",
            hint="If you do not need it, remove it by hand.",
        )
    return command if entry else []


def remove_entry(change: ConfigChange) -> str:
    """Remove the entry and return a phrase for what was done, to be printed before the path.

    A file that has nothing else is removed, too, and its folder: agents that have a folder here count as used. Raise the
    errors of `find_command`; then nothing is changed.
    """
    if not find_command(change):
        return "Nothing to remove from"
    text = _read_config(change.path) or ""
    try:
        written = _remove_from_toml(text, change) if change.is_toml else _remove_from_json(text, change)
    except (RecursionError, ValueError) as error:
        raise _cannot_remove(change, _reason(error)) from error
    if written:
        write_file(change.path, written.encode(), mode=change.path.stat().st_mode & 0o777)
        return "Removed from"
    change.path.unlink()
    if change.path.parent != change.folder:
        with suppress(OSError):  # it has other files
            change.path.parent.rmdir()
    return "Removed"


def _remove_from_json(text: str, change: ConfigChange) -> str:
    document = _parse_json(text)
    del document[change.table][ENTRY_NAME]
    if not document[change.table]:
        del document[change.table]
    return _dump_json(document, text) if document else ""


def _remove_from_toml(text: str, change: ConfigChange) -> str:
    """Return the text without the lines of the entry's table and its subtables. Comments after them stay."""
    before = tomllib.loads(text)
    others = {key: value for key, value in before[change.table].items() if key != ENTRY_NAME}
    header = re.compile(rf"\s*\[\s*{change.table}\s*\.\s*[\"']?{ENTRY_NAME}[\"']?\s*[].]")
    lines = text.splitlines(keepends=True)
    starts = [number for number, line in enumerate(lines) if line.lstrip().startswith("[")]
    kept = lines[: starts[0]] if starts else lines
    for start, following in pairwise([*starts, len(lines)]):
        end = start
        if header.match(lines[start]):
            end = following
            # Blank lines and comments before the next table belong to that one.
            while not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#"):
                end -= 1
            if kept and not kept[-1].strip():
                kept.pop()
        kept += lines[end:following]
    written = "".join(kept)
    # The right lines were removed only if the result parses to the old document without the entry. Dotted keys and
    # inline tables are not found this way.
    if {change.table: {}} | tomllib.loads(written) != {**before, change.table: others}:
        raise ValueError("the entry is not a table of its own")
    return written


def _read_config(path: Path) -> str | None:
    """Return the text of a regular file, or None if there is no file.

    Raise `Refused` if it is too large or not a regular file, and `Invalid` if it is not UTF-8.
    """
    # Checked twice: before opening, because opening a device may have effects, and after it, because the path may have
    # been replaced in between. O_NONBLOCK keeps a FIFO that appears then from blocking.
    try:
        _check_plain(path, path.lstat().st_mode)
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        _check_plain(path, os.fstat(descriptor).st_mode)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(_MAX_CONFIG_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(data) > _MAX_CONFIG_BYTES:
        raise Refused(f"{str(path)!r} is too large for a configuration.", hint="Add the entry by hand.")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise Invalid(f"{str(path)!r} is not UTF-8 text.", hint="Fix the file, or add the entry by hand.") from error


def _check_plain(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        what = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
        raise Refused(
            f"{str(path)!r} is {what}.", hint="Move it away, because the client's configuration belongs there."
        )


def _add_to_json(text: str | None, change: ConfigChange) -> str:
    value: Any = _parse_json(text) if text and text.strip() else {}
    document = _as_mapping(value, "the document")
    table = _as_mapping(document.setdefault(change.table, {}), change.table)
    if ENTRY_NAME in table:
        _check_same(table[ENTRY_NAME], change)
        return text or ""
    table[ENTRY_NAME] = change.entry
    return _dump_json(document, text)


def _dump_json(document: Any, text: str | None) -> str:
    """Return JSON with the indentation and the line ends of `text`."""
    written = json.dumps(document, indent=_indent(text), ensure_ascii=False) + "\n"
    return written.replace("\n", _line_end(text))


def _parse_json(text: str) -> Any:
    """Parse JSON that can be written back without loss. Raise `ValueError` for duplicate keys and infinite numbers."""
    return json.loads(text, object_pairs_hook=_reject_duplicates, parse_float=_finite, parse_constant=_reject_constant)


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    for key, value in pairs:
        if key in mapping:
            raise ValueError(f"it has the key {key[:80]!r} twice")
        mapping[key] = value
    return mapping


def _finite(number: str) -> float:
    value = float(number)
    return value if math.isfinite(value) else _reject_constant(number)


def _reject_constant(word: str) -> float:
    raise ValueError(f"{word[:80]} is not a JSON number")


def _indent(text: str | None) -> int | str:
    """Return the indentation of the first indented line, or 2 spaces if there is none."""
    for line in (text or "").splitlines():
        blank = line[: len(line) - len(line.lstrip())]
        if blank and line.strip():
            return "\t" if blank[0] == "\t" else len(blank)
    return 2


def _line_end(text: str | None) -> str:
    """Return the line ending of the first line."""
    return "\r\n" if (text or "").partition("\n")[0].endswith("\r") else "\n"


def _add_to_toml(text: str | None, change: ConfigChange) -> str:
    start = text or ""
    before = tomllib.loads(start)
    table = _as_mapping(before.get(change.table, {}), change.table)
    if ENTRY_NAME in table:
        _check_same(table[ENTRY_NAME], change)
        return start
    gap = "" if not start else "\n" if start.endswith("\n") else "\n\n"
    written = start + f"{gap}{change.snippet}\n".replace("\n", _line_end(text))
    # Appending is safe only if the result parses to the old document plus the entry. An inline table
    # (`mcp_servers = {…}`) cannot be extended this way: `tomllib` raises for it.
    expected = {**before, change.table: {**table, ENTRY_NAME: change.entry}}
    if tomllib.loads(written) != expected:
        raise ValueError("the entry would become part of another table")
    return written


def _as_mapping(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{what} is not a table")  # noqa: TRY004  `write_change` reports every ValueError of the file
    return cast("dict[str, Any]", value)


def _check_same(existing: Any, change: ConfigChange) -> None:
    """Raise `Conflict` unless the existing entry has all values of ours. It may have more, and may omit `type`."""
    is_same = isinstance(existing, dict) and all(
        cast("dict[str, Any]", existing).get(key, value if key == "type" else None) == value
        for key, value in change.entry.items()
    )
    if not is_same:
        raise Conflict(
            f"{str(change.path)!r} already has another entry {ENTRY_NAME!r}.",
            hint=f"Remove that entry and run the command again, or change it to:\n{change.snippet}",
        )


def _refuse_links(change: ConfigChange) -> None:
    for path in (change.path.parent, change.path):
        if path != change.folder:
            refuse_link(path)


def _reason(error: RecursionError | ValueError) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)


def _cannot_remove(change: ConfigChange, reason: str) -> Invalid:
    return Invalid(
        f"Cannot change {str(change.path)!r} safely: {reason}.",
        hint=f"Remove the entry {ENTRY_NAME!r} of {change.table!r} by hand.",
    )


def _cannot_edit(change: ConfigChange, reason: str) -> Invalid:
    return Invalid(
        f"Cannot change {str(change.path)!r} safely: {reason}.",
        hint=f"Add this entry by hand:\n{change.snippet}",
    )
