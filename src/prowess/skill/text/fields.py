"""Interpret frontmatter fields however they were written (text, lists, tools, flags), and find a title and summary in the body."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from prowess.patterns import lazy_pattern

__all__ = ["as_flag", "as_list", "as_text", "as_tools", "find_title", "first_heading", "first_paragraph"]


_LINE = lazy_pattern(r"[^\r\n]+(?:\r\n|\r|\n)?|[\r\n]+")
_FENCE = lazy_pattern(r" {0,3}(`{3,}|~{3,})")
_HEADING = lazy_pattern(r" {0,3}(#{1,6})(?:[ \t]+|(?=[^\s#0-9]))(?=\S)")
_UNDERLINE = lazy_pattern(r" {0,3}(=+|-+)[ \t]*$")
_RULE = lazy_pattern(r"[ \t]*(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$")
_NOT_PROSE = lazy_pattern(r"[ \t]*(?:[|<>#]|!\[|\[!\[|:::|\{%|import |export )")
# White space from its first character on, or each position of a long run of it would be tried.
_ITEM = lazy_pattern(r"(?:(?<![ \t])[ \t]+)?(?:[-*+•]|[0-9]{1,3}[.)])[ \t]+")
_LINK = lazy_pattern(r"!?\[([^\[\]\n]{1,300})\]\([^()\s]{0,500}\)")
_MARKUP = lazy_pattern(r"\*{2,3}|__|`+")
_QUOTE = lazy_pattern(r"^[ \t]*>+[ \t]?")
_TAG = lazy_pattern(r"<[^<>\n]{1,300}>")
_OPENING = lazy_pattern(r"\n*# ([^\s#*_`<>\[\]][^\r\n#*_`<>\[\]]*)\n")
"""A first line that is a heading without markup, as almost every body has."""
_TITLE = lazy_pattern(r"\s*^#[ \t]+(?=[^\s#])([^\r\n]+)", re.MULTILINE)
_TOP = lazy_pattern(r"(?:\A|[\r\n]) {0,3}(?:#(?!#)|=)")
"""A text that every top-level heading contains."""
_COMMENTS = lazy_pattern(r"(?:[ \t]*<!--(?:>|->|.*?-->))+")
_WORDS = lazy_pattern(r"[^\W\d_](?:(?!-->)[^\r\n])*")
# Titles and summaries stand near the top. The cap bounds the work on bodies that are huge on purpose.
_MAX_SCANNED = 200_000


def find_title(body: str) -> str:
    """Return the text of the first top-level heading, or ''.

    A lower heading names a section. Of 3,845 skills in public repositories, 99 have only lower headings, and the first one
    names the skill in 9 of them. Most read "Use this skill when", "Instructions" or "Process".
    """
    # Two cheap matches at the start serve almost every body; the search goes through all lines.
    opening = _OPENING.match(body)
    if opening:
        return " ".join(opening[1].split())
    title = _TITLE.match(body)
    found = _strip_markup(title[1].rstrip().rstrip("#")) if title else ""
    # The search is cheap, and spares most bodies without a title the reading of their lines.
    return found or (_search_heading(body, 1) if _TOP.search(body, 0, _MAX_SCANNED) else "")


def first_heading(body: str) -> str:
    """Return the text of the first top-level heading, else of the first heading of any level, else ''."""
    return find_title(body) or _search_heading(body, 6)


def _search_heading(body: str, lowest: int) -> str:
    """Return the text of the first heading down to a level, or ''."""
    previous = ""
    for line in _prose_lines(body):
        found = _HEADING.match(line)
        if found and len(found[1]) <= lowest:
            if text := _strip_markup(line[found.end() :].rstrip().rstrip("#")):
                return text
        elif "=" in line and _UNDERLINE.match(line) and _strip_markup(previous):
            return _strip_markup(previous)
        previous = line
    return ""


def first_paragraph(body: str, limit: int = 500) -> str:
    """Return the first paragraph of running text on one line, cut at a word if it is longer than `limit`.

    Without running text, fall back to the first list or quotation, then to a heading, then to the first words.
    """
    spare = ""
    for paragraph in _paragraphs(body):
        first = paragraph[0]
        if not _NOT_PROSE.match(first) and not _ITEM.match(first):
            text = _join_lines(paragraph)
            if any(char.isalnum() for char in text):
                return _shorten(text, limit)
        elif not spare and not first.lstrip().startswith("#"):
            spare = _join_lines([_ITEM.sub("", _QUOTE.sub("", line)) for line in paragraph])
            spare = spare if any(char.isalnum() for char in spare) else ""
    words = _WORDS.search(body)
    return _shorten(spare or first_heading(body) or (_strip_markup(words[0]) if words else ""), limit)


def _prose_lines(body: str) -> Iterator[str]:
    """Yield the lines outside code fences and comments, consecutive blank lines as one, without line ends."""
    fence = ""
    comment = False
    for found in _LINE.finditer(body, 0, _MAX_SCANNED):
        line = found[0].rstrip("\r\n")
        marker = _FENCE.match(line)
        if fence:
            # As in Markdown, a fence is closed by one of the same sign that is at least as long.
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
    """Yield runs of lines without a blank line, a heading or a rule between them."""
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


def _join_lines(lines: list[str]) -> str:
    return _strip_markup(" ".join(line.strip() for line in lines))


def _strip_markup(text: str) -> str:
    """Return the text without the markup of links, emphasis and code."""
    text = _TAG.sub(" ", _LINK.sub(r"\1", text))
    return " ".join(_MARKUP.sub("", text).split())


def _shorten(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    shorter = text[: limit - 1]
    word, _, _ = shorter.rpartition(" ")
    return (word if len(word) > limit // 2 else shorter).rstrip(" ,;:") + "…"


_FLAGS = {
    **dict.fromkeys(("true", "yes", "on", "1", "y"), True),
    **dict.fromkeys(("false", "no", "off", "0", "n"), False),
}
_TOOL = lazy_pattern(r"[^\s,;()\[\]]+(?:\([^()]*(?:\([^()]*\)[^()]*)*\))?")
_MAX_DEPTH = 8


def as_text(value: Any) -> str:
    """Return the value as text for people: lists joined by commas, mappings as `key: value`, None as ''."""
    return _to_text(value, _MAX_DEPTH)


def _to_text(value: Any, depth: int) -> str:
    if isinstance(value, str):
        return value.strip()
    if value is None or not depth:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        pairs = cast("Mapping[Any, Any]", value).items()
        return "; ".join(f"{key}: {_to_text(item, depth - 1)}" for key, item in pairs)
    if isinstance(value, Sequence):
        texts = [_to_text(item, depth - 1) for item in cast("Sequence[Any]", value)]
        return ", ".join(text for text in texts if text)
    return str(value)


def as_list(value: Any) -> tuple[str, ...]:
    """Return the items of a list, of `a, b`, of `[a, b]` or of a mapping's values; each once, without empty ones."""
    return tuple(dict.fromkeys(_to_items(value, _MAX_DEPTH)))


