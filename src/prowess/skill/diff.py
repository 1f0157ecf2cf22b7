"""What changed between two packages, file by file."""

from __future__ import annotations

import difflib
import re
from typing import Literal

from prowess.skill.kinds import Value
from prowess.skill.package import File, Package

_DIFF_LIMIT = 512 * 1024
_ENDED = re.compile(r"[^\n]*\n|[^\n]+")


class FileChange(Value):
    """One file that differs. `text` is a unified diff, or one sentence where the content is not text."""

    path: str
    change: Literal["added", "removed", "changed", "mode"]
    text: str = ""


def diff_packages(before: Package, after: Package) -> list[FileChange]:
    """Every difference between two packages, by path."""
    paths = sorted({*before.paths, *after.paths})
    changes = (_change(path, before.get(path), after.get(path)) for path in paths)
    return [change for change in changes if change is not None]


def _change(path: str, before: File | None, after: File | None) -> FileChange | None:
    if before is None or after is None:
        return FileChange(
            path=path, change="added" if before is None else "removed", text=_unified(path, before, after)
        )
    if before.content != after.content:
        return FileChange(path=path, change="changed", text=_unified(path, before, after))
    if before.mode != after.mode:
        return FileChange(path=path, change="mode", text=f"mode {before.mode} → {after.mode}")
    return None


def _unified(path: str, before: File | None, after: File | None) -> str:
    old, new = _lines(before), _lines(after)
    if old is None or new is None:
        sizes = [f"{len(file.content):,} bytes" if file else "nothing" for file in (before, after)]
        return f"not shown as text: {sizes[0]} → {sizes[1]}"
    names = (f"a/{path}" if before else "/dev/null", f"b/{path}" if after else "/dev/null")
    lines = difflib.unified_diff(old, new, *names)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _lines(file: File | None) -> list[str] | None:
    """The lines of a text file, [] for no file, None for what is not text or too large to compare."""
    if file is None:
        return []
    if len(file.content) > _DIFF_LIMIT or b"\x00" in file.content:
        return None
    try:
        return _ENDED.findall(file.content.decode())
    except UnicodeDecodeError:
        return None
