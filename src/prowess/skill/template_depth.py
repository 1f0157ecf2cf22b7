"""Whether a MiniJinja template can be parsed without using up the stack.

Its parser goes one call deeper for every operator of a chain and every bracket, and where the stack ends the process ends.
So a template is measured first: in one pass over its tags, with the same idea of where they begin and end as the parser has.
What is not closed is left for the parser to refuse.
"""

from __future__ import annotations

import re

from prowess.skill.template_faults import syntax_fault

DEEPEST = 200
"""How many operators may hang on one another in one tag. With the next, well within half a mebibyte of stack."""
BRACKET = 6
"""How many operators a bracket counts for."""
MOST_BRANCHES = 64
"""How many `elif` a template may have, which also hang on one another."""
MOST_PARTS = 50_000
"""How many tags, operators, brackets and commas a template may have, so that it is soon read."""

_TAG = re.compile(r"\{\{|\{%|\{#")
_ELIF = re.compile(r"\{%[-+]?\s*elif\b")
_RAW = re.compile(r"\{%[-+]?\s*raw\s*[-+]?%\}")
_END_RAW = re.compile(r"\{%[-+]?\s*endraw\s*[-+]?%\}")
_TOKEN = re.compile(
    r"""(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<unclosed>["'])|(?P<end>[-+]?[%}]\})"""
    r"|(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<comma>,)|(?P<sign>[^\s\w:]|\b(?:and|else|if|in|is|not|or)\b)",
    re.DOTALL,
)


def check_depth(template: str) -> None:
    """`Invalid` for a template that would need a deep stack or a long time."""
    branches, parts, position = 0, 0, 0
    while tag := _TAG.search(template, position):
        parts += 1
        if tag[0] == "{#":
            position = _after(template, "#}", tag.end())
        elif raw := _RAW.match(template, tag.start()):
            end = _END_RAW.search(template, raw.end())
            position = end.end() if end else len(template)
        else:
            measured = _Tag(template, tag.end(), MOST_PARTS - parts)
            position, parts = measured.end, parts + measured.parts
            branches += bool(_ELIF.match(template, tag.start()))
            if measured.depth > DEEPEST:
                raise syntax_fault("its expression is too long or nests too deep", _line(template, tag.start()))
        if branches > MOST_BRANCHES:
            raise syntax_fault(f"it has more than {MOST_BRANCHES} elif", _line(template, tag.start()))
        if parts >= MOST_PARTS:
            raise syntax_fault(f"it has more than {MOST_PARTS:,} tags and operators", _line(template, tag.start()))


class _Tag:
    """How many operators of one tag can hang on one another at most, how many parts it has, and where it ends.

    Reading stops early where the most is passed. What stands between two commas hangs together; brackets hang on what
    they stand in.
    """

    def __init__(self, template: str, position: int, most: int) -> None:
        self.parts = 0
        self._open: list[int] = [0]  # for every open bracket, the operators since its last comma
        self._most: list[int] = [0]  # and the most between two commas of it so far
        while self.parts < most and self._open[-1] <= DEEPEST and len(self._open) <= DEEPEST:
            token = _TOKEN.search(template, position)
            if token is None or token.lastgroup == "unclosed":
                position = len(template)
                break
            position, kind = token.end(), token.lastgroup
            if kind == "end" and len(self._open) == 1:
                break
            if kind == "end":  # inside brackets it is not one
                position, kind = token.start() + 1, "close" if token[0] == "}}" else "sign"
            self.parts += 1
            self._count(kind)
        self.end = position

    @property
    def depth(self) -> int:
        """The most operators, counting as if every bracket were closed now."""
        return sum(map(max, self._open, self._most)) + BRACKET * (len(self._open) - 1)

    def _count(self, kind: str | None) -> None:
        if kind == "sign":
            self._open[-1] += 1
        elif kind == "comma":
            self._most[-1] = max(self._most[-1], self._open[-1])
            self._open[-1] = 0
        elif kind == "open":
            self._open.append(0)
            self._most.append(0)
        elif kind == "close" and len(self._open) > 1:
            inner = max(self._open.pop(), self._most.pop())
            self._open[-1] += inner + BRACKET


def _after(template: str, mark: str, start: int) -> int:
    found = template.find(mark, start)
    return len(template) if found < 0 else found + len(mark)


def _line(template: str, position: int) -> int:
    return template.count("\n", 0, position) + 1
