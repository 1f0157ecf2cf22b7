"""Writing what a run produced into a folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from prowess.errors import Conflict
from prowess.interfaces.cli.printing import one_line, shown_path

if TYPE_CHECKING:
    from prowess.run.outcome import RunResult
    from prowess.run.producing import Produced
    from prowess.skill.model import Skill


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    """Where produced files go; nowhere without a folder. With `force`, what is there already is replaced."""

    folder: Path | None
    force: bool = False

    def check(self, skill: Skill) -> None:
        """`Conflict` for the first file that is there already, before anything is asked or paid."""
        from prowess.run.producing import declared_by

        if self.folder is None or self.force:
            return
        for _, name in declared_by(skill):
            if name and os.path.lexists(self.folder / name):
                raise _taken(self.folder / name)

    def save(self, result: RunResult, skill: Skill) -> None:
        """Write the produced files, each under its plain name, and say of each declared one that it was not written.

        `Conflict` for a file that is there already.
        """
        from prowess.run.producing import declared_by

        if self.folder is None:
            return
        written = _write_all(result.produced, self.folder, force=self.force)
        declared = declared_by(skill)
        for name, reason in _left_out(declared, written):
            click.echo(f"Not written: {one_line(name, 80) or 'one without a name'}, since {reason}.", err=True)
        if not declared:
            click.echo("The skill says of nothing that it produces it, so nothing was saved.", err=True)


def _write_all(produced: Sequence[Produced], folder: Path, *, force: bool) -> set[str]:
    """Write each, the first of those that have one name; the names that are written."""
    written: set[str] = set()
    if produced:
        folder.mkdir(parents=True, exist_ok=True)
    for one in produced:
        if one.name not in written:
            _write(folder / one.name, one.content, force=force)
            written.add(one.name)
            click.echo(f"Wrote {shown_path(folder / one.name)} ({one_line(one.media_type, 80)}).", err=True)
    return written


def _left_out(declared: tuple[tuple[str, str], ...], written: set[str]) -> list[tuple[str, str]]:
    """The declared names without a file of their own, and why."""
    left: list[tuple[str, str]] = []
    seen: set[str] = set()
    for given, name in declared:
        if name in seen:
            left.append((given, f"another one is called {name}"))
        elif not name:
            left.append((given, "it is no plain name of a file, or there are too many"))
        elif name not in written:
            left.append((given, "the run did not give it"))
        seen.add(name or given)
    return left


def _write(target: Path, content: str, *, force: bool) -> None:
    if force and target.is_symlink():
        target.unlink()  # a link must not lead the write elsewhere
    try:
        with target.open("w" if force else "x", encoding="utf-8") as file:
            file.write(content)
    except FileExistsError:
        raise _taken(target) from None


def _taken(target: Path) -> Conflict:
    return Conflict(
        f"{shown_path(target)} is there already.", hint="Add --force to replace it, or save into another folder."
    )
