"""Find the place of a problem in the files of a skill, for an editor that underlines it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from prowess.errors import Problem
from prowess.skill.filenames import find_document
from prowess.skill.forms.form import Reading
from prowess.skill.package import Package


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
    number = problem.line or _find_line(problem, reading)
    number = min(max(number, 1), max(len(lines), 1))
    text = lines[number - 1] if lines else ""
    start = _find_start(text, problem.field or "")
    end = len(text.rstrip())
    return Position(
        path=path, line=number, column=_units(text[:start]) + 1, end_column=_units(text[: max(start, end)]) + 1
    )


def _find_path(problem: Problem, reading: Reading) -> str:
    field, package = problem.field or "", reading.package
    if package.get(field) is not None:
        return field
    artifacts = reading.skill.artifacts if reading.skill else ()
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


def _find_line(problem: Problem, reading: Reading) -> int:
    """Return the line of the field in the frontmatter; 1 if it has none."""
    lines: Mapping[str, int] = reading.document.lines if reading.document else {}
    field = problem.field or ""
    # `metadata.tags` and `artifacts[2]` are inside a field of the first level.
    outer = field.partition(".")[0].partition("[")[0]
    return lines.get(field) or lines.get(outer) or 1


def _find_start(text: str, field: str) -> int:
    """Return where the value of a field begins in its line; without a value, or for another line, where the text does."""
    begin = len(text) - len(text.lstrip())
    key, colon, value = text.partition(":")
    if not colon or not field or key.strip().strip("\"'") != field.partition(".")[0] or not value.strip():
        return begin
    return len(key) + 1 + len(value) - len(value.lstrip())


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
