"""What is wrong with a value that YAML refuses, what its author meant, and how to write it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_BLOCK_TEXT = re.compile(r"[|>][-+0-9]{0,2}[ \t]+(?!#)(?=\S)")
_BLOCK_SIGN = re.compile(r"[|>][-+0-9]{0,2}[ \t]*(?:#.*)?\Z")
_COLON = re.compile(r":(?:\s|\Z)")
_ESCAPE = re.compile(r'\\(["\\/nt])')
_ESCAPED = {"n": "\n", "t": "\t"}
_CLOSED_LIST = re.compile(r"\[[^\[\]]*\](?=[ \t]*\S)")
_SHORT = 100


@dataclass(frozen=True, slots=True)
class Remedy:
    """A named fault, the text that was meant, and what to change.

    `flow` is YAML to be read in place of the text, for values that are lists or mappings.
    """

    code: str
    message: str
    hint: str
    text: str
    flow: str = ""


def quoted(text: str) -> str:
    """The text as a YAML scalar on one line."""
    return "'" + " ".join(text.split("\n")).replace("'", "''") + "'"


def folded(lines: Sequence[str]) -> str:
    """Lines of running text as YAML folds them: a line break is a space, a blank line a line break."""
    paragraphs: list[list[str]] = [[]]
    for line in lines:
        if line.strip():
            paragraphs[-1].append(line.strip())
        elif paragraphs[-1]:
            paragraphs.append([])
    return "\n".join(" ".join(words) for words in paragraphs if words)


def is_block_sign(value: str) -> bool:
    """Whether the value is only the sign that its text follows below."""
    return bool(_BLOCK_SIGN.match(value))


def diagnose(prefix: str, value: str, below: Sequence[str]) -> Remedy | None:
    """Name the fault of `prefix value` with the lines `below` that belong to it; None where it is not the value's.

    `prefix` is what stands before the value, such as `description: `.
    """
    value = value.strip()
    if not value:
        return None
    if is_block_sign(value):
        return _loose_block(prefix, value, below)
    for rule in (_block_text, _quotation, _brackets, _dash, _sign, _colon):
        remedy = rule(prefix, value, below)
        if remedy:
            return remedy
    return None


def _loose_block(prefix: str, value: str, below: Sequence[str]) -> Remedy | None:
    lines = [line.strip() for line in below]
    text = "\n".join(lines).strip("\n") if value[0] == "|" else folded(lines)
    hint = f"Set every line of the text below `{prefix.strip()} {value}` in by two spaces, with spaces."
    return Remedy("bad-indent", "The text below the key is not set in evenly.", hint, text)


def _block_text(prefix: str, value: str, below: Sequence[str]) -> Remedy | None:
    found = _BLOCK_TEXT.match(value)
    if not found:
        return None
    sign = found[0].strip()
    text = folded([value[found.end() :], *below])
    hint = f"Put the text on the next line, set in by two spaces; only `{prefix.strip()} {sign}` stays on this one."
    return Remedy("text-after-block-sign", f"Text follows {sign} on the same line.", hint, text)


def _quotation(prefix: str, value: str, below: Sequence[str]) -> Remedy | None:
    quote = value[0]
    if quote not in "\"'":
        return None
    text = folded([value, *below])
    if len(text) > 1 and text.endswith(quote):
        return _inner_quotes(prefix, quote, text[1:-1])
    if quote not in text[1:]:
        hint = f"Close it: {_mended(prefix, text[1:].strip())}"
        return Remedy(
            "unclosed-quote", f"The quotation that starts with {quote} is never closed.", hint, text[1:].strip()
        )
    inner, _, rest = text[1:].rpartition(quote)
    if quote not in inner:
        text = f"{inner.strip()} {rest.strip()}"
    hint = f"Quote the whole value: {_mended(prefix, text)}"
    return Remedy("text-after-quote", "Text follows a closed quotation.", hint, text)


def _inner_quotes(prefix: str, quote: str, inner: str) -> Remedy:
    if quote == "'":
        text = inner.replace("''", "'")
    else:
        text = _ESCAPE.sub(lambda found: _ESCAPED.get(found[1], found[1]), inner)
    if quote in _ESCAPE.sub("", inner).replace("''", ""):
        hint = f"Double the single quotes inside: {_mended(prefix, text)}"
        return Remedy("unescaped-quote", f"A value in {quote} quotes has a {quote} inside.", hint, text)
    hint = f"Use single quotes, where a backslash is just a backslash: {_mended(prefix, text)}"
    return Remedy("bad-escape", "A double-quoted value has a backslash that YAML does not know.", hint, text)


def _brackets(prefix: str, value: str, below: Sequence[str]) -> Remedy | None:
    if value[0] not in "[{":
        return None
    text = folded([value, *below])
    closers = _missing_closers(text)
    if closers:
        hint = f"Add {closers} at the end of the value."
        return Remedy("unclosed-bracket", "A bracket or brace is never closed.", hint, text, flow=text + closers)
    if _CLOSED_LIST.match(text):
        hint = f"Quote the whole value: {_mended(prefix, text)}"
        return Remedy("text-after-list", "Text follows a list on the same line.", hint, text)
    hint = f"Quote the value if it is text, {_mended(prefix, text)}, or mend the brackets."
    return Remedy("broken-flow", "Brackets or braces do not form a list or a mapping.", hint, text)


def _missing_closers(text: str) -> str:
    """The brackets that would close a flow value, '' where nothing is missing or something else is wrong."""
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
    return "" if quote or len(stack) > _SHORT else "".join(reversed(stack))


def _dash(prefix: str, value: str, below: Sequence[str]) -> Remedy | None:
    if not (value.startswith("- ") or value == "-"):
        return None
    items = [value, *(line.strip() for line in below if line.strip())]
    hint = f"Put each item on a line of its own below `{prefix.strip()}`, starting with two spaces and a hyphen."
    flow = "\n" + "\n".join(f"  {item}" for item in items)
    return Remedy("list-on-key-line", "A list starts on the same line as its key.", hint, folded(items), flow=flow)


def _sign(prefix: str, value: str, below: Sequence[str]) -> Remedy | None:
    if value[0] not in "*&!@`%,|>?]}#":
        return None
    text = folded([value, *below])
    message = f"An unquoted value starts with {value[0]}, which YAML reserves."
    return Remedy("leading-sign", message, f"Put the value in quotes: {_mended(prefix, text)}", text)


def _colon(prefix: str, value: str, below: Sequence[str]) -> Remedy | None:
    text = folded([value, *below])
    if not _COLON.search(text):
        return None
    hint = f"Put the value in quotes: {_mended(prefix, text)}"
    return Remedy("unquoted-colon", "An unquoted value has a colon followed by a space in it.", hint, text)


def _mended(prefix: str, text: str) -> str:
    """The line as it should be; of a long one, how it should start and end."""
    whole = quoted(text)
    if len(whole) > _SHORT:
        whole = f"{whole[:40]} … {whole[-20:]}"
    return f"`{prefix.strip()} {whole}`"
