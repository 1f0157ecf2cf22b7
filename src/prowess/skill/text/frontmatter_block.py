"""Find the frontmatter of a markdown file, however it is marked, and split it into its top-level keys without YAML."""

from __future__ import annotations

import re
from dataclasses import field, replace
from typing import Any

from prowess.errors import Problem
from prowess.lazy_dataclass import dataclass
from prowess.patterns import lazy_pattern
from prowess.skill.text.diagnosis import fold_lines, is_block_indicator
from prowess.skill.text.document import YAML_HINTS, ReadMethod, make_problem

# A colon counts only before white space: `https://x` is text.
KEY_LINE = lazy_pattern(r"([\"']?)([^\W\d][\w.-]*|<<)\1[ \t]*:(?=[ \t]|$)[ \t]*")
"""A key at the start of a line."""

END_MARKER = lazy_pattern(r"^(?:---+|\.\.\.)[ \t\r]*$", re.MULTILINE)
"""A line that closes the frontmatter."""

_KNOWN = r"name|description|title|version|license|author|tags|metadata|allowed-tools|compatibility|homepage"
_KNOWN_KEY = lazy_pattern(rf"^(?:{_KNOWN})[ \t]*:(?:[ \t]|$)", re.MULTILINE | re.IGNORECASE)
_OPEN = lazy_pattern(r"---+[ \t]*\n")
_BLANK = lazy_pattern(r"(?:[ \t]*\n)*")
_SPACE = lazy_pattern(r"[ \t\n]*")
_COMMENT = lazy_pattern(r"[ \t]*<!--")
_FENCE = lazy_pattern(r"[ \t]*(```+|~~~+)[ \t]*(?:(?:ya?ml|markdown|md|skill)[ \t]*)?\n(?=(?:[ \t]*\n)*---+[ \t]*\n)")
# Most `---` lines below the top of a file are rules. Only one with a name or a description right below it can open
# frontmatter.
_LATER = lazy_pattern(r"^---[ \t]*\n(?=(?:[^\n]*\n){0,6}?[ \t]*[\"']?(?:name|description)[\"']?[ \t]*:)", re.MULTILINE)
_BARE = lazy_pattern(r"(?:name|description|title)[ \t]*:(?:[ \t]|$)", re.MULTILINE | re.IGNORECASE)
_GLUED = lazy_pattern(r"^---+(?=[^\s-])", re.MULTILINE)
_LINE = lazy_pattern(r"([^\n]*)(?:\n|\Z)")
_COMMENTS = lazy_pattern(r"(?:#[^\n]*(?:\n|\Z))++")
_HEADING_LINE = lazy_pattern(r"^#{1,6} ", re.MULTILINE)
_HEADING = lazy_pattern(r"\s*#{1,6} ")
# Frontmatter is looked for in the first 40 lines: one of the rules that recovered 99.8 % of the files surveyed.
_PROSE = lazy_pattern(r"(?:[^\n]*\n){0,40}")


@dataclass(frozen=True, slots=True)
class FrontmatterBlock:
    """The frontmatter is text[start:end]; the body starts at `body`, after the text before `lead`."""

    start: int
    end: int
    body: int
    lead: int = 0
    problems: tuple[Problem, ...] = ()


def normalize_line_ends(text: str) -> str:
    """Return the text with plain line ends and every character at the same position."""
    # A space for each CR: positions found in this text must be valid in the original.
    return text.replace("\r\n", " \n").replace("\r", "\n") if "\r" in text else text


def line_number(text: str, position: int) -> int:
    """Return the line of a position, counted from 1."""
    return text.count("\n", 0, position) + 1


