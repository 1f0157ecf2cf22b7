"""Scan batch files of Windows: they are written as shell code that does the same, line for line, and followed as that."""

from __future__ import annotations

import re

from prowess.scan import shell
from prowess.scan.behaviour import Behaviour
from prowess.scan.values import NO_LABELS, Label

_FOLDERS = {
    "userprofile": "$HOME",
    "homepath": "$HOME",
    "appdata": "$HOME/AppData/Roaming",
    "localappdata": "$HOME/AppData/Local",
    "temp": "/tmp",  # noqa: S108  nothing is written
    "tmp": "/tmp",  # noqa: S108
}
_REMARK = re.compile(r"^\s*(?:::|:\w|rem(?:\s|$))", re.IGNORECASE)
_VARIABLE = re.compile(r"%%~?\w*?([a-z])\b|%~\w*0|%~?([1-9*])|[%!](\w+)(?::[^%!\n]{0,80})?[%!]", re.IGNORECASE)
_SET = re.compile(r"""^(\s*)set\s+"?(\w+)=([^"\n]*)"?\s*$""", re.IGNORECASE)
_START = r"(^|[&|(]|\bdo\b)(\s*)"
_CONDITION = re.compile(
    rf"{_START}if\s+(?:/i\s+)?(?:not\s+)?(?:(?:exist|defined|errorlevel)\s+(?:\"[^\"\n]{{0,300}}\"|\S+)"
    r"|(?:\"[^\"\n]{0,300}\"|[^\s=]+)\s*(?:==|equ|neq|lss|leq|gtr|geq)\s*(?:\"[^\"\n]{0,300}\"|\S+))\s+",
    re.IGNORECASE,
)
_OUTPUT_LOOP = re.compile(
    rf"{_START}for\s+/f\s+(?:\"[^\"\n]{{0,300}}\"\s+)?\$(\w)\s+in\s+\(\s*['`]([^\n]{{0,500}})['`]\s*\)\s+do\s+",
    re.IGNORECASE,
)
_LOOP = re.compile(rf"{_START}for\s+(?:/\w+\s+)*\$(\w)\s+in\s+\(([^)\n]{{0,500}})\)\s+do\s+", re.IGNORECASE)
_PREFIX = re.compile(
    rf"{_START}(?:@|call\s+(?!:)|start\s+(?:\"[^\"\n]{{0,300}}\"\s+)?(?:/\w+\s+)*|cmd(?:\.exe)?\s+(?:/\w\s+)*/[ck]\s+)",
    re.IGNORECASE,
)
_ELSE = re.compile(r"\)\s*else\b", re.IGNORECASE)
_REMOVE = re.compile(rf"{_START}(?:rd|rmdir|del|erase)\b((?:\s+/\w)*)([^&|)\n]*)", re.IGNORECASE)
_SIGNS = re.compile(r"['`]|<(?=<)")
_MAX_PREFIXES = 5
_MAX_LINE = 8191
"""Windows reads no more of a line."""


def analyse(behaviour: Behaviour, text: str, taint: frozenset[Label] = NO_LABELS) -> None:
    """Scan a batch file."""
    lines = behaviour.report.cut(text, shell.MAX_CHARS).replace("\r\n", "\n").split("\n")
    shell.analyse(behaviour, "\n".join(map(_to_shell, lines)), taint)


def _to_shell(line: str) -> str:
    """Return a line of a batch file as shell code."""
    if _REMARK.match(line):
        return "#"
    # Of two carets, the first makes the second plain text.
    if (len(line) - len(line.rstrip("^"))) % 2:
        return _to_shell(line[:-1]) + "\\"
    line = re.sub(r"\^(.)", r"\1", line[:_MAX_LINE]).replace("\\", "/").replace("$", "\\$")
    line = _VARIABLE.sub(_name_variable, line)
    if assigned := _SET.match(line):
        return _quote(f'{assigned[1]}{assigned[2]}="{assigned[3]}"')
    # One may follow the other: `if exist x call cmd /c …`.
    for _ in range(_MAX_PREFIXES):
        before = line
        line = _PREFIX.sub(r"\1\2", _CONDITION.sub(r"\1\2", line))
        line = _LOOP.sub(r"\1\2\3=\4; ", _OUTPUT_LOOP.sub(r"\1\2\3=$(\4); ", line))
        if line == before:
            break
    return _quote(_ELSE.sub("); ", _REMOVE.sub(_remove, line)))


def _quote(line: str) -> str:
    """Return a line in which nothing but `"` quotes, and nothing starts a comment or a text of several lines.

    In a batch file the other signs are plain text. In a shell one of them would hide what follows.
    """
    parts = line.split('"')
    plain = [_SIGNS.sub("", part).replace("#", "\\#") for part in parts[::2]]
    quoted = [part.replace("`", "\\`") for part in parts[1::2]]
    parts[::2], parts[1::2] = plain, quoted
    return '"'.join(parts) + ("" if len(parts) % 2 else '"')


def _name_variable(found: re.Match[str]) -> str:
    loop, argument, name = found.groups()
    if name:
        return _FOLDERS.get(name.lower(), f"${{{name}}}")
    # Loops have one letter, and without any of these it is the folder of the file: `%~dp0`.
    return f"${loop or argument}" if loop or argument else "."


def _remove(found: re.Match[str]) -> str:
    start, space, options, paths = found.groups()
    return f"{start}{space}rm {'-r' if '/s' in options.lower() else ''}{re.sub(r'(?i)/[a-z](?=[ ]|$)', '', paths)}"
