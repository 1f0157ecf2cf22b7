"""Write a changed skill back as files, and show what changed between two packages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from prowess.lazy_dataclass import dataclass
from prowess.patterns import lazy_pattern
from prowess.skill.kinds import FrozenModel
from prowess.skill.limits import DEFAULT_LIMITS, Limits
from prowess.skill.model import Skill
from prowess.skill.package import File, Package

if TYPE_CHECKING:
    from difflib import SequenceMatcher

_MAX_DIFF_BYTES = 512 * 1024
_MAX_DIFF_STEPS = 5_000_000
"""How many pairs of equal lines may be looked at in one package, which takes about a second."""
_CONTEXT_LINES = 3
UNSHOWN = "binary or too large to show: "
"""How the text of a change begins whose new content it does not show. No line of a diff does."""
# `splitlines` also splits at form feeds, U+2028 and others, which are not line ends in a diff.
_LINE = lazy_pattern(r"[^\n]*\n|[^\n]+")


class FileChange(FrozenModel):
    """One file that differs. `text` is a unified diff, or a sentence if the content is not text."""

    path: str
    change: Literal["added", "removed", "changed", "mode"]
    text: str = ""


def diff_packages(before: Package, after: Package) -> list[FileChange]:
    """Return every difference between two packages, sorted by path.

    A file that was only moved is shown in full at its new path: there, its text may be code that somebody has to accept.
    """
    paths = sorted({*before.paths, *after.paths})
    left = _StepsLeft(_MAX_DIFF_STEPS)
    added = {
        file.content: file.path for file in reversed(after.files) if file.content and before.get(file.path) is None
    }
    changes: list[FileChange] = []
    for path in paths:
        old, new = before.get(path), after.get(path)
        if old is not None and new is None and old.content in added:
            changes.append(FileChange(path=path, change="removed", text=f"moved to {added[old.content]}\n"))
        elif change := _compare_file(path, old, new, left):
            changes.append(change)
    return changes


@dataclass(slots=True)
class _StepsLeft:
    """What is left of the steps for one package."""

    count: int


def _compare_file(path: str, before: File | None, after: File | None, left: _StepsLeft) -> FileChange | None:
    if before is None or after is None:
        return FileChange(
            path=path, change="added" if before is None else "removed", text=_unified_diff(path, before, after, left)
        )
    if before.content != after.content:
        return FileChange(path=path, change="changed", text=_unified_diff(path, before, after, left))
    if before.mode != after.mode:
        return FileChange(path=path, change="mode", text=f"mode {before.mode} → {after.mode}")
    return None


def _unified_diff(path: str, before: File | None, after: File | None, left: _StepsLeft) -> str:
    old, new = _text_lines(before), _text_lines(after)
    if old is None or new is None:
        if before and not after:
            return f"{len(before.content):,} bytes, binary or too large to show"
        sizes = [f"{len(file.content):,} bytes" if file else "nothing" for file in (before, after)]
        return f"{UNSHOWN}{sizes[0]} → {sizes[1]}"
    names = (f"a/{path}" if before else "/dev/null", f"b/{path}" if after else "/dev/null")
    lines = _diff_lines(old, new, left)
    text = "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
    return f"--- {names[0]}\n+++ {names[1]}\n{text}" if text else ""


def _diff_lines(old: list[str], new: list[str], left: _StepsLeft) -> Iterator[str]:
    """Yield the hunks of a unified diff."""
    for group in _make_matcher(old, new, left).get_grouped_opcodes(_CONTEXT_LINES):
        _, old_start, _, new_start, _ = group[0]
        _, _, old_end, _, new_end = group[-1]
        yield f"@@ -{_format_range(old_start, old_end)} +{_format_range(new_start, new_end)} @@\n"
        for kind, first, last, new_first, new_last in group:
            if kind == "equal":
                yield from (f" {line}" for line in old[first:last])
                continue
            yield from (f"-{line}" for line in old[first:last])
            yield from (f"+{line}" for line in new[new_first:new_last])


def _format_range(start: int, end: int) -> str:
    """Return a range of lines as diffs write it: an empty one starts at the line before."""
    length = end - start
    return str(start + 1) if length == 1 else f"{start + 1 if length else start},{length}"


def _make_matcher(old: list[str], new: list[str], left: _StepsLeft) -> SequenceMatcher[str]:
    """Return what compares the lines. Once no steps are left, the lines not yet compared count as replaced.

    Without a limit, two files of 40 KB with the same hundred lines in another order took minutes.
    """
    import difflib  # only where something is compared

    class LimitedMatcher(difflib.SequenceMatcher[str]):
        def find_longest_match(
            self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None
        ) -> difflib.Match:
            # Each line is compared with all its equals in the new text, wherever they are.
            equals: dict[str, list[int]] = vars(self)["b2j"]
            left.count -= sum(len(equals.get(line, ())) + 1 for line in old[alo:ahi])
            if left.count < 0:
                return difflib.Match(alo, blo, 0)
            return super().find_longest_match(alo, ahi, blo, bhi)

    return LimitedMatcher(None, old, new)


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