def find_block(text: str) -> FrontmatterBlock | None:
    """Return the frontmatter of a text with normalized line ends, or None."""
    position, problems = _skip_leading(text)
    opened = _OPEN.match(text, position)
    lead = 0
    if not opened:
        # No marker at the top: keys without one, or frontmatter that starts after some text.
        if _BARE.match(text, position):
            return _unopened_block(text, position, problems)
        opened = _LATER.search(text, 0, _skip(_PROSE, text, 0))
        if not opened:
            return None
        lead = opened.start()
        message = f"There is text before the frontmatter, which starts on line {line_number(text, lead)}."
        problems = [make_problem("text-before-frontmatter", message, _FIRST_LINE_HINT, line=1)]
    if len(opened[0].rstrip()) > 3:
        problems.append(_marker_problem(text, opened.start(), opened[0]))
    block = _find_end(text, opened.end())
    if block is None:
        return None
    return replace(block, lead=lead, problems=(*problems, *block.problems))


_FIRST_LINE_HINT = "Make --- the first line of the file, and move everything before it below the frontmatter."


def _problem_at(text: str, position: int, code: str, message: str, hint: str) -> Problem:
    return make_problem(code, message, hint, line=line_number(text, position))


def _marker_problem(text: str, position: int, found: str) -> Problem:
    message = f"The marker is {found.strip()[:20]!r} instead of '---'."
    return _problem_at(text, position, "marker-form", message, "Write exactly three hyphens.")


def _skip_leading(text: str) -> tuple[int, list[Problem]]:
    """Skip blank lines, comments and an opening fence before the marker."""
    problems: list[Problem] = []
    position = _skip(_BLANK, text, 0)
    if position:
        problems.append(
            _problem_at(
                text, 0, "blank-before-frontmatter", "There are blank lines before the frontmatter.", _FIRST_LINE_HINT
            )
        )
    commented = False
    while _COMMENT.match(text, position):
        closed = text.find("-->", position)
        if closed < 0:
            break
        if not commented:
            found = "There is an HTML comment before the frontmatter."
            problems.append(_problem_at(text, position, "comment-before-frontmatter", found, _FIRST_LINE_HINT))
        commented = True
        position = _skip(_SPACE, text, closed + 3)
    fence = _FENCE.match(text, position)
    if fence:
        hint = "Remove the opening and the closing fence."
        found = "The frontmatter is wrapped in a code fence."
        problems.append(_problem_at(text, position, "fenced-frontmatter", found, hint))
        position = _skip(_SPACE, text, fence.end())
    return position, problems


def _skip(pattern: re.Pattern[str], text: str, position: int) -> int:
    found = pattern.match(text, position)
    return found.end() if found else position


def _find_end(text: str, start: int) -> FrontmatterBlock | None:
    """Return the block that starts at `start`, up to the first closing line; None if `---` was a horizontal rule."""
    end = END_MARKER.search(text, start)
    # `---# Title` closes the frontmatter if no known key follows; otherwise it is part of a value.
    glued = _GLUED.search(text, start, end.start() if end else len(text))
    if glued and (not end or _is_body(text, glued.end(), end.start())):
        return _block_with_glued_end(text, start, glued)
    if not end:
        block = unclosed_block(text, start)
        return block if block.end > block.start else None
    problems = (_marker_problem(text, end.start(), end[0]),) if end[0].rstrip() != "---" else ()
    return FrontmatterBlock(start, end.start(), min(end.end() + 1, len(text)), problems=problems)


def _block_with_glued_end(text: str, start: int, glued: re.Match[str]) -> FrontmatterBlock:
    message = "Text follows the closing --- on the same line."
    found = _problem_at(text, glued.start(), "text-after-marker", message, "Add a line break after the three hyphens.")
    return FrontmatterBlock(start, glued.start(), glued.end(), problems=(found,))


def _is_body(text: str, start: int, end: int) -> bool:
    return not _KNOWN_KEY.search(text, start, end)


def unclosed_block(text: str, start: int) -> FrontmatterBlock:
    """Return the block without an end marker: the lines from `start` that can be frontmatter."""
    end = find_keys_end(text, start)
    message = "The frontmatter is never closed."
    found = _problem_at(text, end, "frontmatter-not-closed", message, "Add a line with exactly --- after the last key.")
    return FrontmatterBlock(start, end, end, problems=(found,))


