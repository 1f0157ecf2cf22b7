"""Diagnose a value that is not valid YAML: what is wrong, what the author meant, and how to write it."""

from __future__ import annotations

from collections.abc import Sequence

from prowess.lazy_dataclass import dataclass
from prowess.patterns import lazy_pattern

_BLOCK_TEXT = lazy_pattern(r"[|>][-+0-9]{0,2}[ \t]+(?!#)(?=\S)")
_BLOCK_SIGN = lazy_pattern(r"[|>][-+0-9]{0,2}[ \t]*(?:#.*)?\Z")
_COLON = lazy_pattern(r":(?:\s|\Z)")
_ESCAPE = lazy_pattern(r'\\(["\\/nt])')
_ESCAPED = {"n": "\n", "t": "\t"}
_CLOSED_LIST = lazy_pattern(r"\[[^\[\]]*\](?=[ \t]*\S)")
_MAX_SHOWN = 100


@dataclass(frozen=True, slots=True)
class Fix:
    """A named fault, the intended text, and what to change.

    `flow` is YAML to read instead of the text, for values that are lists or mappings.
    """

    code: str
    message: str
    hint: str
    text: str
    flow: str = ""


def quote_scalar(text: str) -> str:
    """Return the text as a YAML scalar on one line."""
    return "'" + " ".join(text.split("\n")).replace("'", "''") + "'"


def fold_lines(lines: Sequence[str]) -> str:
    """Fold lines as YAML does: a line break becomes a space, a blank line a line break."""
    paragraphs: list[list[str]] = [[]]
    for line in lines:
        if line.strip():
            paragraphs[-1].append(line.strip())
        elif paragraphs[-1]:
            paragraphs.append([])
    return "\n".join(" ".join(words) for words in paragraphs if words)


def is_block_indicator(value: str) -> bool:
    """Return True if the value is only the sign whose text follows below."""
    return bool(_BLOCK_SIGN.match(value))


def diagnose_value(prefix: str, value: str, below: Sequence[str]) -> Fix | None:
    """Return the fault of `prefix value` with the lines `below` that belong to it; None if the value has no fault.

    `prefix` is the text before the value, such as `description: `.
    """
    value = value.strip()
    if not value:
        return None
    if is_block_indicator(value):
        return _check_loose_block(prefix, value, below)
    # From specific to general: a broken value of any form may have a colon in it, and `|` and `>` are reserved signs
    # too, so the rules for these two come last.
    for rule in (_check_block_text, _check_quotation, _check_brackets, _check_dash, _check_sign, _check_colon):
        fix = rule(prefix, value, below)
        if fix:
            return fix
    return None


def _check_loose_block(prefix: str, value: str, below: Sequence[str]) -> Fix | None:
    lines = [line.strip() for line in below]
    text = "\n".join(lines).strip("\n") if value[0] == "|" else fold_lines(lines)
    hint = f"Indent every line below `{prefix.strip()} {value}` by two spaces."
    return Fix("bad-indent", "The text below the key is not indented evenly.", hint, text)


def _check_block_text(prefix: str, value: str, below: Sequence[str]) -> Fix | None:
    found = _BLOCK_TEXT.match(value)
    if not found:
        return None
    sign = found[0].strip()
    text = fold_lines([value[found.end() :], *below])
    hint = f"Keep only `{prefix.strip()} {sign}` on this line. Put the text on the next line, indented by two spaces."
    return Fix("text-after-block-sign", f"Text follows {sign} on the same line.", hint, text)


def _check_quotation(prefix: str, value: str, below: Sequence[str]) -> Fix | None:
    quote = value[0]
    if quote not in "\"'":
        return None
    text = fold_lines([value, *below])
    if len(text) > 1 and text.endswith(quote):
        return _fix_inner_quotes(prefix, quote, text[1:-1])
    if quote not in text[1:]:
        hint = f"Close the quote: {_show_fix(prefix, text[1:].strip())}"
        return Fix("unclosed-quote", f"The quote that starts with {quote} is never closed.", hint, text[1:].strip())
    inner, _, rest = text[1:].rpartition(quote)
    # `"a" b` is read as `a b`. With more quotes inside, it is unclear which ones were meant, and the text stays as
    # written.
    if quote not in inner:
        text = f"{inner.strip()} {rest.strip()}"
    hint = f"Quote the whole value: {_show_fix(prefix, text)}"
    return Fix("text-after-quote", "Text follows a closing quote.", hint, text)


