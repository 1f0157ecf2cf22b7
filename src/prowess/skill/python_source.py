"""Find faults in a Python file before it runs: its syntax, and a missing entry function.

The file is untrusted and is never run. Python's own parser reads it, but only after one cheap pass has shown that it does
not nest deeper than people write; string contents are removed before. The file may run on a newer Python than this one,
so a construct that could be newer syntax is never reported as certain.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator

from prowess.lazy_dataclass import dataclass

NEWEST_PYTHON = (3, 14)
"""The newest Python that runs skills."""
MAX_SOURCE_CHARS = 500_000
MAX_CODE_CHARS = 100_000
"""Characters without strings and comments."""
MAX_BRACKET_DEPTH = 40
"""Depth of nested brackets; deeper files are not checked."""
MAX_FIELD_DEPTH = 5
"""Depth of fields of f-strings in each other."""
MAX_EXPRESSION_CHARS = 4_000
"""Characters of one expression between commas and line ends, without strings."""
# Every `elif` nests one level deeper in the syntax tree, as a chain of operators does, so long ones exhaust the stack
# too.
MAX_ELIFS = 200

_PATH = r"[A-Za-z_]\w*(?:\.\w+)*"
# Not after another brace: `{{{x}}}` in an f-string is Python and stays as it is.
PLACEHOLDER = re.compile(r"(?<!\{)\{\{[ \t]*(" + _PATH + r")[ \t]*\}\}")
"""What stands for an input in a code template."""
# Nothing here is scanned twice, so that hostile text takes linear time.
PROMPT_SYNTAX = re.compile(
    r"(?<!\{)\{\{[ \t]*" + _PATH + r"[ \t]*\|[^{}\n]*\}\}|\{%-?[ \t]*(?:for|if|set|macro|include)\b[^{}\n]*\}?"
)
"""Filters and tags of prompt templates. In a code template they are reported with a hint instead of failing as Python."""

_TOKEN = re.compile(
    r"""\#[^\n]*|(?P<prefix>(?<!\w)[rbuftRBUFT]{1,2})?(?P<quote>\"{3}|'{3}|["'])|[\[({]|[\])}]|,|\n|\\\n"""
)
_STRING_ENDS = {quote: re.compile(rf"(?:[^\\{quote}\n]|\\.)*{quote}", re.DOTALL) for quote in ('"', "'")} | {
    quote * 3: re.compile(rf"(?:[^\\{quote}]|\\.|{quote}(?!{quote}{quote}))*{quote * 3}", re.DOTALL)
    for quote in ('"', "'")
}
# A doubled brace is text. A backslash does not make a brace one.
_LITERAL_PART = re.compile(r"""\\[^{}]|\{\{|[{\n"']""", re.DOTALL)
_FIELD_PART = re.compile(r"""\#[^\n]*|(?P<prefix>(?<!\w)[rbuftRBUFT]{1,2})?(?P<quote>\"{3}|'{3}|["'])|[\[({\])}:]""")
_BRACE = re.compile(r"[{}]")
# `type X = …` and generic functions and classes (3.12), and `except A, B:` without brackets (3.14).
_NEWER_SYNTAX = re.compile(
    r"^[ \t]*type[ \t]+\w+[ \t]*[=\[\\]|\b(?:def|class)[ \t]+\w+[ \t]*\[|\bexcept\b\*?[^:(\n]*,", re.MULTILINE
)
_DYNAMIC_NAMES = re.compile(r"\b(?:exec|globals|locals|vars|setattr|__dict__|modules)\b|\bimport[ \t]*\*")
"""Ways to define a module-level name that the syntax tree does not show."""
_NUMBER_BEFORE_WORD = re.compile(r"\d(?:and|else|for|if|in|is|or)\b")
_INNER_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFault:
    """One fault; `certain` if no newer Python could accept the text."""

    message: str
    line: int | None = None
    certain: bool = True


class _NotCheckedError(Exception):
    """The file is too large or too unusual to be checked."""


class _UnclosedError(Exception):
    def __init__(self, line: int) -> None:
        self.line = line


def find_source_fault(source: str, function: str = "") -> SourceFault | None:
    """Return why a file that should define this function, if one is named, cannot run; None if no fault is known."""
    text = source.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        return SourceFault(message="it contains a NUL character", line=text.count("\n", 0, text.index("\0")) + 1)
    try:
        return _check_syntax(_blank_strings(text), function)
    except _UnclosedError as error:
        return SourceFault(message="a string is never closed", line=error.line)
    # What the parser raises for code that is too much for it; that says nothing about the file.
    except (_NotCheckedError, ValueError, RecursionError, MemoryError):
        return None


def is_parseable(text: str) -> bool:
    """Return True if this text is safe for Python's parser: neither too large nor nested too deeply."""
    try:
        _blank_strings(text)
    except _UnclosedError:
        return True
    except _NotCheckedError:
        return False
    return True


def _check_syntax(code: str, function: str) -> SourceFault | None:
    try:
        tree = ast.parse(code)
    except SyntaxError as error:
        return SourceFault(message=error.msg, line=error.lineno, certain=_is_certain(code))
    return _check_tree(tree, code, function)