def shorten_block(text: str, block: FrontmatterBlock) -> FrontmatterBlock | None:
    """Return the same frontmatter as never closed, if the closing marker is more likely a rule in the body."""
    if not _HEADING_LINE.search(text, block.start, block.end):
        return None
    end = find_keys_end(text, block.start)
    # Each test guards a case in which the marker is real: nothing was cut off, no known key before it, keys after the cut.
    if end >= block.end or not _KNOWN_KEY.search(text, block.start, end):
        return None
    if not _is_body(text, end, block.end) or not text[end : block.end].strip():
        return None
    if not _HEADING.match(text, end):
        return None
    return replace(unclosed_block(text, block.start), lead=block.lead)


def _unopened_block(text: str, start: int, problems: list[Problem]) -> FrontmatterBlock:
    """Return the block of keys at the top of the file without a marker before them."""
    end = find_keys_end(text, start)
    message = "The opening --- line of the frontmatter is missing."
    found = _problem_at(
        text, start, "frontmatter-not-opened", message, "Add a line with exactly --- before the first key."
    )
    closed = END_MARKER.match(text, end)
    body = min(closed.end() + 1, len(text)) if closed else end
    return FrontmatterBlock(start, end, body, problems=(*problems, found))


def find_keys_end(text: str, start: int) -> int:
    """Return the end of the lines from `start` that are keys or belong to one."""
    end = position = start
    blank = False
    while position < len(text):
        line = _LINE.match(text, position)
        if line is None:
            break
        after = line.end() if _continues_keys(line[1], blank) else _comments_end(text, position, blank)
        if after is None:
            break
        position = after
        blank = not line[1].strip()
        if not blank:
            end = position
    return end


def _continues_keys(line: str, after_blank: bool) -> bool:
    if not line.strip() or line[0] in " \t":
        return True
    # After a blank line, "Note: …" is more likely prose than a key; only known keys count there.
    if after_blank:
        return bool(_KNOWN_KEY.match(line))
    return bool(KEY_LINE.match(line)) or line.startswith("- ")


def _comments_end(text: str, position: int, after_blank: bool) -> int | None:
    """Return where the comments at a position end, or None for a heading. Comments lead to a key or to the end marker."""
    comments = _COMMENTS.match(text, position)
    if comments is None:
        return None
    end = comments.end()
    # After a blank line, a heading with a rule below it is more likely the body.
    return end if KEY_LINE.match(text, end) or (not after_blank and END_MARKER.match(text, end)) else None


MAX_FAULTS = 50
"""The maximum number of faults reported for one file."""

# Not by exclusion: `re` takes milliseconds to compile a class that reaches to the last code point.
_UNREADABLE = lazy_pattern("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufeff\ufffe\uffff]")
_CONFLICT = lazy_pattern(r"(?:<{7}|={7}|>{7})(?:\s|\Z)")


@dataclass(slots=True)
class ReadFields:
    """The fields read so far, with their lines in the file and the problems."""

    fields: dict[str, Any] = field(default_factory=dict[str, Any])
    lines: dict[str, int] = field(default_factory=dict[str, int])
    problems: list[Problem] = field(default_factory=list[Problem])
    how: ReadMethod = "repaired"


@dataclass(slots=True)
class FrontmatterEntry:
    """A top-level key with the lines that belong to it."""

    key: str
    line: int
    rows: list[str]

    @property
    def prefix(self) -> str:
        """The key with its colon, as written."""
        found = KEY_LINE.match(self.rows[0])
        return found[0] if found else ""

    @property
    def value(self) -> str:
        """The text after the colon."""
        return self.rows[0][len(self.prefix) :].strip()

    @property
    def below(self) -> list[str]:
        """The following rows, without comments."""
        return [row for row in self.rows[1:] if not row.startswith("#")]


