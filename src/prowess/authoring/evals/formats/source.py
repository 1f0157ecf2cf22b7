"""One eval file while it is read: its value, the files around it, and the problems found so far.

Everything in it may be wrong or hostile. Reading reports problems, and never raises because of the content.
"""

from __future__ import annotations

import math
import os
import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from prowess.authoring.evals.case import EvalFile
from prowess.errors import Problem, Severity
from prowess.paths import real_path
from prowess.skill.evals import parse_eval
from prowess.skill.json_values import json_list, parse_json
from prowess.skill.kinds import JsonObject
from prowess.skill.limits import KIB, MIB, Limits
from prowess.skill.schema import measure_depth

MAX_EVAL_BYTES = 4 * MIB
MAX_DEPTH = 32
MAX_INPUT_BYTES = 256 * KIB
"""The largest file that can be part of a message."""
MAX_PROBLEMS = 200
"""Problems that are kept for one file."""
MAX_FOLDER_FILES = 5_000

_LIMITS = Limits(frontmatter_bytes=MAX_EVAL_BYTES, yaml_depth=MAX_DEPTH)
_SKIPPED_FOLDERS = frozenset({".git", "node_modules", "__pycache__", ".venv"})

At = tuple[str | int, ...]
"""The place of a value in a file: keys, and positions in lists."""


class FolderFiles(Mapping[str, bytes]):
    """The files of a folder by relative path, read when they are asked for. Links that leave the folder are not followed."""

    def __init__(self, root: Path) -> None:
        self._root = real_path(root)

    @cached_property
    def _paths(self) -> tuple[str, ...]:
        found: list[str] = []
        for folder, folders, names in os.walk(self._root):
            folders[:] = sorted(name for name in folders if name not in _SKIPPED_FOLDERS)
            found += [(Path(folder) / name).relative_to(self._root).as_posix() for name in sorted(names)]
            if len(found) >= MAX_FOLDER_FILES:
                break
        return tuple(found[:MAX_FOLDER_FILES])

    def __getitem__(self, path: str) -> bytes:
        """Return at most one byte more than the largest eval file."""
        full = real_path(self._root / path)
        if not full.is_relative_to(self._root) or not full.is_file():
            raise KeyError(path)
        try:
            with full.open("rb") as file:
                return file.read(MAX_EVAL_BYTES + 1)
        except OSError:
            raise KeyError(path) from None

    def __iter__(self) -> Iterator[str]:
        """Yield every path, in order."""
        return iter(self._paths)

    def __len__(self) -> int:
        """Return the number of files."""
        return len(self._paths)


