"""Read templates without rendering them: check that they can be parsed safely, and find the variables that they expect.

MiniJinja's parser recurses once for every operator of a chain and every bracket, and a stack overflow ends the process. So
every template is measured first, in one pass over its tags, with the parser's own rules for where a tag starts and ends.
Unclosed tags are left for the parser to reject.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal

from prowess.errors import Invalid, Problem
from prowess.lazy_dataclass import dataclass
from prowess.skill.limits import KIB
from prowess.skill.text.hidden import quote_source

TEMPLATE_HINT = "Fix the template. `{{ name }}` inserts an input."


def syntax_error(reason: str, line: int | None = None) -> Invalid:
    """Return the error for a template that cannot be parsed."""
    where = f" on line {line}" if line else ""
    return template_error("template-syntax", f"The template is not valid{where}: {reason}.", TEMPLATE_HINT, line)


def template_error(code: str, message: str, hint: str, line: int | None = None) -> Invalid:
    """Return an `Invalid` with one problem."""
    problem = Problem(code=code, severity="error", message=message, hint=hint, line=line)
    return Invalid(message, hint=hint, problems=[problem])


_SIGNS = "#^/>!&={$<"
_CLOSED_BY = {"=": "=", "{": "}"}
_UNSUPPORTED = {">": "partials", "<": "parents", "$": "blocks"}


@dataclass(frozen=True, slots=True)
class MustacheTag:
    """One tag: its sign ('' for a plain one), its content and the line where it starts."""

    sign: str
    content: str
    line: int


def parse_mustache(template: str) -> Iterator[MustacheTag]:
    """Yield every tag in order, following the delimiters that the template sets. A tag that is not closed is text."""
    opening, closing, position, line, counted = "{{", "}}", 0, 1, 0
    while (start := template.find(opening, position)) >= 0:
        inside = start + len(opening)
        sign = template[inside : inside + 1]
        sign = sign if sign and sign in _SIGNS else ""
        ending = _CLOSED_BY.get(sign, "") + closing
        end = template.find(ending, inside + len(sign))
        if end < 0:
            return
        # Counted from the last tag on; counting from the start each time would take quadratic time.
        line, counted = line + template.count("\n", counted, start), start
        tag = MustacheTag(sign, template[inside + len(sign) : end].strip(), line)
        yield tag
        position = end + len(ending)
        # `{{=<% %>=}}` sets other delimiters for the rest of the template.
        if sign == "=":
            pair = tag.content.split()
            if len(pair) != 2:
                raise syntax_error("a delimiter tag must set exactly two delimiters", line)
            opening, closing = pair


def find_mustache_variables(template: str) -> frozenset[str]:
    """Return the first part of every name that is looked up outside sections, and of the sections themselves.

    Raise `Invalid` for a section that is not closed or was never opened, and for features that are not supported.
    """
    names: set[str] = set()
    opened: list[MustacheTag] = []
    within = 0  # how many sections are open whose items may have their own names
    for tag in parse_mustache(template):
        if tag.sign in _UNSUPPORTED:
            raise syntax_error(f"{_UNSUPPORTED[tag.sign]} are not supported", tag.line)
        if tag.sign == "/":
            within -= _close_section(opened, tag).sign == "#"
            continue
        if tag.sign in {"", "&", "{", "#", "^"} and not within:
            names.add(tag.content.partition(".")[0])
        if tag.sign in {"#", "^"}:
            opened.append(tag)
            within += tag.sign == "#"
    if opened:
        raise syntax_error(f"the section {quote_source(opened[-1].content)} is not closed", opened[-1].line)
    return frozenset(name for name in names if name)


def _close_section(opened: list[MustacheTag], closing: MustacheTag) -> MustacheTag:
    if not opened or opened[-1].content != closing.content:
        raise syntax_error(f"{quote_source(closing.content)} is closed but was not opened", closing.line)
    return opened.pop()


MAX_DEPTH = 200
"""How many operators may be nested in one tag. Together with `MAX_ELIFS`, parsing stays well under 512 KiB of stack."""
BRACKET_DEPTH = 6
"""How many operators one bracket counts for."""
MAX_ELIFS = 64
"""How many `elif` a template may have; the parser nests them too."""
MAX_PARTS = 50_000
"""How many tags, operators, brackets and commas a template may have, which limits the time to read it."""

_TAG_START = re.compile(r"\{\{|\{%|\{#")
_ELIF = re.compile(r"\{%[-+]?\s*elif\b")
_RAW = re.compile(r"\{%[-+]?\s*raw\s*[-+]?%\}")
_END_RAW = re.compile(r"\{%[-+]?\s*endraw\s*[-+]?%\}")
_NAME = re.compile(r"\s*([^\W\d]\w*)")
_TEST_NAME = re.compile(r"\s*(?:not\s+)?([^\W\d]\w*)")
_FILTER_BLOCK = re.compile(r"[-+]?\s*filter\s+([^\W\d]\w*)")
_TOKEN = re.compile(
    r"""(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<unclosed>["'])|(?P<end>[-+]?[%}]\})"""
    r"|(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<comma>,)|(?P<sign>[^\s\w:]|\b(?:and|else|if|in|is|not|or)\b)",
    re.DOTALL,
)


def check_depth(template: str) -> dict[TemplateName, int]:
    """Return the filters, tests, functions and methods that a template uses, each with the line of a tag that uses it.

    Raise `Invalid` for a template that would need a deep stack or much time.
    """
    used: dict[TemplateName, int] = {}
    branches, parts, position = 0, 0, 0
    while tag := _TAG_START.search(template, position):
        parts += 1
        if tag[0] == "{#":
            found = template.find("#}", tag.end())
            position = len(template) if found < 0 else found + len("#}")
        elif raw := _RAW.match(template, tag.start()):
            end = _END_RAW.search(template, raw.end())
            position = end.end() if end else len(template)
        else:
            measured = _MeasuredTag(template, tag.end(), MAX_PARTS - parts)
            position, parts = measured.end, parts + measured.parts
            branches += bool(_ELIF.match(template, tag.start()))
            used |= {name: _line_of(template, tag.start()) for name in measured.used - used.keys()}
            if measured.depth > MAX_DEPTH:
                raise syntax_error("the expression is too long or nested too deeply", _line_of(template, tag.start()))
        if branches > MAX_ELIFS:
            raise syntax_error(f"it has more than {MAX_ELIFS} elif branches", _line_of(template, tag.start()))
        if parts >= MAX_PARTS:
            raise syntax_error(f"it has more than {MAX_PARTS:,} tags and operators", _line_of(template, tag.start()))
    return used


class _MeasuredTag:
    """Measures one tag: the nesting depth of its operators, its number of parts, and where it ends.

    Reading stops when a limit is passed. Operators between two commas nest in each other; brackets nest in the enclosing part.
    """

    def __init__(self, template: str, position: int, most: int) -> None:
        self.parts = 0
        self.used: set[TemplateName] = set()
        if block := _FILTER_BLOCK.match(template, position):
            self.used.add(("filter", block[1]))
        self._before = ("", "")  # the token before, and the last word before that
        self._open: list[int] = [0]  # for every open bracket, the operators since its last comma
        self._most: list[int] = [0]  # and the most between two commas of it so far
        while self.parts < most and self._open[-1] <= MAX_DEPTH and len(self._open) <= MAX_DEPTH:
            token = _TOKEN.search(template, position)
            if token is None or token.lastgroup == "unclosed":
                position = len(template)
                break
            words = template[position : token.start()].split()
            position, kind = token.end(), token.lastgroup
            if token[0] == "(" and words:
                self._note_call(words[-1])
            self._before = token[0], words[-1] if words else ""
            if kind == "end" and len(self._open) == 1:
                break
            # Inside brackets, `}}` closes two of them instead of the tag, as in {{ {"a": {}} }}.
            if kind == "end":
                position, kind = token.start() + 1, "close" if token[0] == "}}" else "sign"
            self.parts += 1
            if token[0] == "|" and (name := _NAME.match(template, position)):
                self.used.add(("filter", name[1]))
            elif token[0] == "is" and (name := _TEST_NAME.match(template, position)):
                self.used.add(("test", name[1]))
            self._count(kind)
        self.end = position

    @property
    def depth(self) -> int:
        """The deepest nesting, as if every open bracket were closed here."""
        return sum(map(max, self._open, self._most)) + BRACKET_DEPTH * (len(self._open) - 1)

    def _note_call(self, name: str) -> None:
        sign, receiver = self._before
        if sign == "." and receiver != "self":  # `self.NAME()` is a block
            self.used.add(("method", name))
        elif sign not in (".", "|", "is"):
            self.used.add(("function", name))

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
            self._open[-1] += inner + BRACKET_DEPTH


def _line_of(template: str, position: int) -> int:
    return template.count("\n", 0, position) + 1


_FILTERS = (
    "abs attr batch bool capitalize chain count d default dictsort e escape filesizeformat first float format groupby "
    "indent int items join last length lines list lower map max min pluralize pprint reject rejectattr replace reverse "
    "round safe select selectattr slice sort split string striptags sum title tojson trim truncate unique upper "
    "urlencode wordwrap zip"
)
_TESTS = (
    "boolean defined divisibleby endingwith eq equalto escaped even false filter float ge greaterthan gt in int integer "
    "iterable le lessthan lower lt mapping ne none number odd safe sameas sequence startingwith string test true "
    "undefined upper"
)
_FUNCTIONS = "cycler dict joiner namespace range"
# Inputs are JSON. Texts and numbers have no methods in a template, and `next`, `changed` and `cycle` are of `cycler` and `loop`.
_METHODS = {name for kind in (dict, list) for name in dir(kind) if not name.startswith("_")} | {
    "changed",
    "cycle",
    "next",
}
TemplateName = tuple[Literal["filter", "test", "function", "method"], str]
"""What a template uses: a filter, a test, a function or a method, and its name."""
TEMPLATE_NAMES = {
    "filter": frozenset(_FILTERS.split()),
    "test": frozenset(_TESTS.split()),
    "function": frozenset(_FUNCTIONS.split()),
    "method": frozenset(_METHODS),
}
"""What MiniJinja has of each. It does not list them, and looks for them only when it renders."""


def find_unknown_names(template: str) -> dict[TemplateName, int]:
    """Return what a template uses that does not exist, each with its line. Raise `Invalid` as `find_variables` does."""
    unknown = {used: line for used, line in check_depth(template).items() if used[1] not in TEMPLATE_NAMES[used[0]]}
    # Macros and the like are called as functions are.
    calls = {used for used in unknown if used[0] == "function"}
    own = {used for used in calls if used[1] not in _find_jinja_variables(template)} if calls else calls
    return {used: line for used, line in unknown.items() if used not in own}


TemplateSyntax = Literal["jinja", "mustache"]

MAX_TEMPLATE_BYTES = 256 * KIB
BUILT_IN_NAMES = frozenset({"caller", "cycler", "dict", "joiner", "loop", "namespace", "range", "self", "super"})
"""Names that are available in every template."""


def find_variables(template: str, syntax: TemplateSyntax = "jinja") -> frozenset[str]:
    """Return the names that a template expects as inputs, without those that it sets itself.

    A name that is only used inside a section of a mustache template is left out, because the items of the section may have it.
    Raise `Invalid` with the reason and the line for a template that cannot be read.
    """
    check_template(template, syntax)
    return find_mustache_variables(template) if syntax == "mustache" else _find_jinja_variables(template)


@lru_cache(maxsize=64)
def check_template(template: str, syntax: TemplateSyntax = "jinja") -> None:
    """Raise `Invalid` for a template that is too large, is not text, or cannot be parsed safely; it may have other faults."""
    try:
        size = len(template.encode())
    except UnicodeEncodeError:
        raise syntax_error("it contains an unpaired surrogate") from None
    if size > MAX_TEMPLATE_BYTES:
        message = f"The template is {size:,} bytes; the limit is {MAX_TEMPLATE_BYTES:,}."
        raise template_error("template-long", message, "Split the template, or pass long texts as inputs.")
    if syntax == "mustache":
        find_mustache_variables(template)
    else:
        check_depth(template)


def _find_jinja_variables(template: str) -> frozenset[str]:
    import minijinja  # here, because few skills have templates

    try:
        found = minijinja.Environment(debug=False, pycompat=False).undeclared_variables_in_str(template)
    except minijinja.TemplateError as error:
        raise syntax_error(error.detail or "it is not a valid MiniJinja template", error.line) from None
    return frozenset(found) - BUILT_IN_NAMES