def scan_entries(raw: str, first_line: int) -> ReadFields:
    """Read frontmatter as lines of `key: text`, without YAML."""
    # Both helpers report into throwaway results: the caller reports that the block is too large, which is the one thing
    # to fix.
    result = ReadFields(how="scanned")
    for entry in split_entries(clean_rows(raw, first_line, ReadFields()), first_line, ReadFields()):
        result.fields[entry.key] = entry_text(entry)
        result.lines[entry.key] = entry.line
    return result


def clean_rows(raw: str, first_line: int, result: ReadFields) -> list[str]:
    """Return the lines without characters that YAML does not allow, dedented so that keys start in column 0."""
    text = raw.replace("\r\n", "\n").replace("\r", "\n")
    bad = _UNREADABLE.search(text)
    if bad:
        line = text.count("\n", 0, bad.start()) + first_line
        message = f"The character U+{ord(bad[0]):04X} is not allowed in YAML."
        result.problems.append(make_problem("yaml-character", message, "Remove this character.", line=line))
        text = _UNREADABLE.sub("", text)
    rows = text.split("\n")
    marked = {index for index, row in enumerate(rows) if _CONFLICT.match(row)}
    if marked:
        message = "The frontmatter contains merge conflict markers."
        hint = "Resolve the merge conflict: keep one side, and remove the <<<<<<<, ======= and >>>>>>> lines."
        result.problems.append(make_problem("merge-conflict", message, hint, line=min(marked) + first_line))
        # Blanked and not removed, so that the lines in later problems stay lines of the file.
        rows = ["" if index in marked else row for index, row in enumerate(rows)]
    first = next((row for row in rows if row.strip() and not row.lstrip().startswith("#")), "")
    return _dedent(rows, len(first) - len(first.lstrip(" "))) if KEY_LINE.match(first.lstrip(" ")) else rows


def _dedent(rows: list[str], indent: int) -> list[str]:
    return [row[min(indent, len(row) - len(row.lstrip(" "))) :] for row in rows] if indent else rows


def split_entries(rows: list[str], first_line: int, result: ReadFields) -> list[FrontmatterEntry]:
    """Return the top-level keys, each once, with the rows that follow them."""
    entries: dict[str, FrontmatterEntry] = {}
    current: FrontmatterEntry | None = None
    for line, row in enumerate(rows, start=first_line):
        found = KEY_LINE.match(row)
        # A quoted key in column 0 below an open `{` belongs to JSON that spans several lines, as in `metadata: {`.
        if found and not (found[1] and current and current.value.startswith("{")):
            current = FrontmatterEntry(found[2], line, [row])
            if entries.setdefault(current.key, current) is not current:
                report_repeated_key(current.key, line, current.key, result)
        elif current:
            current.rows.append(row)
        elif row.strip() and not row.startswith("#"):
            hint = "Add `key: ` before it, or move it below the closing ---."
            message = "A line in the frontmatter does not belong to any key."
            report_once(result, make_problem("line-without-key", message, hint, line=line))
    return list(entries.values())


def report_once(result: ReadFields, found: Problem) -> None:
    """Report only the first fault of its kind."""
    if not any(other.code == found.code for other in result.problems):
        result.problems.append(found)


def report_repeated_key(key: str, line: int, field: str, result: ReadFields) -> None:
    """Report a key that is ignored because it already exists."""
    if len(result.problems) < MAX_FAULTS:
        message = f"The key {key[:80]!r} appears twice; the first one is used."
        hint = YAML_HINTS["yaml-duplicate-key"]
        result.problems.append(make_problem("yaml-duplicate-key", message, hint, line=line, field=field))


def entry_text(entry: FrontmatterEntry) -> str:
    """Return the value of a key as the text that was written."""
    text = fold_lines(["" if is_block_indicator(entry.value) else entry.value, *entry.below])
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    return text