def _is_certain(code: str) -> bool:
    return sys.version_info >= NEWEST_PYTHON or _NEWER_SYNTAX.search(code) is None


def _check_tree(tree: ast.Module, code: str, function: str) -> SourceFault | None:
    """Return the fault of a file that can be parsed."""
    nodes = list(_walk_module_level(tree))
    # Python reports this only when it compiles a file, not when it parses it.
    for node in nodes:
        if isinstance(node, ast.Return):
            return SourceFault(message="'return' outside function", line=node.lineno)
    if not function or _DYNAMIC_NAMES.search(code) or any(function in _bound_names(node) for node in nodes):
        return None
    return SourceFault(message=f"it does not define a function named {function}")


def _walk_module_level(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield every node that runs when the module is imported."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, _INNER_SCOPES):
            pending += reversed(list(ast.iter_child_nodes(node)))


def _bound_names(node: ast.AST) -> tuple[str, ...]:
    """Return the names that a node binds."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return (node.name,)
    if isinstance(node, ast.alias):
        return ((node.asname or node.name).partition(".")[0],)
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return (node.id,)
    if isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
        return (node.name or "",)
    return ()


def _blank_strings(text: str) -> str:
    """Return the code with empty strings and without comments, line for line.

    Raise `_NotCheckedError` for code over the limits.
    """
    if len(text) > MAX_SOURCE_CHARS:
        raise _NotCheckedError
    parts: list[str] = []
    at = depth = expression_start = removed_chars = 0
    while mark := _TOKEN.search(text, at):
        parts.append(text[at : mark.start()])
        at = mark.end()
        sign = mark.group()
        if quote := mark["quote"]:
            at = _find_string_end(text, mark, quote)
            parts.append(_empty_string(text[mark.start() : at], mark["prefix"] or ""))
            removed_chars += at - mark.start()
            continue
        if sign.startswith("#"):
            removed_chars += len(sign)
            continue
        parts.append(sign)
        # A backslash at the end of a line is a separate token here, so that it does not end the expression.
        depth += (sign in "[({") - (sign in "])}")
        if mark.start() - expression_start - removed_chars > MAX_EXPRESSION_CHARS or depth > MAX_BRACKET_DEPTH:
            raise _NotCheckedError
        if sign == "," or (sign == "\n" and depth <= 0):
            expression_start, removed_chars = at, 0
    parts.append(text[at:])
    code = "".join(parts)
    if (
        len(code) > MAX_CODE_CHARS
        or len(text) - expression_start - removed_chars > MAX_EXPRESSION_CHARS
        or code.count("elif") > MAX_ELIFS
    ):
        raise _NotCheckedError
    # `1if x else 2` is valid, but the parser warns about it, and warnings may be errors in this process.
    if _NUMBER_BEFORE_WORD.search(code):
        raise _NotCheckedError
    return code


def _find_string_end(text: str, mark: re.Match[str], quote: str, depth: int = 0) -> int:
    """Return where a string ends."""
    if set("fFtT") & set(mark["prefix"] or ""):
        return _find_fields_end(text, mark.end(), quote, depth)
    found = _STRING_ENDS[quote].match(text, mark.end())
    if found is None:
        raise _UnclosedError(text.count("\n", 0, mark.start()) + 1)
    return found.end()


def _find_fields_end(text: str, at: int, quote: str, depth: int) -> int:
    """Return where a string with fields ends. Since Python 3.12, its fields may have strings with the same quotes."""
    while part := _LITERAL_PART.search(text, at):
        at, sign = part.end(), part.group()
        if text.startswith(quote, part.start()):
            return part.start() + len(quote)
        if sign == "{":
            at = _find_field_end(text, at, depth + 1)
        elif sign == "\n" and len(quote) == 1:
            break
    raise _NotCheckedError


def _find_field_end(text: str, at: int, depth: int) -> int:
    brackets = 0
    while depth <= MAX_FIELD_DEPTH and brackets <= MAX_BRACKET_DEPTH and (mark := _FIELD_PART.search(text, at)):
        at, sign = mark.end(), mark.group()
        if quote := mark["quote"]:
            at = _find_string_end(text, mark, quote, depth)
        elif sign == "}" and brackets == 0:
            return at
        elif sign == ":" and brackets == 0:
            return _find_format_end(text, at, depth)
        else:
            brackets += (sign in "[({") - (sign in "])}")
    raise _NotCheckedError


def _find_format_end(text: str, at: int, depth: int) -> int:
    """Return where a field ends after its format, in which quotes have no meaning: `{date:%H'%M}`."""
    while brace := _BRACE.search(text, at):
        at = brace.end()
        if brace.group() == "}":
            return at
        at = _find_field_end(text, at, depth + 1)
    raise _NotCheckedError


def _empty_string(literal: str, prefix: str) -> str:
    """Return an empty string literal that spans as many lines."""
    # Line numbers in faults must stay those of the file. A string in plain quotes may span lines after a backslash, so
    # triple quotes hold the line breaks. The `b` stays because bytes and text may not stand next to each other.
    lines = literal.count("\n")
    quotes = '"""' if lines else '"'
    return f"{'b' if 'b' in prefix.lower() else ''}{quotes}" + "\n" * lines + quotes
