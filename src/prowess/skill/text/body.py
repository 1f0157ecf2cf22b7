"""What a markdown body says about itself: its first heading and its first paragraph."""

from __future__ import annotations

import re
from collections.abc import Iterator

_LINE = re.compile(r"[^\r\n]+(?:\r\n|\r|\n)?|[\r\n]+")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+|(?=[^\s#0-9]))(?=\S)")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*$")
_RULE = re.compile(r"[ \t]*(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$")
_NOT_PROSE = re.compile(r"[ \t]*(?:[|<>#]|!\[|\[!\[|:::|\{%|import |export )")
_ITEM = re.compile(r"[ \t]*(?:[-*+•]|[0-9]{1,3}[.)])[ \t]+")
_LINK = re.compile(r"!?\[([^\[\]\n]{1,300})\]\([^()\s]{0,500}\)")
_MARKUP = re.compile(r"\*{2,3}|__|`+")
_QUOTE = re.compile(r"^[ \t]*>+[ \t]?")
_TAG = re.compile(r"<[^<>\n]{1,300}>")
_OPENING = re.compile(r"\n*# ([^\s#*_`<>\[\]][^\r\n#*_`<>\[\]]*)\n")
"""A first line that is a heading without any marks in it, as almost every body has one."""
_TITLE = re.compile(r"\s*^#[ \t]+(?=[^\s#])([^\r\n]+)", re.MULTILINE)
_TOP = re.compile(r"(?:\A|[\r\n]) {0,3}(?:#(?!#)|=)")
"""What every top-level heading has in it."""
_COMMENTS = re.compile(r"(?:[ \t]*<!--(?:>|->|.*?-->))+")
_WORDS = re.compile(r"[^\W\d_](?:(?!-->)[^\r\n])*")
_SCANNED = 200_000


def first_heading(body: str) -> str:
    """The text of the first top-level heading, or of the first heading of any level, or ''."""
    opening = _OPENING.match(body)
    if opening:
        return " ".join(opening[1].split())
    title = _TITLE.match(body)
    return (_plain(title[1].rstrip().rstrip("#")) if title else "") or _searched_heading(body)


def _searched_heading(body: str) -> str:
    other = previous = ""
    for line in _prose_lines(body):
        found = _HEADING.match(line)
        if found:
            text = _plain(line[found.end() :].rstrip().rstrip("#"))
            if text and (len(found[1]) == 1 or not (other or _TOP.search(body, 0, _SCANNED))):
                return text
            other = other or text
        elif "=" in line and _UNDERLINE.match(line) and _plain(previous):
            return _plain(previous)
        previous = line
    return other


def first_paragraph(body: str, limit: int = 500) -> str:
    """The first paragraph of running text on one line, cut at a word where it is longer than `limit`.

    Where there is no running text, the first list or quotation stands in for it, or a heading, or the first words at all.
    """
    spare = ""
    for paragraph in _paragraphs(body):
        first = paragraph[0]
        if not _NOT_PROSE.match(first) and not _ITEM.match(first):
            text = _joined(paragraph)
            if any(char.isalnum() for char in text):
                return _cut(text, limit)
        elif not spare and not first.lstrip().startswith("#"):
            spare = _joined([_ITEM.sub("", _QUOTE.sub("", line)) for line in paragraph])
            spare = spare if any(char.isalnum() for char in spare) else ""
    words = _WORDS.search(body)
    return _cut(spare or first_heading(body) or (_plain(words[0]) if words else ""), limit)


def _prose_lines(body: str) -> Iterator[str]:
    """The lines of the body outside code fences and comments, blank ones as one, without their line ends."""
    fence = ""
    comment = False
    for found in _LINE.finditer(body, 0, _SCANNED):
        line = found[0].rstrip("\r\n")
        marker = _FENCE.match(line)
        if fence:
            fence = "" if marker and marker[1].startswith(fence) else fence
        elif comment:
            comment = "-->" not in line
        elif marker:
            fence = marker[1]
        elif line.lstrip().startswith("<!--"):
            closed = _COMMENTS.match(line)
            rest = line[closed.end() :] if closed else line
            comment = rest.lstrip().startswith("<!--")
            if rest.strip() and not comment:
                yield rest
        else:
            yield line


def _paragraphs(body: str) -> Iterator[list[str]]:
    """Runs of lines without a blank line, a heading or a rule between them."""
    lines: list[str] = []
    for line in _prose_lines(body):
        if line.strip() and not _RULE.match(line) and not _HEADING.match(line) and not _UNDERLINE.match(line):
            lines.append(line)
            continue
        if lines and not (_UNDERLINE.match(line) and "=" in line):
            yield lines
        lines = []
    if lines:
        yield lines


def _joined(lines: list[str]) -> str:
    return _plain(" ".join(line.strip() for line in lines))


def _plain(text: str) -> str:
    """The text without the marks of links, emphasis and code."""
    text = _TAG.sub(" ", _LINK.sub(r"\1", text))
    return " ".join(_MARKUP.sub("", text).split())


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    shorter = text[: limit - 1]
    word, _, _ = shorter.rpartition(" ")
    return (word if len(word) > limit // 2 else shorter).rstrip(" ,;:") + "…"