def _fix_inner_quotes(prefix: str, quote: str, inner: str) -> Fix:
    if quote == "'":
        text = inner.replace("''", "'")
    else:
        text = _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[1]), inner)
    if quote in _ESCAPE.sub("", inner).replace("''", ""):
        hint = f"Double the single quotes inside: {_show_fix(prefix, text)}"
        return Fix("unescaped-quote", f"A value in {quote} quotes contains an unescaped {quote}.", hint, text)
    hint = f"Use single quotes, where a backslash has no special meaning: {_show_fix(prefix, text)}"
    return Fix("bad-escape", "A double-quoted value contains an invalid backslash escape.", hint, text)


def _check_brackets(prefix: str, value: str, below: Sequence[str]) -> Fix | None:
    if value[0] not in "[{":
        return None
    text = fold_lines([value, *below])
    closers = _find_missing_closers(text)
    if closers:
        hint = f"Add {closers} at the end of the value."
        return Fix("unclosed-bracket", "A bracket or brace is never closed.", hint, text, flow=text + closers)
    if _CLOSED_LIST.match(text):
        hint = f"Quote the whole value: {_show_fix(prefix, text)}"
        return Fix("text-after-list", "Text follows a list on the same line.", hint, text)
    hint = f"Quote the value if it is text, {_show_fix(prefix, text)}, or fix the brackets."
    return Fix("broken-flow", "The brackets or braces are not a valid list or mapping.", hint, text)


def _find_missing_closers(text: str) -> str:
    """Return the brackets that would close a flow value; '' if no bracket is missing or something else is wrong."""
    stack: list[str] = []
    quote = ""
    for char in text:
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        elif char in "[{":
            stack.append("]" if char == "[" else "}")
        elif char in "]}" and (not stack or stack.pop() != char):
            return ""
    return "" if quote or len(stack) > _MAX_SHOWN else "".join(reversed(stack))


def _check_dash(prefix: str, value: str, below: Sequence[str]) -> Fix | None:
    if not (value.startswith("- ") or value == "-"):
        return None
    items = [value, *(line.strip() for line in below if line.strip())]
    hint = f"Put each item on its own line below `{prefix.strip()}`, starting with two spaces and a hyphen."
    # Not flow style but a block below the key, so that the items may hold anything that a block list may.
    flow = "\n" + "\n".join(f"  {item}" for item in items)
    return Fix("list-on-key-line", "A list starts on the same line as its key.", hint, fold_lines(items), flow=flow)


def _check_sign(prefix: str, value: str, below: Sequence[str]) -> Fix | None:
    if value[0] not in "*&!@`%,|>?]}#":
        return None
    text = fold_lines([value, *below])
    message = f"An unquoted value starts with {value[0]}, which is reserved in YAML."
    return Fix("leading-sign", message, f"Quote the value: {_show_fix(prefix, text)}", text)


def _check_colon(prefix: str, value: str, below: Sequence[str]) -> Fix | None:
    text = fold_lines([value, *below])
    if not _COLON.search(text):
        return None
    hint = f"Quote the value: {_show_fix(prefix, text)}"
    return Fix("unquoted-colon", "An unquoted value contains a colon followed by a space.", hint, text)


def _show_fix(prefix: str, text: str) -> str:
    """Return the corrected line; for a long line, its start and end."""
    quoted = quote_scalar(text)
    if len(quoted) > _MAX_SHOWN:
        quoted = f"{quoted[:40]} … {quoted[-20:]}"
    return f"`{prefix.strip()} {quoted}`"