@dataclass(kw_only=True)
class EvalSource:
    """One eval file: its value, the files that it may name, and its problems."""

    path: str
    value: Any
    files: Mapping[str, bytes]
    text: str = ""
    lines: tuple[int, ...] = ()
    """The line of each entry, for JSON Lines."""
    strict: bool = False
    """True in our own format, in which an invalid check is a mistake, not a feature of another tool."""
    problems: list[Problem] = field(default_factory=list[Problem])
    _read: dict[str, EvalFile] = field(default_factory=dict[str, EvalFile], repr=False)
    """The files that cases have named: many may name the same one."""

    @property
    def folder(self) -> str:
        """The folder of the file, '' for the top."""
        return posixpath.dirname(self.path)

    def report(self, code: str, message: str, *at: str | int, hint: str = "", severity: Severity = "warning") -> None:
        """Note a problem at a place of the file."""
        if len(self.problems) >= MAX_PROBLEMS:
            return
        place = format_place(at)
        problem = Problem(
            code=code,
            severity=severity,
            message=f"{place}: {message}" if place else message,
            hint=hint,
            field=self.path,
            line=self.line_of(at),
        )
        # What all cases share is read once for each of them.
        if problem not in self.problems:
            self.problems.append(problem)

    def report_check(self, message: str, *at: str | int, hint: str = "") -> None:
        """Note that a check is left out."""
        severity: Severity = "error" if self.strict else "warning"
        self.report("eval-check", f"{message} The check is left out.", *at, hint=hint, severity=severity)

    def line_of(self, at: At) -> int | None:
        """Return the line of a place, or None if it is not known."""
        if self.lines:
            return self.lines[at[0]] if at and isinstance(at[0], int) else None
        node: Any = self._nodes
        if node is None:
            return None
        line = node.start_mark.line
        for step in at:
            node = _inner(node, step)
            if node is None:
                break
            line = node.start_mark.line
        return line + 1

    @cached_property
    def data(self) -> Any:
        """The value as a program reads it: `value` has numbers such as `1.10` as text, as they are in ids and messages."""
        is_yaml = self.path.endswith((".yaml", ".yml"))
        return parse_eval(self.path, self.text, _LIMITS, exact=False) if is_yaml else self.value

    @cached_property
    def _nodes(self) -> Any:
        """The file as YAML nodes, which know their lines. JSON is nearly YAML. The depth was checked before."""
        import yaml

        parser: Any = yaml
        try:
            return parser.compose(self.text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        except (yaml.YAMLError, ValueError):
            return None

    def read_file(self, written: Any, *at: str | int, folders: tuple[str, ...] = ("",)) -> EvalFile | None:
        """Return the text of a file that a case names, looked for in each of these folders; None, with a problem, if unusable."""
        if not isinstance(written, str) or not written.strip():
            self._refuse_file("A file must be named by its path.", at)
            return None
        paths = [inside for folder in folders if (inside := resolve(folder, written)) is not None]
        if not paths:
            self._refuse_file(f"{written[:200]!r} is outside the skill's folder.", at)
            return None
        for path in paths:
            if path in self._read:
                return self._read[path]
            try:
                data = self.files[path]
            except KeyError:
                continue
            return self._decode(path, data, at)
        self._refuse_file(f"The file {written[:200]!r} does not exist.", at)
        return None

    def _decode(self, path: str, data: bytes, at: At) -> EvalFile | None:
        if len(data) > MAX_INPUT_BYTES:
            self._refuse_file(f"{path!r} has more than {MAX_INPUT_BYTES // KIB} KiB.", at)
            return None
        try:
            self._read[path] = EvalFile(path=path, text=data.decode("utf-8-sig"))
        except UnicodeDecodeError:
            self._refuse_file(f"{path!r} is not text, so it cannot be part of a message.", at)
            return None
        return self._read[path]

    def _refuse_file(self, message: str, at: At) -> None:
        hint = "Name a text file inside the skill's folder."
        self.report("eval-file", f"{message} The case is skipped.", *at, hint=hint)


def resolve(folder: str, written: str) -> str | None:
    """Return the path of a file inside the root, or None if it leads out."""
    plain = written.strip().replace("\\", "/")
    path = posixpath.normpath(posixpath.join("/", folder, plain)).lstrip("/")
    outside = plain.startswith(("/", "~")) or ":" in plain.partition("/")[0] or "\0" in plain
    climbs = posixpath.normpath(posixpath.join(folder, plain)).startswith("..")
    return None if outside or climbs or not path or path == "." else path


def open_source(path: str, data: bytes, files: Mapping[str, bytes]) -> EvalSource | Problem:
    """Parse a JSON, JSON Lines or YAML file; return the problem if that fails."""
    if len(data) > MAX_EVAL_BYTES:
        return _unreadable(path, f"The file has more than {MAX_EVAL_BYTES // MIB} MiB.", "Split it into several files.")
    try:
        text = data.decode("utf-8-sig")
        value = _parse(path, text)
    except (ValueError, RecursionError) as fault:
        line = getattr(fault, "lineno", None)
        why = "it is nested too deeply" if isinstance(fault, RecursionError) else str(fault).rstrip(".")
        return _unreadable(path, f"The file is not valid {_language(path)}: {why}.", "Fix the file.", line)
    if measure_depth(value, limit=MAX_DEPTH) > MAX_DEPTH:
        return _unreadable(path, f"The file is nested more than {MAX_DEPTH} levels deep.", "Use a flatter structure.")
    lines = tuple(number for number, _ in _entry_lines(text)) if path.endswith(".jsonl") else ()
    return EvalSource(path=path, value=value, files=files, text=text, lines=lines)


def open_file(path: str, files: Mapping[str, bytes]) -> EvalSource | Problem:
    """Return the file that another one names, parsed; the problem if that fails."""
    try:
        data = files[path]
    except KeyError:
        hint = "Replace a link that is broken, or that leads out of the folder, with the file itself."
        return _unreadable(path, f"The file {path[:200]!r} cannot be read.", hint)
    return open_source(path, data, files)


def _parse(path: str, text: str) -> Any:
    if path.endswith(".jsonl"):
        return [_parse_line(line, number) for number, line in _entry_lines(text)]
    return parse_eval(path, text, _LIMITS)


def _entry_lines(text: str) -> list[tuple[int, str]]:
    # Not `splitlines`: JSON strings may contain U+2028, at which it splits.
    return [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]


def _parse_line(line: str, number: int) -> Any:
    try:
        return parse_json(line)
    except ValueError as fault:
        raise ValueError(f"line {number}: {fault}") from None


def _language(path: str) -> str:
    return {"json": "JSON", "jsonl": "JSON Lines"}.get(path.rpartition(".")[2], "YAML")


def _unreadable(path: str, message: str, hint: str, line: int | None = None) -> Problem:
    return Problem(code="eval-unreadable", severity="error", message=message, hint=hint, field=path, line=line)


def _inner(node: Any, step: str | int) -> Any:
    """Return the node of a list item or of a key's value; None if there is none."""
    children = json_list(node.value)
    if isinstance(step, int):
        return children[step] if step < len(children) and not isinstance(children[step], tuple) else None
    pairs = [cast("tuple[Any, Any]", child) for child in children if isinstance(child, tuple)]
    return next((value for key, value in pairs if key.value == step), None)


def format_place(at: At) -> str:
    """Return a place as people write it, such as `evals[2].files`; positions count from 0, as in JSON paths."""
    written = "".join(f"[{step}]" if isinstance(step, int) else f".{step[:60]}" for step in at)
    return f"`{written.removeprefix('.')}`" if written else ""


def as_object(value: Any) -> JsonObject | None:
    """Return the value if it is an object."""
    return cast("JsonObject", value) if isinstance(value, dict) else None


def as_list(value: Any) -> list[Any]:
    """Return a list, or the list of a single value; empty for None."""
    if value is None:
        return []
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def as_text(value: Any) -> str:
    """Return text and numbers as text, anything else as ''."""
    if isinstance(value, str):
        return value.strip()
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else ""


def as_number(value: Any) -> float | None:
    """Return a number, also one that was written as text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def read_schema(source: EvalSource, written: Any, at: At, folders: tuple[str, ...]) -> Any:
    """Return the JSON Schema in a file; None, with a problem, if it cannot be read."""
    file = source.read_file(written, *at, folders=folders)
    opened = open_source(file.path, file.text.encode(), source.files) if file else None
    if isinstance(opened, Problem):
        source.problems.append(opened)
        return None
    return opened.value if opened else None