def _to_items(value: Any, depth: int) -> list[str]:
    if not depth or value is None:
        return []
    if isinstance(value, str):
        return _split_list(value)
    if isinstance(value, Mapping):
        return [text for item in cast("Mapping[Any, Any]", value).values() for text in _to_items(item, depth - 1)]
    if isinstance(value, Sequence):
        texts = [_to_text(item, depth - 1) for item in cast("Sequence[Any]", value)]
        return [text for text in texts if text]
    return [_to_text(value, depth)]


def _split_list(text: str) -> list[str]:
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        text = text[1:-1]
    parts = re.split(r"[,;\n]", text)
    unquoted = (part.strip().removeprefix("- ").strip().strip("\"'").strip() for part in parts)
    return [part for part in unquoted if part]


def as_tools(value: Any) -> tuple[str, ...]:
    """Return the tools that `allowed-tools` names, each once: a list, or text with commas, spaces or brackets.

    A tool with its argument, such as `Bash(git add:*)`, is one tool. `WebFetch(domain: x)`, which YAML reads as a mapping inside a
    list, is joined again.
    """
    return tuple(dict.fromkeys(_to_tools(value, _MAX_DEPTH)))


def _to_tools(value: Any, depth: int) -> list[str]:
    if not depth or value is None:
        return []
    if isinstance(value, str):
        names = (found[0].strip("'") for found in _TOOL.finditer(value.replace('"', " ")))
        return [name for name in names if name.strip("-'")]
    if isinstance(value, Mapping):
        return [tool for pair in cast("Mapping[Any, Any]", value).items() for tool in _tools_of_pair(pair, depth)]
    if isinstance(value, Sequence):
        return [tool for item in cast("Sequence[Any]", value) for tool in _to_tools(item, depth - 1)]
    return [_to_text(value, depth)]


def _tools_of_pair(pair: tuple[Any, Any], depth: int) -> list[str]:
    """Return a tool whose argument has a colon, split by YAML; or a tool with a flag; or a group of tools."""
    key, item = str(pair[0]), pair[1]
    # `- WebFetch(domain: x)` is a mapping for YAML, because of the colon.
    if "(" in key and isinstance(item, str):
        return _to_tools(f"{key}: {item}", depth - 1)
    flag = as_flag(item)
    if flag is not None or item is None:
        return [] if flag is False else _to_tools(key, depth - 1)
    return _to_tools(item, depth - 1)


def as_flag(value: Any) -> bool | None:
    """Return True or False; None if the value is neither."""
    if isinstance(value, bool):
        return value
    return _FLAGS.get(str(value).strip().lower())
