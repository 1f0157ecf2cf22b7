"""Names of PowerShell commands that are put together from pieces: backticks, joined and formatted text, variables, aliases."""

from __future__ import annotations

import re
from collections.abc import Mapping

from prowess.scan.values import Value

MAX_ROUNDS = 40

_TICK = re.compile(r"(?<=[\w-])`(?=[\w-])")
_TEXT = r"'([^'\n]{0,200})'"
_ADDED = re.compile(rf"{_TEXT}\s*\+\s*{_TEXT}")
_CHAR = re.compile(r"\[char\]\s*(?:\(\s*)?(\d{2,3})\)?", re.IGNORECASE)
_FORMATTED = re.compile(r"'((?:\{\d\}){1,20})'\s*-f\s*('[^'\n]*'(?:\s*,\s*'[^'\n]*'){0,19})", re.IGNORECASE)
_JOINED = re.compile(r"-join\s*\(\s*('[^'\n]*'(?:\s*,\s*'[^'\n]*'){0,40})\s*\)", re.IGNORECASE)
_REPLACED = re.compile(rf"{_TEXT}(?:\s+-c?replace\s+|\.replace\s*\(\s*){_TEXT}\s*,\s*{_TEXT}\s*\)?", re.IGNORECASE)
_REVERSED = re.compile(rf"{_TEXT}\s*\[\s*(?:-1|\d+)\s*\.\.\s*(?:-\d+|0)\s*\]\s*-join\s*''", re.IGNORECASE)
_INVOKED = re.compile(r"(^|[|;({=\s])[&.]\s*\(*\s*(?:'([\w-]+)'|\$(\w+))\s*\)*")
_PICKED = re.compile(
    r"(?:^|[|;({=\s])[&.]\s*\(\s*\$(?:env:comspec|shellid|pshome|verbosepreference(?:\.tostring\(\))?)\s*\[",
    re.IGNORECASE,
)
_COMMAND = re.compile(r"(^\s*|[|({=]\s*)([\w-]+)(?=\s)")
_ALIAS = re.compile(
    r"\b(?:set-alias|new-alias|sal|nal)\s+(?:-name\s+)?['\"]?([\w-]+)['\"]?\s+(?:-value\s+)?['\"]?([\w-]+)",
    re.IGNORECASE,
)


def spell_out(statement: str, variables: Mapping[str, Value], aliases: dict[str, str]) -> str:
    """Return a statement with the names of its commands in one piece, and remember the aliases that it sets."""
    text = _TICK.sub("", statement) if "`" in statement else statement
    if defined := _ALIAS.search(text):
        aliases[defined[1].lower()] = defined[2]
    if "&" in text or "." in text:
        text = _put_together(text, variables)
    if aliases:
        text = _COMMAND.sub(lambda found: found[1] + aliases.get(found[2].lower(), found[2]), text)
    return text


def _put_together(text: str, variables: Mapping[str, Value]) -> str:
    if _PICKED.search(text):  # `&($ShellId[1]+$ShellId[13]+'x')`: letters picked from a text that every machine has
        return _PICKED.sub(" iex ", text)
    whole = re.sub(r"\$(\w+)(?=\s*[+)])|(?<=\+)\s*\$(\w+)", lambda found: _quote(found, variables), text)
    whole = _CHAR.sub(lambda found: f"'{chr(int(found[1]))}'" if int(found[1]) < 128 else found[0], whole)
    for _ in range(MAX_ROUNDS):
        before = whole
        whole = _REVERSED.sub(lambda found: f"'{found[1][::-1]}'", whole, count=1)
        whole = _REPLACED.sub(
            lambda found: f"'{found[1].replace(found[2], found[3]) if found[2] else found[1]}'", whole, 1
        )
        whole = _FORMATTED.sub(lambda found: _format(found[1], _texts(found[2])), whole, count=1)
        whole = _JOINED.sub(lambda found: f"'{''.join(_texts(found[1]))}'", whole, count=1)
        whole = _ADDED.sub(lambda found: f"'{found[1]}{found[2]}'", whole, count=1)
        if whole == before:
            break

    def invoked(found: re.Match[str]) -> str:
        value = variables.get((found[3] or "").lower())
        name = found[2] or (value.text if value is not None and value.is_known else "")
        return f"{found[1]}{name} " if re.fullmatch(r"[\w-]+", name) else found[0]

    return _INVOKED.sub(invoked, whole)


def _quote(found: re.Match[str], variables: Mapping[str, Value]) -> str:
    value = variables.get((found[1] or found[2]).lower())
    return f"'{value.text}'" if value is not None and value.is_known and "'" not in value.text else found[0]


def _texts(listed: str) -> list[str]:
    return re.findall(r"'([^'\n]*)'", listed)


def _format(form: str, texts: list[str]) -> str:
    numbers = [int(number) for number in re.findall(r"\d", form)]
    return "'" + "".join(texts[number] for number in numbers if number < len(texts)) + "'"
