"""Find the place of a problem in the files of a skill, for an editor that underlines it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from prowess.errors import Problem
from prowess.skill.filenames import SIDECAR, find_document
from prowess.skill.forms.form import Reading
from prowess.skill.package import Package

_KEY = re.compile(r"[\w-]+(?=\s*:)")
_IN_SIDECAR = frozenset({"duplicate-artifact", "fallback-cycle", "unknown-fallback"})
"""Problems of artifacts that are never in the artifact's own file."""
_ENTRY = re.compile(r"artifacts\[(\d+)\](?:\.([\w-]+))?.*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A part of one line of a file. Lines and columns are counted from 1; `end_column` is the one after the last.

    Columns count UTF-16 code units, as editors in browsers and language servers do.
    """

    path: str
    line: int
    column: int
    end_column: int


def locate_problem(problem: Problem, reading: Reading) -> Position:
    """Return where a problem is: its line, the line of its field, or else the first line of the document."""
    path = _find_path(problem, reading)
    lines = _read_lines(reading.package, path)
    number = problem.line or _find_line(problem, reading, path) or 1
    number = min(max(number, 1), max(len(lines), 1))
    text = lines[number - 1] if lines else ""
    start = _find_start(text, problem.field or "")
    end = len(text.rstrip())
    return Position(
        path=path, line=number, column=_units(text[:start]) + 1, end_column=_units(text[: max(start, end)]) + 1
    )


def format_place(problem: Problem, reading: Reading) -> str:
    """Return the file and line of a problem as far as they are known, then its field unless the message has it."""
    path, field = _find_path(problem, reading), problem.field or ""
    line = problem.line or _find_line(problem, reading, path)
    if line is None and problem.message.startswith(f"{path}: "):
        return ""
    place = f"{path}:{line}" if line else path
    return place if not field or field == path or field in problem.message else f"{place}: {field}"


def _find_path(problem: Problem, reading: Reading) -> str:
    field, package = problem.field or "", reading.package
    if package.get(field) is not None:
        return field
    artifacts = reading.skill.artifacts if reading.skill else ()
    if package.get(SIDECAR) is not None and _is_in_sidecar(problem, reading):
        return SIDECAR
    named = next(
        (
            artifact.path
            for artifact in artifacts
            if field and artifact.path and field in (artifact.name, artifact.path)
        ),
        None,
    )
    if named is not None and package.get(named) is not None:
        return named
    document = find_document(reading.form, package)
    return document.path if document else next(iter(package.paths), "")


def _read_lines(package: Package, path: str) -> list[str]:
    file = package.get(path)
    # Only line feeds end a line here, as in every editor: `splitlines` also splits at form feeds and the like.
    text = file.content.decode("utf-8", "replace").removeprefix("\ufeff") if file else ""
    return text.replace("\r\n", "\n").split("\n")


def _is_in_sidecar(problem: Problem, reading: Reading) -> bool:
    if SIDECAR in problem.message or problem.code in _IN_SIDECAR:
        return True
    field = problem.field or ""
    outer = _outer_field(field)
    if reading.document and (field in reading.document.lines or outer in reading.document.lines):
        return False
    names = {artifact.name for artifact in reading.skill.artifacts} if reading.skill else set[str]()
    # The settings of an artifact, such as `check.assertions[0]`, are in the sidecar; its content is in its own file.
    return outer in _find_sidecar_fields(reading.package) or (outer in names and outer != field)


def _outer_field(field: str) -> str:
    """Return the field of the first level: `metadata.tags` and `artifacts[2]` are inside one."""
    return field.partition(".")[0].partition("[")[0]


def _find_sidecar_fields(package: Package) -> dict[str, int]:
    """Return the line of each field of the first level in the sidecar."""
    lines = _read_lines(package, SIDECAR)
    return {found[0]: number for number, line in enumerate(lines, 1) if (found := _KEY.match(line))}


def _find_line(problem: Problem, reading: Reading, path: str) -> int | None:
    """Return the line of the field in the frontmatter or the sidecar, or None if it has none."""
    field = problem.field or ""
    if path == SIDECAR:
        if entry := _ENTRY.fullmatch(field):
            return _find_entry_line(_read_lines(reading.package, path), int(entry[1]), entry[2] or "")
        return _find_sidecar_fields(reading.package).get(_outer_field(field))
    lines: Mapping[str, int] = reading.document.lines if reading.document else {}
    return lines.get(field) or lines.get(_outer_field(field))


def _find_entry_line(lines: list[str], position: int, name: str) -> int | None:
    """Return the line of an entry of `artifacts` that is written as a block, or of a name in it."""
    start = next((number for number, line in enumerate(lines) if line.startswith("artifacts:")), len(lines))
    dash, seen = "", -1
    for number, line in enumerate(lines[start + 1 :], start + 2):
        if line.lstrip().startswith("- ") and (not dash or line.startswith(dash)):
            dash = dash or line[: line.index("-") + 1]
            seen += 1
        elif line[:1].strip():
            return None
        if seen == position and (not name or line.lstrip(" -").startswith(f"{name}:")):
            return number
    return None


def _find_start(text: str, field: str) -> int:
    """Return where the value of a field starts in its line; without a value, or for another line, where the text does."""
    begin = len(text) - len(text.lstrip())
    key, colon, value = text.partition(":")
    if not colon or not field or key.strip().strip("\"'") != field.partition(".")[0] or not value.strip():
        return begin
    return len(key) + 1 + len(value) - len(value.lstrip())


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
