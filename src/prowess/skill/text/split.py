"""Where the frontmatter of a markdown file stands, and where its body starts, however oddly it is marked."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from prowess.errors import Problem
from prowess.skill.text.codes import problem

KEY = re.compile(r"([\"']?)([^\W\d][\w.-]*|<<)\1[ \t]*:(?=[ \t]|$)[ \t]*")
"""A key at the start of a line."""

END = re.compile(r"^(?:---+|\.\.\.)[ \t\r]*$", re.MULTILINE)
"""A line that closes the frontmatter."""

_KNOWN = r"name|description|title|version|license|author|tags|metadata|allowed-tools|compatibility|homepage"
_KNOWN_KEY = re.compile(rf"^(?:{_KNOWN})[ \t]*:(?:[ \t]|$)", re.MULTILINE | re.IGNORECASE)
_OPEN = re.compile(r"---+[ \t]*\n")
_BLANK = re.compile(r"(?:[ \t]*\n)*")
_SPACE = re.compile(r"[ \t\n]*")
_COMMENT = re.compile(r"[ \t]*<!--")
_FENCE = re.compile(r"[ \t]*(```+|~~~+)[ \t]*(?:ya?ml|markdown|md|skill)?[ \t]*\n(?=(?:[ \t]*\n)*---+[ \t]*\n)")
_LATER = re.compile(r"^---[ \t]*\n(?=(?:[^\n]*\n){0,6}?[ \t]*[\"']?(?:name|description)[\"']?[ \t]*:)", re.MULTILINE)
_BARE = re.compile(r"(?:name|description|title)[ \t]*:(?:[ \t]|$)", re.MULTILINE | re.IGNORECASE)
_GLUED = re.compile(r"^---+(?=[^\s-])", re.MULTILINE)
_LINE = re.compile(r"([^\n]*)(?:\n|\Z)")
_HEADING_LINE = re.compile(r"^#{1,6} ", re.MULTILINE)
_HEADING = re.compile(r"\s*#{1,6} ")
_PROSE = re.compile(r"(?:[^\n]*\n){0,40}")


@dataclass(frozen=True, slots=True)
class Block:
    """The frontmatter is text[start:end]; the body starts at `body`, after whatever stands before `lead`."""

    start: int
    end: int
    body: int
    lead: int = 0
    problems: tuple[Problem, ...] = ()


def flat(text: str) -> str:
    """The same text with plain line ends, every character at the place it had."""
    return text.replace("\r\n", " \n").replace("\r", "\n") if "\r" in text else text


def line_at(text: str, position: int) -> int:
    """The line of a position, counted from 1."""
    return text.count("\n", 0, position) + 1


def locate(text: str) -> Block | None:
    """Find the frontmatter in a `flat` text; None where there is none."""
    position, problems = _skip_leading(text)
    opened = _OPEN.match(text, position)
    lead = 0
    if not opened:
        if _BARE.match(text, position):
            return _unopened(text, position, problems)
        opened = _LATER.search(text, 0, _after(_PROSE, text, 0))
        if not opened:
            return None
        lead = opened.start()
        message = f"Text stands before the frontmatter, which starts in line {line_at(text, lead)}."
        problems = [problem("text-before-frontmatter", message, _FIRST, line=1)]
    if len(opened[0].rstrip()) > 3:
        problems.append(_marker(text, opened.start(), opened[0]))
    block = _close(text, opened.end())
    if block is None:
        return None
    return replace(block, lead=lead, problems=(*problems, *block.problems))


_FIRST = "Make --- the first line of the file, and move what stands before it below the frontmatter."


def _at(text: str, position: int, code: str, message: str, hint: str) -> Problem:
    return problem(code, message, hint, line=line_at(text, position))


def _marker(text: str, position: int, found: str) -> Problem:
    message = f"The marker is {found.strip()[:20]!r} instead of '---'."
    return _at(text, position, "marker-form", message, "Write exactly three hyphens.")


def _skip_leading(text: str) -> tuple[int, list[Problem]]:
    """Step over blank lines, comments and an opening fence, in so far as they stand before a marker."""
    problems: list[Problem] = []
    position = _after(_BLANK, text, 0)
    if position:
        problems.append(_at(text, 0, "blank-before-frontmatter", "Blank lines stand before the frontmatter.", _FIRST))
    commented = False
    while _COMMENT.match(text, position):
        closed = text.find("-->", position)
        if closed < 0:
            break
        if not commented:
            found = "An HTML comment stands before the frontmatter."
            problems.append(_at(text, position, "comment-before-frontmatter", found, _FIRST))
        commented = True
        position = _after(_SPACE, text, closed + 3)
    fence = _FENCE.match(text, position)
    if fence:
        hint = "Remove the line with the fence, and the one that closes it."
        found = "The frontmatter is wrapped in a code fence."
        problems.append(_at(text, position, "fenced-frontmatter", found, hint))
        position = _after(_SPACE, text, fence.end())
    return position, problems


def _after(pattern: re.Pattern[str], text: str, position: int) -> int:
    found = pattern.match(text, position)
    return found.end() if found else position


def _close(text: str, start: int) -> Block | None:
    """The block that starts at `start`, up to the first line that closes it; None where `---` was a mere rule."""
    end = END.search(text, start)
    glued = _GLUED.search(text, start, end.start() if end else len(text))
    if glued and (not end or _is_body(text, glued.end(), end.start())):
        return _glued_block(text, start, glued)
    if not end:
        block = unclosed(text, start)
        return block if block.end > block.start else None
    problems = (_marker(text, end.start(), end[0]),) if end[0].rstrip() != "---" else ()
    return Block(start, end.start(), min(end.end() + 1, len(text)), problems=problems)


def _glued_block(text: str, start: int, glued: re.Match[str]) -> Block:
    message = "Text follows the closing --- on the same line."
    found = _at(text, glued.start(), "text-after-marker", message, "Put a line break after the three hyphens.")
    return Block(start, glued.start(), glued.end(), problems=(found,))


def _is_body(text: str, start: int, end: int) -> bool:
    return not _KNOWN_KEY.search(text, start, end)


def unclosed(text: str, start: int) -> Block:
    """The block whose end marker is missing: the lines from `start` that can be frontmatter."""
    end = run_of_keys(text, start)
    message = "The frontmatter is never closed."
    found = _at(text, end, "frontmatter-not-closed", message, "Put a line with exactly --- after the last key.")
    return Block(start, end, end, problems=(found,))


def shorter(text: str, block: Block) -> Block | None:
    """The same frontmatter taken as never closed, where the closing marker found is more likely a rule in the body."""
    if not _HEADING_LINE.search(text, block.start, block.end):
        return None
    end = run_of_keys(text, block.start)
    if end >= block.end or not _KNOWN_KEY.search(text, block.start, end):
        return None
    if not _is_body(text, end, block.end) or not text[end : block.end].strip():
        return None
    if not _HEADING.match(text, end):
        return None
    return replace(unclosed(text, block.start), lead=block.lead)


def _unopened(text: str, start: int, problems: list[Problem]) -> Block:
    """Keys at the top of the file without a marker before them."""
    end = run_of_keys(text, start)
    message = "The frontmatter has no line --- before it."
    found = _at(text, start, "frontmatter-not-opened", message, "Put a line with exactly --- before the first key.")
    closed = END.match(text, end)
    body = min(closed.end() + 1, len(text)) if closed else end
    return Block(start, end, body, problems=(*problems, found))


def run_of_keys(text: str, start: int) -> int:
    """The end of the lines from `start` that are keys or belong to one."""
    end = position = start
    blank = False
    while position < len(text):
        line = _LINE.match(text, position)
        if line is None or not (_continues(line[1], blank) or _is_comment(text, line)):
            break
        position = line.end()
        blank = not line[1].strip()
        if not blank:
            end = position
    return end


def _continues(line: str, after_blank: bool) -> bool:
    if not line.strip() or line[0] in " \t":
        return True
    if after_blank:
        return bool(_KNOWN_KEY.match(line))
    return bool(KEY.match(line)) or line.startswith("- ")


def _is_comment(text: str, line: re.Match[str]) -> bool:
    """Whether a line is a comment with a key right below it, and not a heading."""
    return line[1].startswith("#") and bool(KEY.match(text, line.end()))
