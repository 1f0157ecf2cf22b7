"""The tags of a mustache template, read in one pass; just enough to tell which inputs it takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from prowess.skill.template_faults import syntax_fault
from prowess.skill.text.hidden import shown_source

_SIGILS = "#^/>!&={$<"
_CLOSED_BY = {"=": "=", "{": "}"}
_FOREIGN = {">": "partials", "<": "parents", "$": "blocks"}


@dataclass(frozen=True, slots=True)
class Tag:
    """One tag: its sign ('' for a plain one), its content and the line that it begins in."""

    sign: str
    content: str
    line: int


def mustache_tags(template: str) -> Iterator[Tag]:
    """Every tag in order, with delimiters as the template sets them; one that is not closed is text."""
    opening, closing, position, line, counted = "{{", "}}", 0, 1, 0
    while (start := template.find(opening, position)) >= 0:
        inside = start + len(opening)
        sign = template[inside : inside + 1]
        sign = sign if sign and sign in _SIGILS else ""
        ending = _CLOSED_BY.get(sign, "") + closing
        end = template.find(ending, inside + len(sign))
        if end < 0:
            return
        line, counted = line + template.count("\n", counted, start), start
        tag = Tag(sign, template[inside + len(sign) : end].strip(), line)
        yield tag
        position = end + len(ending)
        if sign == "=":
            pair = tag.content.split()
            if len(pair) != 2:
                raise syntax_fault("delimiters are set to something else than two marks", line)
            opening, closing = pair


def mustache_variables(template: str) -> frozenset[str]:
    """The first part of every name that is looked up outside sections, and of the sections themselves.

    `Invalid` is raised where a section is not closed or was not opened, and for what cannot be rendered.
    """
    names: set[str] = set()
    opened: list[Tag] = []
    within = 0  # how many sections are open whose items may have names of their own
    for tag in mustache_tags(template):
        if tag.sign in _FOREIGN:
            raise syntax_fault(f"{_FOREIGN[tag.sign]} are not rendered", tag.line)
        if tag.sign == "/":
            within -= _closed(opened, tag).sign == "#"
            continue
        if tag.sign in {"", "&", "{", "#", "^"} and not within:
            names.add(tag.content.partition(".")[0])
        if tag.sign in {"#", "^"}:
            opened.append(tag)
            within += tag.sign == "#"
    if opened:
        raise syntax_fault(f"the section {shown_source(opened[-1].content)} is not closed", opened[-1].line)
    return frozenset(name for name in names if name)


def _closed(opened: list[Tag], closing: Tag) -> Tag:
    if not opened or opened[-1].content != closing.content:
        raise syntax_fault(f"{shown_source(closing.content)} is closed where it is not open", closing.line)
    return opened.pop()
