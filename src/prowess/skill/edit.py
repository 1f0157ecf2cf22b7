"""Write a changed skill back as files, and show what changed between two packages."""

from __future__ import annotations

from typing import Literal

from prowess.patterns import lazy_pattern
from prowess.skill.kinds import FrozenModel
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.model import Skill
from prowess.skill.package import File, Package

_MAX_DIFF_BYTES = 512 * 1024
# `splitlines` also splits at form feeds, U+2028 and others, which are not line ends in a diff.
_LINE = lazy_pattern(r"[^\n]*\n|[^\n]+")


class FileChange(FrozenModel):
    """One file that differs. `text` is a unified diff, or a sentence if the content is not text."""

    path: str
    change: Literal["added", "removed", "changed", "mode"]
    text: str = ""


def diff_packages(before: Package, after: Package) -> list[FileChange]:
    """Return every difference between two packages, sorted by path."""
    paths = sorted({*before.paths, *after.paths})
    changes = (_compare_file(path, before.get(path), after.get(path)) for path in paths)
    return [change for change in changes if change is not None]


def _compare_file(path: str, before: File | None, after: File | None) -> FileChange | None:
    if before is None or after is None:
        return FileChange(
            path=path, change="added" if before is None else "removed", text=_unified_diff(path, before, after)
        )
    if before.content != after.content:
        return FileChange(path=path, change="changed", text=_unified_diff(path, before, after))
    if before.mode != after.mode:
        return FileChange(path=path, change="mode", text=f"mode {before.mode} → {after.mode}")
    return None


def _unified_diff(path: str, before: File | None, after: File | None) -> str:
    old, new = _text_lines(before), _text_lines(after)
    if old is None or new is None:
        sizes = [f"{len(file.content):,} bytes" if file else "nothing" for file in (before, after)]
        return f"binary or too large to show: {sizes[0]} → {sizes[1]}"
    names = (f"a/{path}" if before else "/dev/null", f"b/{path}" if after else "/dev/null")
    import difflib  # only where something is compared

    lines = difflib.unified_diff(old, new, *names)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _text_lines(file: File | None) -> list[str] | None:
    """Return the lines of a text file; [] for no file, None for a file that is not text or too large to compare."""
    if file is None:
        return []
    from prowess.skill.text.reader import readable_text  # imports the YAML parser, which a list does not need

    text = readable_text(file.content) if len(file.content) <= _MAX_DIFF_BYTES else None
    return None if text is None or "\x00" in text else _LINE.findall(text)


def rewrite_package(skill: Skill, package: Package | None = None, limits: Limits = DEFAULT_LIMITS) -> Package:
    """Return the skill as a native folder, with as few changes as possible; a Devai folder stays one if it can hold everything.

    `package` has the files that the skill was read from, in whatever form. Files that are not artifacts stay. The file of an
    unchanged artifact keeps its bytes, and the file of a removed artifact is removed. SKILL.md stays byte for byte the same if
    its content did not change; if only the body changed, the frontmatter stays; if a field changed, the other lines stay. A skill
    without changes keeps all its files.
    """
    # The writers of all forms; comparing packages, which reading commands do, needs none of them.
    from prowess.skill.forms.conversion import is_unchanged, read_original, with_file_claims, write_package
    from prowess.skill.forms.native import render_folder

    original = read_original(package, skill, limits)
    skill = with_file_claims(skill, original)
    if package is not None and is_unchanged(skill, original):
        return package
    # Agents that write skills, and people who read them, expect skill.json and one file of code.
    if skill.form == "devai":
        written = write_package(skill, package or Package(name="", files=()), "devai", limits)
        if not written.left_out:
            return written.package
    return Package.written(skill.name, render_folder(skill, original, standard_only=False))
