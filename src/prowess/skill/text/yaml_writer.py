"""Write YAML that reads back as the same value here and in every other reader."""

from __future__ import annotations

import math
import re
from typing import Any, cast

import yaml

from prowess.errors import Invalid
from prowess.patterns import lazy_pattern

_AMBIGUOUS = lazy_pattern(r"[-+.]?[0-9]|[-+]?\.(?:inf|nan)|[yn]\Z|[yn](?:es|o)?\Z|o(?:n|ff)\Z|=\Z", re.IGNORECASE)
"""Text that some YAML reader takes for a number, a date or a flag."""

_BLOCK = lazy_pattern(r"[^\s\x00-\x1f\x7f-\xa0\ufeff][^\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff]*\Z")
"""Text that a literal block can hold: it starts with a visible character and needs no escapes."""

_ESCAPED = lazy_pattern(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff]")
"""Characters that only a double-quoted string keeps."""

_QUOTED = lazy_pattern(r'["\\\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]')
"""Characters that a double-quoted string has as escapes."""

_STR = "tag:yaml.org,2002:str"
_DASH = lazy_pattern(r"-(?=--)")
_MAX_DEPTH = 100


def format_float(number: float) -> str:
    """Return the canonical form of a number: Python's shortest, with the point that YAML 1.1 requires."""
    text = repr(number)
    return text if "." in text else text.replace("e", ".0e")


class _Dumper(yaml.SafeDumper):
    """PyYAML's dumper without aliases, with list items indented under their key."""

    # The dumper would write an alias for an object that occurs twice, and the reader here refuses aliases.
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002  the signature is PyYAML's
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002  as above
        super().increase_indent(flow, indentless=False)

    # PyYAML escapes all characters above U+FFFF. Of an emoji it would leave the variation selector, which alone is hidden text.
    def write_double_quoted(self, text: str, split: bool = True) -> None:  # noqa: ARG002  as above
        self.write_indicator(f'"{_QUOTED.sub(_escape, text)}"', need_whitespace=True)


def _escape(found: re.Match[str]) -> str:
    char = found[0]
    short = yaml.SafeDumper.ESCAPE_REPLACEMENTS.get(char)
    return f"\\{short}" if short else f"\\x{ord(char):02X}" if char <= "\xff" else f"\\u{ord(char):04X}"


class _NoDashesDumper(_Dumper):
    """The same, with three dashes only in double quotes: the one style that has escapes."""


def _represent_text(dumper: Any, text: str) -> yaml.ScalarNode:
    style = None
    if "\n" in text and _BLOCK.match(text):
        style = "|"
    elif _ESCAPED.search(text):
        style = '"'
    elif _AMBIGUOUS.match(text):
        style = "'"
    return dumper.represent_scalar(_STR, text, style=style)


def _represent_text_without_dashes(dumper: Any, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(_STR, text, style='"') if "---" in text else _represent_text(dumper, text)


def _represent_float(dumper: Any, number: float) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:float", format_float(number))


_Dumper.add_representer(str, _represent_text)
_Dumper.add_representer(float, _represent_float)
_NoDashesDumper.add_representer(str, _represent_text_without_dashes)


def dump(value: Any, *, three_dashes: bool = True) -> str:
    """Return the value as block YAML: keys in their order, long text as literal blocks, always the same for the same value.

    It accepts what JSON can hold, and raises `Invalid` for anything else. Without `three_dashes`, no three dashes in a row appear
    anywhere.
    """
    _check(value)
    # The escape is only valid inside double quotes; `_NoDashesDumper` quotes every text that has three dashes that way.
    return _dump_with(value, _Dumper) if three_dashes else _DASH.sub(r"\\x2D", _dump_with(value, _NoDashesDumper))


def _dump_with(value: Any, dumper: type[_Dumper]) -> str:
    return yaml.dump(
        value,
        Dumper=dumper,
        sort_keys=False,
        default_flow_style=False,
        allow_unicode=True,
        width=float("inf"),  # never wrap: simple readers take one line for one value
        indent=2,
    )


def _check(value: Any) -> None:
    """Raise `Invalid` for values that the dumper cannot write. A work list replaces recursion, so that deep values cannot crash it."""
    pending: list[tuple[Any, int]] = [(value, 0)]
    while pending:
        item, depth = pending.pop()
        if depth > _MAX_DEPTH:
            raise Invalid(f"The value is nested deeper than {_MAX_DEPTH} levels.", hint="Flatten it.")
        if isinstance(item, dict):
            mapping = cast("dict[Any, Any]", item)
            pending += [(part, depth + 1) for pair in mapping.items() for part in pair]
            if not all(isinstance(key, str) for key in mapping):
                raise Invalid("A mapping has a key that is not a string.", hint="Use strings for all keys.")
        elif isinstance(item, (list, tuple)):
            pending += [(part, depth + 1) for part in cast("list[Any]", item)]
        else:
            _check_scalar(item)


def _check_scalar(item: Any) -> None:
    if isinstance(item, str):
        try:
            item.encode()
        except UnicodeEncodeError as fault:
            raise Invalid(
                f"The text {item[:40]!r} contains an unpaired surrogate.",
                hint=f"Remove the character at position {fault.start + 1}.",
            ) from None
    elif isinstance(item, float) and not math.isfinite(item):
        raise Invalid(f"The number {item} cannot be written.", hint="Use a finite number.")
    elif item is not None and not isinstance(item, (bool, int, float)):
        raise Invalid(
            f"A value of type {type(item).__name__} cannot be written.", hint="Use only values that JSON supports."
        )
